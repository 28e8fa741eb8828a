"""Connection cooldown: a connection that failed rests for a while, or is out until a person acts; others serve meanwhile.

The theory and the steps stand in `omniroute_addon.cooldown.steps` (`spec/03`), what is remembered in `cooldown.rest`, and
whom a failure concerns in `failure_effects`. This plugin ties them to a request's life:

    exclude    who rests (`connection_cooldown`, `egress_lock`) or is out (`connection_terminal`) is passed by
    admit      an expired login gets one of its bounded tries (`CC-71`)
    failed     the state after a failure; refusals of the way of calling, which `failed` is not told of, in `finish`
    succeeded  clears, for every connection with the same credential (`A06`)

State survives a restart; the streak of refusals does not (`CC-62`). The client's own credential rests like any other,
so that a configured one comes first, but it is never out, and the engine sends it when nothing else is left.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from dataclasses import replace

from omniroute_addon import hookimpl
from omniroute_addon.connection_key import SharedCredentials, connection_id, connection_key, is_guest, is_shared_rule
from omniroute_addon.cooldown.book import MOST, ConnectionBook
from omniroute_addon.cooldown.refusals import Refusals
from omniroute_addon.cooldown.rest import CLEAN, Rest
from omniroute_addon.cooldown.shown import as_timer, entry
from omniroute_addon.cooldown.steps import (
    Failure,
    Policy,
    after_failure,
    after_success,
    after_try,
    failure_of,
    next_try_at,
    wait_counts,
)
from omniroute_addon.core import Core
from omniroute_addon.failure_effects import Effects, effects_of
from omniroute_addon.model import (
    Attempt,
    Category,
    Cleared,
    Connection,
    Exclusion,
    ModelCall,
    ResetOrder,
    Story,
    Target,
    Timer,
)
from omniroute_addon.refused import Refused

log = logging.getLogger(__name__)

TERMINAL_LABEL = "connection_terminal"
_SHARED_QUOTA = "shared egress quota"


class ConnectionCooldown:
    """The mechanism. States are in the store; here is what dies with the proxy."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._book: ConnectionBook | None = None
        self._shared = SharedCredentials()
        self._refusals = Refusals()
        self._hints_told: set[str] = set()
        self._known: set[str] = set()
        self._guests = 0
        # By identity: two calls may be equal. The call is kept so that its identity stays its own.
        self._tries: dict[int, tuple[ModelCall, str]] = {}

    # ------------------------------------------------------------ hooks

    @hookimpl
    def start(self, core: Core) -> None:
        self._core, self._book = core, ConnectionBook(core.store)
        connections = core.config.connections
        self._shared = SharedCredentials(connections)
        self._known = {connection_key(c) for c in connections}
        self._refusals.keep(self._known)
        self.book.forget_strangers(self._known, core.clock.now())
        self._thin_out(core.clock.now())

    @hookimpl
    def exclude(self, targets: Sequence[Target], now: float) -> list[Exclusion]:
        out: list[Exclusion] = []
        for target in targets:
            rest = self.book.get(connection_key(target.connection))
            if rest is CLEAN:
                continue
            if rest.terminal:
                again = self._next_try_at(target.connection.provider, rest)
                if again is None or now < again:
                    detail = f"{rest.status}, needs a person: {rest.cause}"
                    out.append(Exclusion(target=target, label=TERMINAL_LABEL, detail=detail, until=again))
            elif now < rest.until:
                out.append(
                    Exclusion(
                        target=target, label=rest.label, detail=rest.cause, reason=rest.error_type, until=rest.until
                    )
                )
        return out

    @hookimpl
    def admit(self, call: ModelCall, target: Target, now: float) -> Awaitable[None] | None:
        self._tries.pop(id(call), None)
        key = connection_key(target.connection)
        rest = self.book.get(key)
        if not rest.terminal or target.connection.own:
            return None
        again = self._next_try_at(target.connection.provider, rest)
        if again is None or now < again:  # another request took the try, or the state came after the choice
            return Refused(f"{rest.status}, needs a person: {rest.cause}")
        self.book.change(key, lambda r: after_try(r, now), provider=target.connection.provider)
        self._tries[id(call)] = (call, key)
        log.info("expired login is tried again: connection=%s try=%d", target.connection.id, rest.tries + 1)
        return None

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        self._tries.pop(id(call), None)
        connection = story.attempt.target.connection
        if story.answer.status:
            self._refusals.ended(connection_key(connection), now)
        if story.verdict.kind == "request_rejected":
            self._refused(story, now)
            return
        effects = self._effects(story)
        if effects.connection != "nothing":
            self._learn(connection, self._failure(story, effects), now)
            self._tell_of_ignored_hint(story, connection)

    @hookimpl
    def succeeded(self, call: ModelCall, attempt: Attempt, now: float) -> None:
        connection = attempt.target.connection
        held = self._tries.pop(id(call), None)
        for key in self._shared.keys(connection):
            self._refusals.ended(key, now)
            tried = held is not None and held[1] == key
            if self.book.get(key) is not CLEAN:
                before, after = self.book.change(
                    key,
                    lambda r, t=tried: after_success(r, started_at=attempt.started_at, tried=t),  # type: ignore[misc]
                    provider=connection.provider,
                )
                _tell(connection_id(key), before, after)

    @hookimpl
    def finish(self, call: ModelCall, stories: Sequence[Story], now: float) -> None:
        self._tries.pop(id(call), None)
        for story in stories:
            if story.verdict.scope != "request":
                continue
            if story.verdict.kind == "request_rejected":
                self._refused(story, now)
            elif story.answer.status:
                self._refusals.ended(connection_key(story.attempt.target.connection), story.ended_at)

    # ------------------------------------------------------------ for people

    @hookimpl
    def timers(self, now: float) -> list[Timer]:
        """Every connection that is out of routing (`ML-60`)."""
        return [
            as_timer(
                entry(connection_id(key), str(value.get("provider")), rest, now),
                rest,
                label=TERMINAL_LABEL if rest.terminal else rest.label,
                again=self._next_try_at(str(value.get("provider")), rest),
            )
            for key, rest, value in self.book.rows()
            if (rest.terminal or rest.until > now) and (key in self._known or is_guest(key))
        ]

    @hookimpl
    def reset(self, order: ResetOrder) -> list[Cleared]:
        """Clear connections. A terminal state only when the order says so (`CC-57`)."""
        cleared: list[Cleared] = []
        if order.part not in ("connection", "all"):
            return cleared
        for key, rest, value in list(self.book.rows(provider=order.provider)):
            named = order.connections is None or connection_id(key) in order.connections
            if not named or (rest.terminal and not order.terminal):
                continue
            self.book.forget(key)
            if not (key in self._known or is_guest(key)):
                continue
            label = TERMINAL_LABEL if rest.terminal else rest.label
            who = {"provider": str(value.get("provider")), "connection": connection_id(key)}
            cleared.append(Cleared(part="connection", mechanism=label, state=repr(rest), **who))
        return cleared

    def tested(self, connection: Connection, now: float, failure: Story | None = None) -> None:
        """A connection test ended. Passed: clears everything, also a terminal state (`CC-55`). Failed: is written down,
        and changes nothing else unless the operator wants that (`CC-83`, `CC-84`)."""
        if failure is None:
            self.book.forget(connection_key(connection))
            return
        effects = self._effects(failure)
        counts = self.core.config.settings.connection_cooldown.probe_can_disable
        noted = effects if counts else replace(effects, connection="note")
        self._learn(connection, self._failure(failure, noted), now)

    @property
    def book(self) -> ConnectionBook:
        """All states, by connection key."""
        assert self._book is not None, "start() comes first"
        return self._book

    @property
    def core(self) -> Core:
        """What `start` gave."""
        assert self._core is not None, "start() comes first"
        return self._core

    # ------------------------------------------------------------ inside

    def _effects(self, story: Story) -> Effects:
        provider = self.core.packs.providers.get(story.attempt.target.connection.provider)
        return effects_of(story, self.core.config.settings, provider)

    def _class(self, provider: str) -> Category:
        """By what the pack says, not by the address: a private gateway before an account is not a server of one's own."""
        pack = self.core.packs.providers.get(provider)
        return pack.category if pack else "api_key"

    def _policy(self, connection: Connection) -> Policy:
        return Policy.of(self.core.config.settings, self._class(connection.provider))

    def _failure(self, story: Story, effects: Effects) -> Failure:
        connection, settings = story.attempt.target.connection, self.core.config.settings
        shared = is_shared_rule(story.verdict.rule.file)
        failure = failure_of(story, effects.connection, self._policy(connection), shared_rule=shared)
        if effects.siblings:
            text = f"{_SHARED_QUOTA}: {failure.error}"
            least_s = settings.egress_lock.fallback_ms / 1000
            failure = replace(failure, error=text[:100], least_s=least_s, label="egress_lock")
        words = settings.connection_cooldown.custom_banned_signals
        if words and not connection.own and any(w.lower() in story.verdict.message.lower() for w in words):
            failure = replace(failure, out="banned", unexplained_403=False)  # CC-66
        return failure

    def _learn(self, connection: Connection, failure: Failure, now: float) -> None:
        key, policy = connection_key(connection), self._policy(connection)
        before, after = self.book.change(
            key, lambda rest: after_failure(rest, failure, policy, now), provider=connection.provider
        )
        _tell(connection.id, before, after)
        if before is CLEAN and connection.own:
            self._guests += 1
            if self._guests % (MOST // 10) == 0:  # so that the cost of a sweep is spread
                self._thin_out(now)

    def _refused(self, story: Story, now: float) -> None:
        """`CC-60`, `CC-61`: the way of calling is disliked; again and again, it is the account."""
        connection, group = story.attempt.target.connection, self.core.config.settings.connection_cooldown
        if connection.own:
            return
        count = self._refusals.count(connection_key(connection), story.ended_at)
        banned = 0 < group.refusals_before_ban <= count
        failure = failure_of(story, "rest", self._policy(connection), shared_rule=False)
        failure = replace(
            failure,
            declared_s=0.0,
            fixed_s=group.refusal_ms / 1000,
            error_type="rate_limit_exceeded",
            out="banned" if banned else None,
        )
        self._learn(connection, failure, now)

    def _next_try_at(self, provider: str, rest: Rest) -> float | None:
        """Only a login that somebody renews outside can come back by itself (`CC-71`)."""
        if self._class(provider) != "oauth":
            return None
        group = self.core.config.settings.connection_cooldown
        return next_try_at(rest, tries=group.expired_tries, base_ms=group.expired_try_base_ms)

    def _tell_of_ignored_hint(self, story: Story, connection: Connection) -> None:
        wait, key = story.verdict.retry_after, connection_key(connection)
        ignored = wait and not wait_counts(story.verdict, self._policy(connection))
        if wait and ignored and key not in self._hints_told and not connection.own:
            self._hints_told.add(key)
            log.info(
                "the upstream's wait is not used for this class: connection=%s wait=%.0fs", connection.id, wait.seconds
            )

    def _thin_out(self, now: float) -> None:
        self.book.thin_out(now, forget_s=self.core.config.settings.connection_cooldown.forget_ladder_ms / 1000)


def _tell(connection: str, before: Rest, after: Rest) -> None:
    if after.terminal and not before.terminal:
        log.warning("connection is out: connection=%s state=%r", connection, after)
    elif after != before:
        log.info("connection changed: connection=%s state=%r", connection, after)


plugin = ConnectionCooldown()
