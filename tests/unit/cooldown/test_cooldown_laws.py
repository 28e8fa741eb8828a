"""The connection cooldown against a model of its own, in whole milliseconds and without the code's steps."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kept_state import Kept
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown

from omniroute_addon.clock import Clock
from omniroute_addon.config import Config
from omniroute_addon.cooldown.rest import CLEAN
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, RetryAfter, RuleRef
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

NAMES = ("a", "b", "o", "client:1")
ACCOUNT = "o"
"""A login that somebody renews: when it has expired it is tried again by itself, three times."""
TARGETS = {
    n: make_target(make_connection(n, provider="anthropic" if n == ACCOUNT else "openai", own=n.startswith("client")))
    for n in NAMES
}
OUT = {"auth_invalid": "expired", "account_banned": "banned", "credits_exhausted": "credits_exhausted"}


@dataclass
class Model:
    """What a careful person would write on a sheet of paper for one connection."""

    until: int = 0
    level: int = 0
    failed_at: int = 0
    out: str = ""
    steps: int = 5
    tries: int = 0
    tried_at: int = 0

    def again_at(self) -> int | None:
        """When an expired login may be tried by itself."""
        if self.out != "expired" or self.steps != 8 or self.tries >= 3:
            return None
        return (self.tried_at or self.failed_at) + 300_000 * 2**self.tries

    def note(self, now: int) -> None:
        """Written down, and nothing else."""
        if not self.out and now >= self.until:
            self.failed_at = now

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
            self.level = min(self.steps, self.level + 1)

    def end(self, now: int, word: str) -> None:
        if not self.out:
            self.out, self.until, self.failed_at, self.tries, self.tried_at = word, 0, now, 0, 0

    def succeed(self, began: int, *, tried: bool = False) -> None:
        if (tried and self.out == "expired") or (not self.out and self.failed_at <= began):
            self.until = self.level = self.failed_at = self.tries = self.tried_at = 0
            self.out = ""


class Cooldown(RuleBasedStateMachine):
    """Failures, successes (also late ones), what says nothing, aborts, terminal verdicts and the bounded tries after them,
    time, a turned clock, restarts, changed figures."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(start=1_800_000_000.0)
        self.store = self.fresh_store()
        self.base = 3000
        self.models = {n: self.clean(n) for n in NAMES}
        self.tries: list[Any] = []
        self.began = dict.fromkeys(NAMES, self.now)

    @initialize()
    def begin(self) -> None:
        self.restart()

    @staticmethod
    def clean(name: str) -> Model:
        return Model(steps=8 if name == ACCOUNT else 5)

    def fresh_store(self) -> Any:
        return MemoryStore()

    def reborn_store(self) -> Any:
        """The rows survive."""
        store = MemoryStore()
        for key, value in self.store.table("connection_cooldown").scan():
            store.table("connection_cooldown", keep=True).update(key, lambda _, kept=value: dict(kept))  # type: ignore[misc]
        return store

    @property
    def now(self) -> int:
        return round(self.clock.time * 1000)

    @rule()
    def restart(self) -> None:
        self.store = self.reborn_store() if hasattr(self, "plugin") else self.store
        self.tries.clear()
        self.plugin = ConnectionCooldown()
        self.reload()

    def reload(self) -> None:
        connections = tuple(t.connection for n, t in TARGETS.items() if not n.startswith("client"))
        own = {"base_cooldown_ms": self.base, "use_upstream_retry_hints": True}
        figures = {"connection_cooldown": {"api_key": own, "oauth": own}}
        self.core = Core(
            config=Config(connections=connections, settings=Settings.model_validate(figures)),
            packs=SimpleNamespace(  # type: ignore[arg-type]
                providers={"openai": make_provider(), "anthropic": make_provider("anthropic", category="oauth")}
            ),
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=self.store,
        )
        self.plugin.start(core=self.core)
        guest = self.models["client:1"]
        if self.now - max(guest.until, guest.failed_at) > 600_000:  # means nothing any more, and is forgotten
            self.models["client:1"] = self.clean("client:1")

    @rule(base=st.sampled_from([0, 1000, 3000]))
    def change_figures(self, base: int) -> None:
        self.base = base
        self.reload()

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
        self.models = {n: m if m.out and not terminal else self.clean(n) for n, m in self.models.items()}

    @rule(name=st.sampled_from(NAMES), sort=st.sampled_from(["bad turn", "stall", "abort"]))
    def something_else_happens(self, name: str, sort: str) -> None:
        """ST-72, CC-45: written down at most; a client that goes away leaves no trace."""
        if sort == "abort":
            self.plugin.finish(call=make_call(), stories=[], now=self.clock.time)
            return
        self._fail(name, "server_error", fault="empty" if sort == "bad turn" else "timeout:idle")
        self.models[name].note(self.now)

    @rule(how=st.sampled_from(["success", "failure", "abort", "later"]))
    def an_expired_login_is_tried(self, how: str) -> None:
        """CC-71 to CC-73: never more than allowed, also with a restart in between."""
        model, call, target = self.models[ACCOUNT], make_call(), TARGETS[ACCOUNT]
        if not model.out:
            return
        again = model.again_at()
        refused = self.plugin.admit(call=call, target=target, now=self.clock.time) is not None
        assert refused is (again is None or self.now < again)
        if refused:
            return
        model.tries, model.tried_at = model.tries + 1, self.now
        if how == "later":
            self.tries.append(call)
        else:
            self._tried(call, how)

    @precondition(lambda self: self.tries)
    @rule(how=st.sampled_from(["success", "failure", "abort"]))
    def a_late_try_ends(self, how: str) -> None:
        self._tried(self.tries.pop(), how)

    def _tried(self, call: Any, how: str) -> None:
        if how == "success":
            attempt = make_attempt(TARGETS[ACCOUNT], started_at=self.clock.time)
            self.plugin.succeeded(call=call, attempt=attempt, now=self.clock.time)
            self.models[ACCOUNT].succeed(self.now, tried=True)
        elif how == "failure":
            self._fail(ACCOUNT, "auth_invalid", terminal=True, call=call)
            self.models[ACCOUNT].end(self.now, "expired")
        self.plugin.finish(call=call, stories=[], now=self.clock.time)

    @rule(seconds=st.sampled_from([300.0, 600.0, 1200.0]))
    def a_login_expires_and_time_passes(self, seconds: float) -> None:
        self.ends(ACCOUNT, "auth_invalid")
        self.clock.advance(seconds)

    def _fail(
        self, name: str, kind: str, *, wait_s: float | None = None, fault: Any = None, call: Any = None, **verdict: Any
    ) -> None:
        hint = RetryAfter(seconds=wait_s, source="header:retry-after") if wait_s else None
        story = make_story(
            make_attempt(TARGETS[name], started_at=self.began[name] / 1000),
            answer=make_answer(429, fault=fault),
            verdict=make_verdict(kind, **{"retry_after": hint, "rule": RuleRef(id="r"), **verdict}),
            ended_at=self.clock.time,
        )
        self.plugin.failed(call=call or make_call(), story=story, now=self.clock.time)

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
            again = model.again_at()
            may_try = again is not None and self.now >= again
            assert (name in excluded) == bool((model.out and not may_try) or self.now < model.until)
            assert (rest.tries, round(rest.tried_at * 1000)) == (model.tries, model.tried_at)
        assert "client:1" not in excluded or excluded["client:1"].until is not None, "never out"


class KeptCooldown(Kept, Cooldown):
    """The same over a state file."""

    def wall(self) -> Clock:
        return self.clock.clock


TestCooldown = Cooldown.TestCase
TestCooldown.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestKeptCooldown = KeptCooldown.TestCase
TestKeptCooldown.settings = settings(max_examples=8, stateful_step_count=25, deadline=None)


def test_sixty_four_failures_at_once_raise_the_ladder_once() -> None:
    """CC-37"""
    machine = Cooldown()
    machine.begin()
    for _ in range(64):
        machine.fails("a", None, None, False)
    machine.code_and_model_agree()
    assert machine.models["a"].level == 1
    assert machine.plugin.book.get("nobody") is CLEAN
