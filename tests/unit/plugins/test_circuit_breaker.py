"""The breaker in a request's life: who is passed by, who probes, what counts."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.circuit_breaker import CircuitBreaker

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.errors import NotAdmitted
from omniroute_addon.model import Attempt, ModelCall, ResetOrder, Target
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

A = make_target("a")
OTHER = make_target(make_connection("z", provider="groq"))
OWN = make_target(make_connection("client:1", own=True))


class Proxy:
    """One breaker plugin with a clock in the test's hand; time is seconds since the start."""

    def __init__(self, *, store: MemoryStore | None = None, connections: Any = (), **settings: Any) -> None:
        self.manual = ManualClock()
        self.start = self.manual.time
        self.plugin = CircuitBreaker()
        providers = {p.id: p for p in (make_provider(), make_provider("groq"), make_provider("xai"))}
        self.core = Core(
            config=Config(connections=tuple(connections), settings=Settings.model_validate(settings)),
            packs=SimpleNamespace(providers=providers),  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            clock=self.manual.clock,
            store=store or MemoryStore(),
        )
        self.plugin.start(core=self.core)

    @property
    def now(self) -> float:
        return self.manual.time

    def at(self, seconds: float) -> None:
        self.manual.set(self.start + seconds)

    def excluded(self, *targets: Target, call: ModelCall | None = None) -> list[tuple[str, float | None]]:
        found = self.plugin.exclude(call=call or make_call(), targets=targets or (A,), now=self.now)
        return [(e.target.connection.id, e.until and round(e.until - self.start, 3)) for e in found]

    def admit(self, call: ModelCall, target: Target = A) -> Any:
        return self.plugin.admit(call=call, target=target, now=self.now)

    def fail(
        self,
        call: ModelCall | None = None,
        *,
        target: Target = A,
        kind: str = "server_error",
        status: int = 503,
        answered: bool = True,
        **verdict: Any,
    ) -> None:
        counts = status in (408, 500, 502, 503, 504)
        story = make_story(
            make_attempt(target),
            answer=make_answer(status if answered else 0),
            verdict=make_verdict(kind, **{"status": status, "scope": "provider", "breaker": counts, **verdict}),
        )
        self.plugin.failed(call=call or make_call(), story=story, now=self.now)

    def fail_everywhere(self, count: int, **story: Any) -> None:
        for number in range(count):
            self.fail(target=make_target(f"c{number}"), **story)

    def succeed(self, call: ModelCall | None = None, target: Target = A) -> None:
        attempt = Attempt(number=1, target=target, tries=1, started_at=self.now)
        self.plugin.succeeded(call=call or make_call(), attempt=attempt, now=self.now)

    def finish(self, call: ModelCall) -> None:
        self.plugin.finish(call=call, now=self.now)

    @property
    def status(self) -> dict[str, Any]:
        shown: dict[str, Any] = dict(next(s for s in self.plugin.status(self.now) if s["name"] == "openai"))
        return shown


def opened(**settings: Any) -> Proxy:
    proxy = Proxy(**settings)
    proxy.fail_everywhere(12)
    return proxy


def test_an_open_breaker_passes_the_whole_provider_by_and_nobody_else() -> None:
    """CB-1, CB-34, CB-35"""
    proxy = Proxy()
    proxy.fail_everywhere(11)
    assert proxy.excluded(A, OTHER) == []
    proxy.fail(target=make_target("c11"))
    assert proxy.excluded(A, make_target("b"), OTHER) == [("a", 30.0), ("b", 30.0)]
    [exclusion] = proxy.plugin.exclude(call=make_call(), targets=[A], now=proxy.now)
    assert (exclusion.label, exclusion.until) == ("circuit_open", proxy.start + 30)
    proxy.at(30)
    assert proxy.excluded(A) == []


def test_degraded_is_for_people_only() -> None:
    """CB-30"""
    proxy = Proxy()
    proxy.fail_everywhere(8)
    assert proxy.status["state"] == "DEGRADED"
    assert proxy.excluded(A) == [] and proxy.admit(make_call()) is None


def test_the_client_of_an_open_breaker_is_not_held_back() -> None:
    """`spec/README.md` rule 4: excluded, so that others come first; admitted when nobody else is left."""
    proxy = opened()
    assert proxy.excluded(OWN) == [("client:1", 30.0)]
    assert proxy.admit(make_call(), OWN) is None
    before = proxy.status
    proxy.succeed(target=OWN)
    proxy.fail(target=OWN)
    assert proxy.status == before


def test_a_pools_try_in_place_ends_when_the_breaker_opens() -> None:
    """CB-34: the engine asks nobody to exclude before a try in place, but it asks to admit."""
    proxy = opened()
    refused = proxy.admit(make_call())

    async def ask() -> None:
        await asyncio.ensure_future(refused)

    with pytest.raises(NotAdmitted, match="the breaker of openai is open"):
        asyncio.run(ask())


def test_one_probe_at_a_time() -> None:
    """CB-36, CB-42"""
    proxy = opened()
    proxy.at(30)
    first, second = make_call(), make_call()
    assert first == second  # equal, and yet two
    assert proxy.excluded(A, call=first) == [] and proxy.admit(first) is None
    assert proxy.excluded(A, call=second) == [("a", 60.0)] and proxy.admit(second) is not None
    proxy.finish(second)
    assert proxy.excluded(A, call=second) == [("a", 60.0)]
    proxy.succeed(first)
    assert proxy.status["state"] == "CLOSED" and proxy.excluded(A) == []


def test_a_failed_probe_opens_again() -> None:
    """CB-38"""
    proxy = opened()
    proxy.at(30)
    call = make_call()
    proxy.admit(call)
    proxy.fail(call)
    assert (proxy.status["state"], proxy.status["openCycleCount"]) == ("OPEN", 1)
    assert proxy.excluded(A) == [("a", 60.0)]


@pytest.mark.parametrize("way", ["abort", "not counted", "goes elsewhere", "sent again"])
def test_a_probe_without_a_word_gives_its_place_back(way: str) -> None:
    """CB-14, CB-39, edge 17"""
    proxy = opened()
    proxy.at(30)
    call = make_call()
    proxy.admit(call)
    if way == "abort":
        proxy.finish(call)
    elif way == "not counted":
        proxy.fail(call, kind="rate_limit", status=429, scope="connection")
    elif way == "goes elsewhere":  # a failure of scope `request` is told to nobody; the next choice shows it
        assert proxy.excluded(A, OTHER, call=call) == []
    else:
        assert proxy.admit(call) is None  # a kept-alive connection was closed: the same call again is the probe
        assert proxy.excluded(A) == [("a", 60.0)]
        proxy.finish(call)
    assert proxy.status["state"] == "HALF_OPEN"
    other = make_call()
    assert proxy.excluded(A, call=other) == [] and proxy.admit(other) is None
    assert proxy.excluded(A) == [("a", 60.0)]


def test_a_probe_that_hangs_makes_room_and_is_not_heard() -> None:
    """CB-40, edge 6"""
    proxy = opened()
    proxy.at(30)
    hanging, next_one = make_call(), make_call()
    proxy.admit(hanging)
    proxy.at(60)
    assert proxy.excluded(A, call=next_one) == [] and proxy.admit(next_one) is None
    proxy.succeed(hanging)
    assert proxy.status["state"] == "HALF_OPEN"
    proxy.succeed(next_one)
    assert proxy.status["state"] == "CLOSED"


@pytest.mark.parametrize("status", [429, 403])
def test_a_thousand_that_do_not_count(status: int) -> None:
    """CB-12, edge 3"""
    proxy = Proxy()
    for number in range(1000):
        proxy.fail(target=make_target(f"c{number}"), kind="rate_limit", status=status, scope="connection")
    assert proxy.plugin.status(proxy.now) == []


def test_a07_an_overloaded_provider_counts_by_its_figures() -> None:
    """A07, CB-12: 529 is a busy provider; 503 is one that fails."""
    proxy = Proxy()
    proxy.fail_everywhere(50, kind="overloaded", status=529)
    assert proxy.plugin.status(proxy.now) == []
    proxy.fail_everywhere(3, kind="overloaded", status=503)
    assert proxy.status["failureCount"] == 3


def test_an_operator_may_count_429() -> None:
    """CB-16, CB-53"""
    proxy = Proxy(circuit_breaker={"counted_statuses": [429]})
    proxy.fail_everywhere(1, kind="quota_exhausted", status=429, scope="connection")
    proxy.fail_everywhere(1, kind="concurrency_limited", status=429, scope="connection")
    assert (proxy.status["failureCount"], proxy.status["lastFailureKind"]) == (1, "quota_exhausted")


def test_without_trust_there_is_no_kind() -> None:
    """CB-48, CB-49"""
    proxy = Proxy(connection_cooldown={"api_key": {"use_upstream_429_breaker_hints": False}})
    proxy.fail()
    assert (proxy.status["lastFailureKind"], proxy.status["kindFailureCounts"]) == (None, {})


def test_local_figures_for_a_server_at_home() -> None:
    """CB-6, CB-9"""
    proxy = Proxy(connections=[make_connection("a", base_url="http://127.0.0.1:8000")])
    proxy.fail_everywhere(2)
    assert proxy.excluded(A) == [("a", 15.0)]


def test_a_dead_network_of_our_own_blames_nobody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "omniroute_addon.plugins.circuit_breaker")
    dead: dict[str, Any] = {"kind": "network", "status": 502, "answered": False}
    xai = make_target(make_connection("x", provider="xai"))
    proxy = Proxy()
    proxy.fail(**dead)
    proxy.fail(target=OTHER, **dead)
    for _ in range(3):
        proxy.fail(target=xai, **dead)
    assert {s["name"]: s["failureCount"] for s in proxy.plugin.status(proxy.now)} == {"openai": 1, "groq": 1}
    assert caplog.messages[0] == "own network seems down, no breaker counts it: providers=groq,openai,xai"
    proxy.succeed(target=OTHER)  # somebody answered: it was not the network
    proxy.fail(target=xai, **dead)
    assert len(proxy.plugin.status(proxy.now)) == 3


def test_the_dead_network_rule_can_be_switched_off_and_spares_servers_at_home() -> None:
    dead: dict[str, Any] = {"kind": "network", "status": 502, "answered": False}
    off = Proxy(circuit_breaker={"dead_network_providers": 0})
    one = Proxy(
        circuit_breaker={"dead_network_providers": 1}, connections=[make_connection(base_url="http://127.0.0.1")]
    )
    for proxy in (off, one):
        proxy.fail(**dead)
        assert proxy.status["failureCount"] == 1


def test_a_reload_keeps_the_state_and_takes_the_new_figures() -> None:
    """CB-62"""
    proxy = opened()
    proxy.core.config = Config(
        settings=Settings.model_validate({"circuit_breaker": {"api_key": {"reset_timeout_ms": 9000}}})
    )
    proxy.plugin.start(core=proxy.core)
    assert proxy.excluded(A) == [("a", 9.0)]


def test_a_reload_does_not_forget_who_probes() -> None:
    """CB-37; found by the model."""
    proxy = opened()
    proxy.at(30)
    call = make_call()
    proxy.admit(call)
    proxy.plugin.start(core=proxy.core)
    assert proxy.excluded(A) == [("a", 60.0)]
    proxy.succeed(call)
    assert proxy.status["state"] == "CLOSED"


def test_a_provider_that_no_pack_knows_has_the_figures_of_an_api_key() -> None:
    proxy = Proxy()
    unknown = make_target(make_connection(provider="gone"))
    proxy.fail(target=unknown)
    [shown] = proxy.plugin.status(proxy.now)
    assert (shown["name"], shown["degradationThreshold"], shown["lastFailureKind"]) == ("gone", 7, None)


def test_reset_and_test_by_any_spelling() -> None:
    """CB-1, CB-32, CB-68, CB-69, CB-70: the breaker's table and no other."""
    store = MemoryStore()
    other = store.table("connection_cooldown")
    other.update("a", lambda _: {"terminal": True})
    proxy = opened(store=store)
    assert [c.provider for c in proxy.plugin.reset(ResetOrder(part="provider", provider="OpenAI"), proxy.now)] == [
        "openai"
    ]
    assert proxy.excluded(A) == [] and other.get("a") == {"terminal": True}
    proxy.at(6)
    proxy.fail_everywhere(8)
    proxy.plugin.tested("OPENAI", proxy.now)
    assert (proxy.status["state"], proxy.status["failureCount"]) == ("CLOSED", 0)
    assert len(proxy.plugin.reset(ResetOrder(part="all"), proxy.now)) == 1
    assert proxy.plugin.reset(ResetOrder(part="connection"), proxy.now) == []


def test_after_stop_it_listens_no_more() -> None:
    proxy = Proxy()
    proxy.plugin.stop()
    CircuitBreaker().stop()


def test_a_store_that_fails_to_write_costs_nothing() -> None:
    """CB-61, edge 16: memory is right; writing is the engine's business, behind the interface."""

    class Broken(MemoryStore):
        def _record(self, changes: Any) -> None:
            self.lost = changes  # a disk that takes nothing

    proxy = opened(store=Broken())
    assert proxy.excluded(A) == [("a", 30.0)]
