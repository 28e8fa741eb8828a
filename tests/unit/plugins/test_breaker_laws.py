"""The breaker against a model of its own: any traffic, any clock, any restart, and the laws that must hold.

The model is written as plain branches, on purpose: it shares neither the table nor the machine with what it checks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from omniroute_addon.plugins.circuit_breaker import CircuitBreaker

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.model import Attempt, ModelCall, ResetOrder
from omniroute_addon.settings import Settings
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_provider,
    make_story,
    make_target,
    make_verdict,
)
from omniroute_addon.testing.clock import ManualClock

START_MS = 1_800_000_000_000
TABLE = "circuit_breaker"


@dataclass
class Model:
    """What the specification says, in order."""

    open_at: int = 4
    degrade_at: int = 2
    reset_ms: int = 10_000
    multiplier: int = 4
    escalation: int = 1
    slots: int = 1
    state: str = "CLOSED"
    count: int = 0
    failed_at: int | None = None
    cycles: int = 0
    era: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    probes: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Request -> era in which it became a probe, end of its lease."""
    freed: set[int] = field(default_factory=set)
    """Probes that gave their place back or lost it."""

    def hold(self) -> int:
        grown = self.reset_ms
        for _ in range(max(0, self.cycles - self.escalation)):
            grown = min(grown * 2, self.reset_ms * self.multiplier)
        return grown

    def go(self, state: str) -> None:
        self.state = state
        self.era += 1

    def read(self, now: int) -> None:
        if self.failed_at is not None:
            self.failed_at = min(self.failed_at, now)
        if self.state == "OPEN" and (self.failed_at is None or now - self.failed_at >= self.hold()):
            self.go("HALF_OPEN")
        if self.state == "HALF_OPEN":  # a lease never lasts longer than one reset timeout from now
            for request, (era, end) in self.probes.items():
                self.probes[request] = (era, min(end, now + self.reset_ms) if era == self.era else end)
        quiet = self.failed_at is not None and now - self.failed_at >= self.reset_ms * self.multiplier
        if quiet and self.state in ("CLOSED", "DEGRADED"):
            self.count = 0
            if self.state == "DEGRADED":
                self.go("CLOSED")

    def running(self, now: int) -> int:
        """Probes of this era whose lease runs."""
        for request, (_, end) in self.probes.items():
            if end <= now:
                self.freed.add(request)  # permits end for good, even when the clock is turned back later
        return sum(era == self.era and request not in self.freed for request, (era, _) in self.probes.items())

    def may_send(self, now: int) -> bool:
        self.read(now)
        if self.state == "HALF_OPEN":
            return self.running(now) < self.slots
        return self.state != "OPEN"

    def start(self, request: int, now: int) -> None:
        if self.state == "HALF_OPEN":
            self.probes[request] = (self.era, now + self.reset_ms)

    def end(self, request: int, how: str, connection: str, now: int) -> None:
        was_probe = request in self.probes
        self.running(now)
        era, lease = self.probes.pop(request, (-1, 0))
        valid = (
            was_probe and self.state == "HALF_OPEN" and era == self.era and now < lease and request not in self.freed
        )
        if how in ("neutral", "abort") or (was_probe and not valid):
            return
        if how == "success":
            if self.count == 0 and self.state == "CLOSED":
                return
            self.read(now)
            if valid:
                self.count, self.cycles = 0, 0
                self.go("CLOSED")
            elif self.state in ("CLOSED", "DEGRADED"):
                self.count = max(0, self.count - 1)
                if self.state == "DEGRADED" and self.count <= self.degrade_at:
                    self.go("CLOSED")
            return
        self.read(now)
        if valid:
            self.cycles += 1
            self.counted(connection, now)
            self.go("OPEN")
        elif self.state in ("CLOSED", "DEGRADED") and not 0 <= now - self.seen.get(connection, now + 1) < 5_000:
            self.counted(connection, now)
            if self.count >= self.open_at:
                self.go("OPEN")
            elif self.count >= self.degrade_at and self.state == "CLOSED":
                self.go("DEGRADED")

    def counted(self, connection: str, now: int) -> None:
        self.count += 1
        self.failed_at = now
        # Only recent ones are kept, so that a turned clock cannot bring an old one back.
        self.seen = {c: at for c, at in self.seen.items() if 0 <= now - at < 5_000} | {connection: now}

    def reset(self) -> None:
        self.count, self.cycles, self.failed_at, self.seen = 0, 0, None, {}
        self.go("CLOSED")


class BreakerLaws(RuleBasedStateMachine):
    """One provider, three connections; each rule does the same to the plugin and to the model."""

    requests: Bundle[int] = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.manual = ManualClock(START_MS / 1000)
        self.model = Model()
        self.calls: dict[int, tuple[ModelCall, str]] = {}
        self.numbers = 0
        self.store = MemoryStore()
        self.plugin = CircuitBreaker()

        self._start()

    @property
    def now(self) -> float:
        return self.manual.time

    @property
    def now_ms(self) -> int:
        return round(self.manual.time * 1000)

    def _start(self) -> None:
        m = self.model
        own = {
            "failure_threshold": m.open_at,
            "degradation_threshold": m.degrade_at,
            "reset_timeout_ms": m.reset_ms,
            "max_backoff_multiplier": m.multiplier,
            "backoff_escalation_count": m.escalation,
        }
        given = {"circuit_breaker": {"api_key": own, "half_open_requests": m.slots, "forget_after_ms": 86_400_000}}
        core = Core(
            config=Config(settings=Settings.model_validate(given)),
            packs=SimpleNamespace(providers={"openai": make_provider()}),  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            clock=self.manual.clock,
            store=self.store,
        )
        self.plugin.start(core=core)

    # ------------------------------------------------------------ traffic

    @rule(target=requests, connection=st.sampled_from("abc"))
    def ask(self, connection: str) -> Any:
        return self.request(connection)

    @rule(request=consumes(requests), how=st.sampled_from(["success", "failure", "failure", "neutral", "abort"]))
    def answer(self, request: int, how: str) -> None:
        self.end(request, how)

    def request(self, connection: str) -> int:
        call, target = make_call(), make_target(connection)
        excluded = self.plugin.exclude(call=call, targets=[target], now=self.now)
        assert (not excluded) is self.model.may_send(self.now_ms)
        self.numbers += 1
        if excluded:
            [exclusion] = excluded
            assert exclusion.until is not None
            longest = self.model.reset_ms * self.model.multiplier
            assert self.now_ms <= round(exclusion.until * 1000) <= self.now_ms + longest
            assert self.plugin.admit(call=call, target=target, now=self.now) is not None
        else:
            assert self.plugin.admit(call=call, target=target, now=self.now) is None
            self.model.start(self.numbers, self.now_ms)
            self.calls[self.numbers] = (call, connection)
        return self.numbers

    def end(self, request: int, how: str) -> None:
        if request not in self.calls:
            return
        call, connection = self.calls.pop(request)
        before, attempt = self.model.state, make_attempt(make_target(connection))
        if how == "success":
            done = Attempt(number=1, target=attempt.target, tries=1, started_at=0)
            self.plugin.succeeded(call=call, attempt=done, now=self.now)
        elif how != "abort":
            failed = how == "failure"
            verdict = make_verdict(
                "server_error" if failed else "rate_limit", status=503 if failed else 429, breaker=failed
            )
            story = make_story(attempt, answer=make_answer(verdict.status), verdict=verdict)
            self.plugin.failed(call=call, story=story, now=self.now)
        self.plugin.finish(call=call, now=self.now)
        self.model.end(request, how, connection, self.now_ms)
        if how in ("neutral", "abort"):
            assert self.model.state == before == self._row()["state"]

    # Deep states are rare in random traffic, so there are rules that lead to them.

    @rule(
        late=st.sampled_from(["success", "failure", "neutral"]), how=st.sampled_from(["success", "failure", "failure"])
    )
    def outage(self, late: str, how: str) -> None:
        """Enough failures to open, the late answer of a request from before, and a probe after the hold."""
        before = self.request("late")
        for _ in range(self.model.open_at):
            self._whole("failure", f"fresh{self.numbers}")
        self.end(before, late)
        self.open_always_ends()
        self._whole(how, "a")

    @rule(successes=st.integers(1, 3))
    def a_bad_hour(self, successes: int) -> None:
        """Enough failures to degrade, and some successes."""
        for _ in range(self.model.degrade_at + 1):
            self._whole("failure", f"fresh{self.numbers}")
        for _ in range(successes):
            self._whole("success", "a")

    @precondition(lambda self: self.model.state == "HALF_OPEN")
    @rule(
        gap_ms=st.sampled_from([0, 1, 5_000, 20_000]),
        late=st.sampled_from(["success", "failure"]),
        how=st.sampled_from(["success", "failure", "abort"]),
    )
    def a_probe_hangs(self, gap_ms: int, late: str, how: str) -> None:
        """CB-40, CB-41: it answers in the middle of the next one, or in a later period, or after its lease."""
        hanging = self.request("a")
        self.time_passes(gap_ms)
        following = self.request("b")
        self.end(following, how)
        self.open_always_ends()
        again = self.request("c")
        self.end(hanging, late)
        self.end(again, how)

    def _whole(self, how: str, connection: str) -> None:
        self.end(self.request(connection), how)

    # ------------------------------------------------------------ time, people, restarts

    @rule(ms=st.sampled_from([1, 999, 4_999, 5_000, 9_999, 10_000, 20_000, 40_000]))
    def time_passes(self, ms: int) -> None:
        self.manual.set((self.now_ms + ms) / 1000)

    @rule(ms=st.sampled_from([-3_600_000, -7_000, -1, 3_600_000]))
    def clock_jumps(self, ms: int) -> None:
        self.manual.set((self.now_ms + ms) / 1000)

    @rule()
    def restart(self) -> None:
        """CB-58 to CB-60: the rows survive, who held a probe does not."""
        rows = json.loads(json.dumps({k: _plain(v) for k, v in self.store.table(TABLE).scan()}))
        self.store, self.plugin = MemoryStore(), CircuitBreaker()
        table = self.store.table(TABLE, keep=True)
        for key, value in rows.items():
            table.update(key, lambda _, value=value: value)
        self.calls.clear()
        self.model.probes.clear()
        self.model.freed.clear()
        self._start()

    @rule(reset_ms=st.sampled_from([5_000, 10_000, 20_000]), open_at=st.integers(2, 6), slots=st.integers(1, 3))
    def settings_change(self, reset_ms: int, open_at: int, slots: int) -> None:
        """CB-62"""
        self.model.reset_ms, self.model.open_at, self.model.slots = reset_ms, open_at, slots
        self.model.degrade_at = min(2, open_at - 1)
        self._start()

    @precondition(lambda self: self.store.table(TABLE).get("openai") is not None)
    @rule()
    def person_resets(self) -> None:
        """CB-68"""
        assert len(self.plugin.reset(ResetOrder(part="provider"), self.now)) == 1
        self.model.reset()

    @rule()
    def hold_passes(self) -> None:
        self.open_always_ends()

    def open_always_ends(self) -> None:
        """The law: whatever happened, an open breaker is half-open after its hold."""
        self._read()
        if self.model.state == "OPEN":
            self.manual.set((self.now_ms + self.model.hold()) / 1000)
            assert self._read()["state"] == "HALF_OPEN"

    # ------------------------------------------------------------ comparing

    def _row(self) -> dict[str, Any]:
        row = self.store.table(TABLE).get("openai")
        return dict(row) if row else {"state": "CLOSED", "failureCount": 0}

    def _read(self) -> dict[str, Any]:
        self.model.read(self.now_ms)
        shown = self.plugin.status(self.now)
        return (
            dict(shown[0]) if shown else {"state": "CLOSED", "failureCount": 0, "openCycleCount": 0, "retryAfterMs": 0}
        )

    @invariant()
    def never_more_probes_than_allowed(self) -> None:
        """CB-36; a lowered setting takes no lease away."""
        assert self.model.running(self.now_ms) <= 3
        if self.model.state == "HALF_OPEN" and self.model.slots == 1 and self.model.running(self.now_ms) == 0:
            assert self.plugin.exclude(call=make_call(), targets=[make_target()], now=self.now) == []

    @invariant()
    def plugin_and_model_agree(self) -> None:
        shown = self._read()
        assert (shown["state"], shown["failureCount"]) == (self.model.state, self.model.count)
        assert shown["openCycleCount"] == self.model.cycles
        if self.model.state == "OPEN":
            assert self.model.failed_at is not None
            assert shown["retryAfterMs"] == self.model.failed_at + self.model.hold() - self.now_ms
        # What a read saw is what the store holds.
        assert (self._row()["state"], self._row()["failureCount"]) == (shown["state"], shown["failureCount"])


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


TestBreakerLaws = BreakerLaws.TestCase
TestBreakerLaws.settings = settings(
    max_examples=60, stateful_step_count=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
