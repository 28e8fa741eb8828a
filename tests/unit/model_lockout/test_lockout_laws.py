"""The model lockout against a model of its own: one table of (connection, key) in whole milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from omniroute_addon.plugins.model_lockout import ModelLockout

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, RetryAfter, RuleRef, Target
from omniroute_addon.settings import Settings
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_connection,
    make_provider,
    make_story,
    make_target,
    make_verdict,
)
from omniroute_addon.testing.clock import ManualClock

CONNECTIONS, MODELS = ("a", "b"), ("gpt-1", "gpt-2", "spark-1")
FAMILIES = {"codex": {"spark": ("*spark*",), "codex": ("*",)}}
WINDOW, BASE, MOST = 60_000, 120_000, 1_800_000


@dataclass
class Row:
    until: int
    count: int
    at: int
    span: int
    quota: bool


def names(connection: str, model: str) -> dict[str, tuple[str, ...]]:
    """What the sheet of paper calls the three keys."""
    family = "spark" if "spark" in model else "gpt"
    return {"family": (connection, "family", family), "bare": (connection, model), "exact": (connection, "=", model)}


class Lockout(RuleBasedStateMachine):
    """Limits, server faults, missing models, successes (also late ones), time, a turned clock, restarts, resets."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(start=1_800_000_000.0)
        self.store = MemoryStore()
        self.rows: dict[tuple[str, ...], Row] = {}

    @initialize()
    def begin(self) -> None:
        self._open()

    @property
    def now(self) -> int:
        return round(self.clock.time * 1000)

    def _open(self) -> None:
        self.core = Core(
            config=Config(settings=Settings()),
            packs=SimpleNamespace(  # type: ignore[arg-type]
                providers={"codex": make_provider("codex", category="oauth", traits=frozenset({"per_model_quota"}))},
                quota_families=FAMILIES,
            ),
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=self.store,
        )
        self.plugin = ModelLockout()
        self.plugin.start(core=self.core)

    @rule(seconds=st.sampled_from([0.0, 1.0, 60.0, 120.0, 180.0, 240.0, 2000.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([1.0, 300.0]))
    def the_clock_is_turned_back(self, seconds: float) -> None:
        self.clock.set(self.clock.time - seconds)

    @rule()
    def reload(self) -> None:
        self._open()

    @rule()
    def restart(self) -> None:
        """A new process: only the kept table is left (ML-47)."""
        old, self.store = self.store, MemoryStore()
        for key, value in old.table("model_lockout_kept").scan():
            self.store.table("model_lockout_kept").update(key, lambda _, kept=value: dict(kept))  # type: ignore[misc]
        self._open()
        self.rows = {k: r for k, r in self.rows.items() if r.quota and r.until > self.now}

    @rule(
        connection=st.sampled_from(CONNECTIONS),
        model=st.sampled_from(MODELS),
        sort=st.sampled_from(["limit", "limit", "quota", "fault", "missing"]),
        wait=st.sampled_from([0, 0, 5, 300, 90_000]),
    )
    def fails(self, connection: str, model: str, sort: str, wait: int) -> None:
        kind, status, key, scope = {
            "limit": ("rate_limit", 429, "family", "connection"),
            "quota": ("quota_exhausted", 429, "family", "connection"),
            "fault": ("server_error", 503, "exact", "provider"),
            "missing": ("model_not_found", 404, "bare", "model"),
        }[sort]
        if sort == "quota" and not wait:
            wait = 300  # without one it is the next midnight, which has tests of its own
        hint = RetryAfter(seconds=wait, source="header:retry-after") if wait else None
        story = make_story(
            make_attempt(self._target(connection, model), started_at=self.clock.time),
            answer=make_answer(status),
            verdict=make_verdict(kind, status=status, scope=scope, retry_after=hint, rule=RuleRef(id="r")),
        )
        self.plugin.failed(call=make_call(), story=story, now=self.clock.time)
        self._expect(names(connection, model)[key], wait * 1000, quota=sort == "quota")

    @rule(
        connection=st.sampled_from(CONNECTIONS),
        model=st.sampled_from(MODELS),
        sort=st.sampled_from(["limit", "fault"]),
        times=st.integers(2, 5),
        late=st.sampled_from([0.0, 59.0, 60.0, 61.0]),
        heals=st.integers(0, 2),
    )
    def fails_again_and_again(
        self, connection: str, model: str, sort: str, times: int, late: float, heals: int
    ) -> None:
        """Each time soon after the lock before it ended: what random time alone hardly ever meets."""
        key = names(connection, model)["family" if sort == "limit" else "exact"]
        for _ in range(times):
            if key in self.rows and self.rows[key].until > self.now:
                self.clock.set(self.rows[key].until / 1000 + late)
            self.fails(connection, model, sort, 0)
        for _ in range(heals):
            self.succeeds(connection, model, 0)

    def _expect(self, key: tuple[str, ...], wait: int, *, quota: bool) -> None:
        row = self.rows.get(key)
        if row is not None and self.now < row.until:
            span = wait if wait > BASE else min(BASE * 2 ** min(row.count - 1, 10), MOST)
            if wait and self.now + span > row.until:
                row.until, row.at, row.span, row.quota = self.now + span, self.now, span, quota
            return
        count = row.count + 1 if row is not None and self.now <= row.at + WINDOW + row.span else 1
        span = wait if wait > BASE else min(BASE * 2 ** min(count - 1, 10), MOST)
        if quota and wait and wait <= BASE:
            span = min(BASE * 2 ** min(count - 1, 10), MOST)
        self.rows[key] = Row(self.now + span, count, self.now, span, quota)

    @rule(connection=st.sampled_from(CONNECTIONS), model=st.sampled_from(MODELS), late=st.sampled_from([0, 0, 1, 500]))
    def succeeds(self, connection: str, model: str, late: int) -> None:
        began = self.now - late * 1000
        attempt = make_attempt(self._target(connection, model), started_at=began / 1000)
        self.plugin.succeeded(attempt=attempt)
        for key in names(connection, model).values():
            row = self.rows.get(key)
            if row is not None and row.at <= began:
                row.count //= 2
                if not row.count:
                    del self.rows[key]

    @rule(connection=st.sampled_from(CONNECTIONS))
    def a_person_resets(self, connection: str) -> None:
        self.plugin.reset(ResetOrder(part="connection", connections=frozenset({connection})))
        self.rows = {k: r for k, r in self.rows.items() if k[0] != connection}

    @staticmethod
    def _target(connection: str, model: str) -> Target:
        return make_target(make_connection(connection, provider="codex"), model=model)

    @invariant()
    def code_and_model_agree(self) -> None:
        if not hasattr(self, "plugin"):
            return
        targets = [self._target(c, m) for c in CONNECTIONS for m in MODELS]
        excluded: dict[Any, float | None] = {
            e.target.key: e.until for e in self.plugin.exclude(targets=targets, now=self.clock.time)
        }
        for target in targets:
            keys = names(target.connection.id, target.model).values()
            last = max((self.rows[k].until for k in keys if k in self.rows), default=0)
            until = excluded.get(target.key)
            assert (round(until * 1000) if until else 0) == (last if last > self.now else 0), (target.model, self.rows)
        running = sorted(row.count for row in self.rows.values() if row.until > self.now)
        assert sorted(timer.failures or 0 for timer in self.plugin.timers(self.clock.time)) == running
        kept = dict(self.store.table("model_lockout_kept").scan())
        assert all(v["reason"] == "quota_exhausted" for v in kept.values())


TestLockout = Lockout.TestCase
TestLockout.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_sixty_four_failures_at_once_lock_once() -> None:
    machine = Lockout()
    machine.begin()
    for _ in range(64):
        machine.fails("a", "gpt-1", "limit", 0)
    machine.code_and_model_agree()
    assert [timer.failures for timer in machine.plugin.timers(machine.clock.time)] == [1]
