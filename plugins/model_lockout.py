"""Model lockout: one model of one connection is left out while the connection goes on serving its others (`spec/04`).

The theory of a lock stands in `omniroute_addon.model_lockout.lock`, the three keys of a model in `model_lockout.keys`,
and when a failure locks a model at all in `failure_effects`. Three ways lead to a lock, shown as its origin:

    per_model_quota  the provider counts per model; whatever the switch says (`ML-17`)
    rule             the rule says that only this model is concerned, and it is a limit or the provider's own rule
    switch           `model_lockout.enabled`, after any failure with one of `error_codes` (`ML-16`)

A lock that is recorded is enforced: `exclude` lists it as `model_lockout` when it passes by itself soon, and as
`model_unavailable` when waiting does not help (`ML-55`). Which locks survive a restart says `SURVIVES_RESTART`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from omniroute_addon import hookimpl
from omniroute_addon.breaker.registry import TABLE_NAME as BREAKERS
from omniroute_addon.connection_key import SharedCredentials, connection_id, connection_key
from omniroute_addon.core import Core
from omniroute_addon.declared_wait import declared_wait_s, is_authoritative
from omniroute_addon.failure_effects import LockOrder, effects_of
from omniroute_addon.model import (
    Attempt,
    Category,
    Cleared,
    Exclusion,
    ModelCall,
    ResetOrder,
    Story,
    Target,
    Timer,
)
from omniroute_addon.model_lockout.book import LONGEST_NAME, LockBook, Place
from omniroute_addon.model_lockout.keys import Keys, family_of, keys_of, scope_for
from omniroute_addon.model_lockout.lock import LASTING, Cause, Figures, Lock, after_failure, after_success
from omniroute_addon.model_lockout.repeats import Repeats
from omniroute_addon.model_lockout.shown import as_timer, item
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.store import Table

log = logging.getLogger(__name__)


class ModelLockout:
    """The mechanism. Its state is in the store."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._book: LockBook | None = None
        self._breakers: Table | None = None
        self._shared = SharedCredentials()
        self._repeats = Repeats()

    # ------------------------------------------------------------ hooks

    @hookimpl
    def start(self, core: Core) -> None:
        self._core, self._book = core, LockBook(core.store)
        self._breakers = core.store.table(BREAKERS)
        connections = core.config.connections
        self._shared = SharedCredentials(connections)
        self.book.recall(core.clock.now(), persist=core.config.settings.model_lockout.persist)

    @hookimpl
    def exclude(self, targets: Sequence[Target], now: float) -> list[Exclusion]:
        out = []
        for target in targets:
            connection = connection_key(target.connection)
            if not self.book.has(connection):
                continue
            locks = [lock for key in self._keys(target, connection) if (lock := self.book.get(key))]
            last = max((lock for lock in locks if lock.until > now), key=lambda lock: lock.until, default=None)
            if last is not None:
                label = _label(last)
                detail = f"{target.model}: {last.reason} ({last.rule})"
                out.append(Exclusion(target=target, label=label, detail=detail, reason=last.reason, until=last.until))
        return out

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        core, target = self.core, story.attempt.target
        pack = core.packs.providers.get(target.connection.provider)
        order = effects_of(story, core.config.settings, pack).lock
        if (
            order is None
            or not 0 < len(target.model) <= LONGEST_NAME
            or self._breaker_blocks(target.connection.provider)
        ):
            return  # ML-13, ML-19
        connection, provider = connection_key(target.connection), provider_key(target.connection.provider)
        keys = self._keys(target, connection)
        scope = scope_for(story.verdict.status, order.reason, provider)
        key = keys.of(scope)
        if order.repeated and not self._repeats.enough(key, now):
            return
        cause, figures = self._cause(story, order), self._figures(target, order)
        settings = core.config.settings.model_lockout
        family = family_of(target.model, self._families(provider)) if scope == "quota_family" else None
        self.book.make_room(now)
        lock = self.book.change(
            key,
            lambda before: after_failure(before, cause, figures, now),
            Place(provider=provider, connection=connection, model=target.model, family=family),
            persist=settings.persist,
        )
        log.info("model locked: connection=%s model=%s state=%r", target.connection.id, target.model, lock)

    @hookimpl
    def succeeded(self, attempt: Attempt) -> None:
        target = attempt.target
        for connection in self._shared.keys(target.connection):
            if not self.book.has(connection):
                continue
            for key in self._keys(target, connection):
                self._decay(key, attempt.started_at)

    # ------------------------------------------------------------ for people

    @hookimpl
    def timers(self, now: float) -> list[Timer]:
        """Every lock in force, longest first (`ML-57`)."""
        running = [(lock, place) for _, lock, place in self.book.rows() if lock.until > now]
        running.sort(key=lambda pair: -pair[0].until)
        return [as_timer(lock, place, item(lock, place, now), label=_label(lock)) for lock, place in running]

    @hookimpl
    def reset(self, order: ResetOrder) -> list[Cleared]:
        """Remove locks and records of one model, of connections' models, of a provider's, or all (`ML-45`, `ML-58`,
        `ML-59`). A family goes with any of its models."""
        cleared: list[Cleared] = []
        if order.part == "provider":
            return cleared
        for key, lock, place in list(self.book.rows()):
            who = connection_id(place.connection)
            if order.connections is not None and who not in order.connections:
                continue
            if order.provider is not None and place.provider != provider_key(order.provider):
                continue
            keys = self._keys_of(place.provider, place.connection, order.model) if order.model is not None else None
            if keys is not None and key not in set(keys):
                continue
            self.book.forget(key)
            what = {"provider": place.provider, "connection": who, "model": place.model}
            cleared.append(Cleared(part="model", mechanism=_label(lock), state=repr(lock), **what))
        return cleared

    @property
    def book(self) -> LockBook:
        """All locks, by key."""
        assert self._book is not None, "start() comes first"
        return self._book

    @property
    def core(self) -> Core:
        """What `start` gave."""
        assert self._core is not None, "start() comes first"
        return self._core

    # ------------------------------------------------------------ inside

    def _class(self, provider: str) -> Category:
        """By what the pack says, not by the address: a private gateway before an account is not a server of one's own."""
        pack = self.core.packs.providers.get(provider)
        return pack.category if pack else "api_key"

    def _families(self, provider: str) -> Mapping[str, tuple[str, ...]]:
        return self.core.packs.quota_families.get(provider, {})

    def _keys(self, target: Target, connection: str) -> Keys:
        return self._keys_of(provider_key(target.connection.provider), connection, target.model)

    def _keys_of(self, provider: str, connection: str, model: str) -> Keys:
        return keys_of(provider, connection, model, self._families(provider))

    def _figures(self, target: Target, order: LockOrder) -> Figures:
        settings = self.core.config.settings
        lockout, category = settings.model_lockout, self._class(target.connection.provider)
        figures = Figures(
            base_s=lockout.base_cooldown_ms / 1000,
            max_s=lockout.max_cooldown_ms / 1000,
            steps=lockout.max_backoff_steps,
            exponential=lockout.use_exponential_backoff,
            window_s=getattr(settings.circuit_breaker, category).reset_timeout_ms / 1000,
        )
        if order.origin == "rule":  # stands in for the connection's rest, so it begins where that begins
            base_ms = getattr(settings.connection_cooldown, category).base_cooldown_ms
            figures = replace(figures, base_s=base_ms / 1000)
        return figures

    def _cause(self, story: Story, order: LockOrder) -> Cause:
        verdict = story.verdict
        wait = verdict.retry_after
        return Cause(
            reason=order.reason,
            origin=order.origin,
            rule=verdict.rule.id,
            declared_s=declared_wait_s(wait, max_hint_ms=self.core.config.settings.max_hint_ms),
            authoritative=is_authoritative(wait),
            hint=wait.source if wait else "",
            fixed_s=verdict.cooldown_s or 0.0,
        )

    def _decay(self, key: str, started_at: float) -> None:
        place = self.book.place(key)
        if place is not None:
            persist = self.core.config.settings.model_lockout.persist
            self.book.change(
                key, lambda lock: after_success(lock, started_at) if lock else None, place, persist=persist
            )

    def _breaker_blocks(self, provider: str) -> bool:
        assert self._breakers is not None
        value = self._breakers.get(provider_key(provider))
        return value is not None and value.get("state") == "OPEN"


def _label(lock: Lock) -> str:
    """Waiting a moment does not help against what lasts (`ML-55`)."""
    return "model_unavailable" if lock.reason in LASTING else "model_lockout"


plugin = ModelLockout()
