"""The connection cooldown against a model of its own, in whole milliseconds and without the code's steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown

from omniroute_addon.config import Config
from omniroute_addon.cooldown.rest import CLEAN
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, RetryAfter, RuleRef
from omniroute_addon.settings import Settings
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.store.sqlite import opened
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

NAMES = ("a", "b", "client:1")
TARGETS = {n: make_target(make_connection(n, own=n.startswith("client"))) for n in NAMES}
OUT = {"auth_invalid": "expired", "account_banned": "banned", "credits_exhausted": "credits_exhausted"}


@dataclass
class Model:
    """What a careful person would write on a sheet of paper for one connection."""

    until: int = 0
    level: int = 0
    failed_at: int = 0
    out: str = ""

    def fail(self, now: int, *, declared: int, fixed: int | None, busy: bool, base: int) -> None:
        if self.out:
            return
        if now < self.until:
            later = now + (declared or fixed or 0)
            if later > self.until:
                self.until, self.failed_at = later, now
            return
        if now - max(self.until, self.failed_at) > 600_000:
            self.level = 0
        self.failed_at = now
        if busy:
            self.until = now + (declared or 1000)
        elif declared:
            self.until, self.level = now + declared, 0
        elif fixed is not None:
            self.until = now + fixed if fixed else 0
        else:
            self.until = now + base * 2**self.level if base else 0
            self.level = min(5, self.level + 1)

    def end(self, now: int, word: str) -> None:
        if not self.out:
            self.out, self.until, self.failed_at = word, 0, now

    def succeed(self, began: int) -> None:
        if not self.out and self.failed_at <= began:
            self.until = self.level = self.failed_at = 0


class Cooldown(RuleBasedStateMachine):
    """Failures, successes (also late ones), terminal verdicts, time, a turned clock, restarts, changed figures."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(start=1_800_000_000.0)
        self.store: Any = MemoryStore()
        self.base = 3000
        self.models = {n: Model() for n in NAMES}
        self.began = dict.fromkeys(NAMES, self.now)

    @initialize()
    def begin(self) -> None:
        self.restart()

    @property
    def now(self) -> int:
        return round(self.clock.time * 1000)

    @rule()
    def restart(self) -> None:
        connections = tuple(t.connection for n, t in TARGETS.items() if not n.startswith("client"))
        figures = {"connection_cooldown": {"api_key": {"base_cooldown_ms": self.base}}}
        self.core = Core(
            config=Config(connections=connections, settings=Settings.model_validate(figures)),
            packs=SimpleNamespace(providers={"openai": make_provider()}),  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=self.store,
        )
        self.plugin = ConnectionCooldown()
        self.plugin.start(core=self.core)
        guest = self.models["client:1"]
        if self.now - max(guest.until, guest.failed_at) > 600_000:  # means nothing any more, and is forgotten
            self.models["client:1"] = Model()

    @rule(base=st.sampled_from([0, 1000, 3000]))
    def change_figures(self, base: int) -> None:
        self.base = base
        self.restart()

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 6.0, 100.0, 700.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from([1.0, 3600.0]))
    def the_clock_is_turned_back(self, seconds: float) -> None:
        self.clock.set(self.clock.time - seconds)

    @rule(name=st.sampled_from(NAMES))
    def a_request_begins(self, name: str) -> None:
        self.began[name] = self.now

    @rule(
        name=st.sampled_from(NAMES),
        wait_s=st.sampled_from([None, None, 0.5, 7.0, 500.0]),
        fixed_s=st.sampled_from([None, None, 0.0, 60.0]),
        busy=st.booleans(),
    )
    def fails(self, name: str, wait_s: float | None, fixed_s: float | None, busy: bool) -> None:
        kind = "concurrency_limited" if busy else "rate_limit"
        self._fail(name, kind, wait_s=wait_s, cooldown_s=fixed_s)
        fixed = None if fixed_s is None else round(fixed_s * 1000)
        declared = round((wait_s or 0) * 1000)
        self.models[name].fail(self.now, declared=declared, fixed=fixed, busy=busy, base=self.base)

    @rule(name=st.sampled_from(NAMES), kind=st.sampled_from(sorted(OUT)))
    def ends(self, name: str, kind: str) -> None:
        self._fail(name, kind, terminal=True)
        if name.startswith("client"):
            self.models[name].fail(self.now, declared=0, fixed=None, busy=False, base=self.base)
        else:
            self.models[name].end(self.now, OUT[kind])

    @rule(name=st.sampled_from(NAMES))
    def succeeds(self, name: str) -> None:
        attempt = make_attempt(TARGETS[name], started_at=self.began[name] / 1000)
        self.plugin.succeeded(call=make_call(), attempt=attempt, now=self.clock.time)
        self.models[name].succeed(self.began[name])

    @precondition(lambda self: any(m.out for m in self.models.values()))
    @rule(terminal=st.booleans())
    def a_person_resets(self, terminal: bool) -> None:
        self.plugin.reset(ResetOrder(part="connection", terminal=terminal))
        self.models = {n: m if m.out and not terminal else Model() for n, m in self.models.items()}

    def _fail(self, name: str, kind: str, *, wait_s: float | None = None, **verdict: Any) -> None:
        hint = RetryAfter(seconds=wait_s, source="header:retry-after") if wait_s else None
        story = make_story(
            make_attempt(TARGETS[name], started_at=self.began[name] / 1000),
            answer=make_answer(429),
            verdict=make_verdict(kind, **{"retry_after": hint, "rule": RuleRef(id="r"), **verdict}),
            ended_at=self.clock.time,
        )
        self.plugin.failed(call=make_call(), story=story, now=self.clock.time)

    @invariant()
    def code_and_model_agree(self) -> None:
        if not hasattr(self, "plugin"):
            return
        excluded = {
            e.target.connection.id: e for e in self.plugin.exclude(targets=list(TARGETS.values()), now=self.clock.time)
        }
        for name, model in self.models.items():
            rest = self.plugin.book.get(next((k for k, _, _ in self.plugin.book.rows() if k.startswith(name)), name))
            assert (round(rest.until * 1000), rest.level) == (model.until, model.level), (name, rest, model)
            assert rest.status == (model.out or rest.status) and rest.terminal == bool(model.out)
            assert (name in excluded) == bool(model.out or self.now < model.until)
        assert "client:1" not in excluded or excluded["client:1"].until is not None, "never out"


class KeptCooldown(Cooldown):
    """The same over a file: memory and database agree after a flush."""

    def __init__(self) -> None:
        super().__init__()
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "state.db"
        self.store = opened(self.path)

    @rule()
    def the_proxy_ends_and_starts(self) -> None:
        self.store.close()
        self.store = opened(self.path)
        self.restart()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TestCooldown = Cooldown.TestCase
TestCooldown.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestKeptCooldown = KeptCooldown.TestCase
TestKeptCooldown.settings = settings(max_examples=5, stateful_step_count=15, deadline=None)


def test_sixty_four_failures_at_once_raise_the_ladder_once() -> None:
    """CC-37"""
    machine = Cooldown()
    machine.begin()
    for _ in range(64):
        machine.fails("a", None, None, False)
    machine.code_and_model_agree()
    assert machine.models["a"].level == 1
    assert machine.plugin.book.get("nobody") is CLEAN
