"""A request's life: who is asked, in which order, and what follows from the answers.

The engine is synchronous and pure: it reads an injected clock, asks plugins, and returns the next step. It never waits,
sends or receives; `stream.py` does that and comes back. The loop of `design.md` §3 (exclude → order → admit → prepare →
… → learn → next) is `advance` and `failed`, called in turn until `advance` says `Reply` or the stream has committed.

Nothing here knows a mechanism by name. What the engine itself decides:

* Rotation among targets is bounded by their number; each is left for good once it failed (`A24`).
* One retry budget a call pays for tries in place. A verdict says whether a try in place is worth it (`A07`).
* A server fault (500, 502, 503, 504) belongs to the provider: other keys at the same address are not asked (`A24`).
* The client's own credential is never refused locally: when nothing else is left it is sent, whatever a timer says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

from .agents import Caller, Callers
from .choosing import NOT_ADMITTED, excluded, has_alternatives, usable_targets
from .consequences import holds_for_the_address, origin
from .core import Core
from .deadlines import Deadlines
from .exchange import Exchange, Pause, RawAnswer, Reply, Send, Step
from .final_answer import final_reply
from .history import History
from .holding import begin_hold, go_on_holding
from .identify import Identifier
from .learning import by_agent, learn, on_one_line
from .model import Answer, Attempt, Exclusion, ModelCall, Target, Verdict
from .peers import is_loopback
from .plugin_host import PluginHost
from .preparing import is_native, prepared
from .quoted import unquoted
from .watch import Watch

log = logging.getLogger(__name__)

_UNREACHABLE = ("network", "timeout")
"""Tried in place only when nothing else is left: a dead address stays dead for longer than a pause."""


class Engine:
    """Decides; see the module's text. Raises nothing for any input: what cannot be understood is not ours."""

    def __init__(self, core: Core, plugins: PluginHost) -> None:
        self.core = core
        self.plugins = plugins
        self.verified_tls = True
        """mitmproxy checks upstream certificates; without that no configured credential leaves (design.md §7.4)."""
        self.callers = Callers()
        self.history = History(core)
        """Finished requests, for people."""
        doors = Identifier(core, plugins, self.history.new_id)
        self.decrypts, self.is_ours, self.identify = doors.decrypts, doors.is_ours, doors.identify

    def trusts(self, peer: str, caller: Caller | None) -> bool:
        """Configured credentials are for this machine, and for agents that proved who they are (`design.md` §7.1)."""
        return is_loopback(peer) or (caller is not None and caller.is_proved(self.core.config.agents))

    # ------------------------------------------------------------ exclude, order, admit, prepare

    def advance(self, ex: Exchange) -> Step:
        """What to do now. Called at the start, after a pause, and after `failed`."""
        if ex.permits:
            return Pause(permit=ex.permits.pop(0))
        now = self.core.clock.now()
        if ex.held_until and (pause := go_on_holding(ex, lambda: self._all_excluded(ex, now), now)):
            return pause
        target, ex.admitted = ex.admitted, None
        if target is None:
            if ex.pause_s:
                seconds, ex.pause_s = ex.pause_s, 0.0
                return Pause(seconds=seconds)
            late = bool(ex.stories) and now >= ex.deadline_at
            target = None if ex.final or late else self._choose(ex, now)
            if target is None and (pause := self._wait(ex, now)) is not None:
                return pause
            if target is None and not (ex.final or late):
                # Never refused locally: whatever a timer says, it is sent.
                target = next((t for t in ex.targets if t.connection.own and t.key not in ex.spent), None)
            if target is None:
                return self._last_word(ex, now)
            permits = self.plugins.each("admit", call=ex.call, target=target, now=now)
            if permits:
                ex.admitted, ex.permits = target, permits
                return self.advance(ex)
        return self._send(ex, target, now)

    def not_admitted(self, ex: Exchange, reason: str) -> None:
        """A permit was refused: pass the target by."""
        if ex.admitted is not None:
            ex.spent.add(ex.admitted.key)
            refused = Exclusion(target=ex.admitted, label=NOT_ADMITTED, detail=reason)
            ex.exclusions += (refused,)
            ex.skipped[refused.target.key, NOT_ADMITTED] = refused
        ex.admitted = None
        _let_go(ex.permits)

    def _choose(self, ex: Exchange, now: float) -> Target | None:
        if ex.again is not None:
            target, ex.again = ex.again, None
            return target
        usable = usable_targets(ex, self.plugins, now, verified_tls=self.verified_tls)
        if usable:
            return self._order(ex.call, usable, now)
        if any(t.connection.own and t.key not in ex.spent for t in ex.targets):
            return None
        verdict = ex.last_verdict
        if verdict and verdict.kind in _UNREACHABLE and self._may_try_in_place(ex, verdict):
            self._in_place(ex, verdict)
        return None

    def _all_excluded(self, ex: Exchange, now: float) -> list[Exclusion]:
        return excluded(ex, ex.targets, self.plugins, now, verified_tls=self.verified_tls)

    def _order(self, call: ModelCall, usable: Sequence[Target], now: float) -> Target:
        if len(usable) > 1:
            ordered = self.plugins.first("order", call=call, targets=usable, now=now)
            first: Target | None = next((t for t in ordered or () if t in usable), None)
            if first is not None:
                return first
        return usable[0]

    def _last_word(self, ex: Exchange, now: float) -> Reply:
        reply = final_reply(ex, now, survival=self.core.config.settings.final_answer == "survival")
        log.info(
            "gave up: provider=%s model=%s attempts=%d status=%d %s request=%s%s",
            *(ex.call.provider, on_one_line(ex.call.model), ex.attempts, reply.status),
            " ".join(f"{e.target.connection.id}={e.label}" for e in ex.exclusions),
            *(ex.id, by_agent(ex)),
        )
        return reply

    def _wait(self, ex: Exchange, now: float) -> Pause | None:
        if ex.pause_s:
            seconds, ex.pause_s = ex.pause_s, 0.0
            return Pause(seconds=seconds)
        if ex.final or now >= ex.deadline_at or not self.plugins.listens("wait"):
            return None
        return begin_hold(ex, tuple(self._all_excluded(ex, now)), self.plugins, now)

    def _send(self, ex: Exchange, target: Target, now: float) -> Send:
        tries = 1 + sum(s.attempt.target.key == target.key for s in ex.stories)
        ex.attempt = Attempt(number=ex.attempts + 1, target=target, tries=tries, started_at=now)
        return Send(
            attempt=ex.attempt, outgoing=prepared(ex, target, self.plugins), alternatives=has_alternatives(ex, target)
        )

    def watch(self, ex: Exchange, step: Send) -> Watch:
        """The watch over the answer to this attempt."""
        deadlines = Deadlines(
            call=ex.call,
            settings=self.core.config.settings,
            started_at=step.attempt.started_at,
            call_deadline_at=ex.deadline_at,
            alternatives=step.alternatives,
        )
        return Watch(
            dialect=ex.dialect,
            deadlines=deadlines,
            trusted=self.verified_tls and is_native(step.attempt.target, self.core.packs),
        )

    # ------------------------------------------------------------ restate, classify, learn, next

    def failed(self, ex: Exchange, answer: Answer, raw: RawAnswer | None) -> Verdict:
        """An attempt ended badly before anything of it was shown. Decides what `advance` will say next."""
        assert ex.attempt
        answer, raw = unquoted(ex.attempt.target.connection, answer, raw)
        verdict = learn(ex, answer, self.core, self.plugins)
        if raw is not None:
            ex.raw[ex.attempt.number] = raw
        ex.last_verdict = verdict
        target = ex.attempt.target
        if self._repaired(ex, verdict) or self._tried_in_place(ex, verdict, answer):
            return verdict
        ex.final = not verdict.retry_other
        ex.spent.add(target.key)
        if verdict.scope in ("connection", "egress_ip"):
            ex.spent |= {t.key for t in ex.targets if t.connection.id == target.connection.id}
        if holds_for_the_address(verdict, answer):
            ex.spent |= {t.key for t in ex.targets if origin(t) == origin(target)}
        return verdict

    def _repaired(self, ex: Exchange, verdict: Verdict) -> bool:
        """Once per call, the same target may be sent a request that suits it better (`A29`)."""
        assert ex.attempt
        if ex.repaired or verdict.repair is None:
            return False
        target = ex.attempt.target
        body = self.plugins.first("repair", call=ex.call, target=target, verdict=verdict, body=ex.body)
        if body is None:
            return False
        ex.repaired, ex.body, ex.again = True, body, target
        return True

    def _tried_in_place(self, ex: Exchange, verdict: Verdict, answer: Answer) -> bool:
        """An HTTP status that says 'try again' is tried in place; what we found wrong ourselves goes elsewhere at once."""
        said = answer.fault is None and answer.phase != "stream" and verdict.kind not in _UNREACHABLE
        if not (said and verdict.retry_same and self._may_try_in_place(ex, verdict)):
            return False
        self._in_place(ex, verdict)
        return True

    def stale(self, ex: Exchange) -> None:
        """The upstream had closed a kept-alive connection before our request reached it: nobody's failure, send again."""
        assert ex.attempt
        ex.again = ex.attempt.target

    def _may_try_in_place(self, ex: Exchange, verdict: Verdict) -> bool:
        settings = self.core.config.settings
        return ex.in_place < settings.retries_in_place and _hint_s(verdict) * 1000 <= settings.retry_pause_max_ms

    def _in_place(self, ex: Exchange, verdict: Verdict) -> None:
        assert ex.attempt
        settings, clock = self.core.config.settings, self.core.clock
        ladder = min(settings.retry_pause_ms * 2**ex.in_place, settings.retry_pause_max_ms) / 1000
        ex.in_place += 1
        ex.pause_s = max(_hint_s(verdict), ladder / 2) + clock.chance() * ladder / 2
        ex.again = ex.attempt.target

    # ------------------------------------------------------------ after commit, finish

    def failed_after_commit(self, ex: Exchange, answer: Answer) -> Verdict:
        """The answer broke, or carried an error, while the client was reading: for the record only (`ST-35`)."""
        assert ex.attempt
        answer, _ = unquoted(ex.attempt.target.connection, answer, None)
        return learn(ex, answer, self.core, self.plugins)

    def finish(self, ex: Exchange, *, status: int, good: bool) -> None:
        """The request is over (`ST-124`): exactly once, whatever ended it. `good`: the running attempt ended well."""
        if ex.finished:
            return
        ex.finished, ex.status = True, status
        _let_go(ex.permits)
        now = self.core.clock.now()
        if good and ex.attempt is not None:
            if ex.stories:
                log.info(
                    "answered after failures: provider=%s model=%s connection=%s attempts=%d request=%s%s",
                    *(ex.call.provider, on_one_line(ex.call.model), ex.attempt.target.connection.id),
                    *(ex.attempts, ex.id, by_agent(ex)),
                )
            self.plugins.each("succeeded", call=ex.call, attempt=ex.attempt, now=now)
        self.plugins.each("finish", call=ex.call, stories=tuple(ex.stories), status=status, now=now)
        self.history.note(ex, good=good, now=now)


def _let_go(permits: list[Awaitable[None]]) -> None:
    """Permits that nobody will wait for: a task is cancelled, so that it does not take what it queues for."""
    while permits:
        permit = permits.pop()
        end = getattr(permit, "cancel", None) or getattr(permit, "close", None)
        if end is not None:
            end()


def _hint_s(verdict: Verdict) -> float:
    return verdict.retry_after.seconds if verdict.retry_after else 0.0
