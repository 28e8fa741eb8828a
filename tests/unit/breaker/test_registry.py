"""All breakers over a store: probes, permits, restarts, room."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest

from omniroute_addon.breaker.figures import Figures, figures_for
from omniroute_addon.breaker.machine import Failure
from omniroute_addon.breaker.registry import TABLE_NAME, Breakers, Probe, Refusal
from omniroute_addon.breaker.table import State
from omniroute_addon.provider_settings import CircuitBreaker
from omniroute_addon.store.memory import MemoryStore

API = figures_for("api_key", CircuitBreaker(), tells_kinds=True)
CLOSED, DEGRADED, OPEN, HALF_OPEN = State
T0 = 1_800_000_000_000
HOLD = 30_000


def made(store: MemoryStore | None = None, figures: Figures = API, **limits: int) -> Breakers:
    return Breakers(store or MemoryStore(), lambda _: figures, **limits)


def fail(breakers: Breakers, count: int, provider: str = "glm", *, at: int = T0) -> None:
    for number in range(count):
        breakers.failed(provider, Failure(connection=f"c{number}"), at)


def opened(store: MemoryStore | None = None, figures: Figures = API) -> Breakers:
    breakers = made(store, figures)
    fail(breakers, figures.failure_threshold)
    return breakers


def probe(breakers: Breakers, holder: str, at: int) -> Probe:
    leave = breakers.claim("glm", holder, at)
    assert isinstance(leave, Probe)
    return leave


def test_in_good_times_nothing_is_kept_and_nobody_is_asked() -> None:
    store = MemoryStore()
    breakers = made(store)
    breakers.succeeded("glm", T0)
    breakers.tested("glm", T0)
    assert breakers.blocking == frozenset() and breakers.claim("glm", "h", T0) is None
    assert list(store.table(TABLE_NAME).scan()) == []
    assert repr(breakers) == "<Breakers blocking=[]>"


def test_an_open_breaker_refuses_with_what_is_left_of_its_hold() -> None:
    """CB-34"""
    breakers = opened()
    assert breakers.blocking == {"glm"}
    refusal = breakers.refusal("glm", T0 + 8_500)
    assert refusal == breakers.claim("glm", "h", T0 + 8_500)
    assert refusal and refusal.until_ms == T0 + HOLD
    assert refusal.detail == "the breaker of glm is open after 12 failures (transient)"
    assert breakers.refusal("openai", T0) is None


def test_fifty_requests_at_the_instant_of_expiry_start_one_probe() -> None:
    """CB-36, CB-42, edge 5"""
    breakers = opened()
    leaves = [breakers.claim("glm", f"h{n}", T0 + HOLD) for n in range(50)]
    assert [type(leave) for leave in leaves] == [Probe] + [Refusal] * 49
    refusal = breakers.refusal("glm", T0 + HOLD)
    assert refusal and refusal.until_ms == T0 + 2 * HOLD
    assert refusal.detail == "the breaker of glm is half-open and its probe is under way"


def test_more_probes_where_the_setting_says_so() -> None:
    """CB-10, CB-36, CB-41"""
    breakers = opened(figures=replace(API, half_open_requests=3))
    leaves = [breakers.claim("glm", f"h{n}", T0 + HOLD) for n in range(5)]
    assert [type(leave) for leave in leaves] == [Probe] * 3 + [Refusal] * 2
    first, second, third = (leave for leave in leaves if isinstance(leave, Probe))
    breakers.succeeded("glm", T0 + HOLD + 1, first)
    breakers.failed("glm", Failure(connection="x"), T0 + HOLD + 2, second)  # of a period that is over
    breakers.said_nothing(third, T0 + HOLD + 3)
    breaker = breakers.read("glm", T0 + HOLD + 4)
    assert (breaker.state, breaker.failures) == (CLOSED, 0)


def test_a_good_probe_closes_and_a_bad_one_opens() -> None:
    """CB-37, CB-38, CB-43: a failure is a value here; nothing has to be raised."""
    breakers = opened()
    breakers.failed("glm", Failure(connection="x"), T0 + HOLD + 5, probe(breakers, "h1", T0 + HOLD))
    assert breakers.read("glm", T0 + HOLD + 5).cycles == 1
    breakers.succeeded("glm", T0 + 2 * HOLD + 6, probe(breakers, "h2", T0 + 2 * HOLD + 5))
    assert breakers.read("glm", T0 + 2 * HOLD + 6).state is CLOSED
    assert breakers.blocking == frozenset()


def test_a_probe_that_said_nothing_gives_its_place_back() -> None:
    """CB-39, edge 17"""
    breakers = opened()
    breakers.said_nothing(probe(breakers, "h1", T0 + HOLD), T0 + HOLD + 1)
    assert breakers.read("glm", T0 + HOLD + 1).state is HALF_OPEN
    assert breakers.refusal("glm", T0 + HOLD + 1) is None
    probe(breakers, "h2", T0 + HOLD + 1)


def test_a_probe_that_hangs_loses_its_place_and_its_word() -> None:
    """CB-40, edge 6"""
    breakers = opened()
    first = probe(breakers, "h1", T0 + HOLD)
    assert isinstance(breakers.claim("glm", "h2", T0 + 2 * HOLD - 1), Refusal)
    second = probe(breakers, "h2", T0 + 2 * HOLD)
    breakers.succeeded("glm", T0 + 2 * HOLD + 1, first)
    assert breakers.read("glm", T0 + 2 * HOLD + 1).state is HALF_OPEN
    assert isinstance(
        breakers.claim("glm", "h3", T0 + 2 * HOLD + 1), Refusal
    )  # the late one freed nothing of the second
    breakers.failed("glm", Failure(connection="x"), T0 + 2 * HOLD + 2, first)
    assert breakers.read("glm", T0 + 2 * HOLD + 2).state is HALF_OPEN
    breakers.succeeded("glm", T0 + 2 * HOLD + 3, second)
    assert breakers.read("glm", T0 + 2 * HOLD + 3).state is CLOSED


def test_a_clock_turned_back_makes_no_lease_longer() -> None:
    """CB-40; found by the model: a probe that hung would have blocked the provider until the clock had caught up."""
    breakers = opened()
    probe(breakers, "h1", T0 + HOLD)
    earlier = T0 - 3_600_000
    refusal = breakers.refusal("glm", earlier)
    assert refusal and refusal.until_ms == earlier + HOLD
    assert isinstance(breakers.claim("glm", "h2", earlier + HOLD - 1), Refusal)
    probe(breakers, "h2", earlier + HOLD)


def test_late_results_of_other_requests_change_nothing() -> None:
    """CB-19, CB-33, edge 7"""
    breakers = opened()
    before = breakers.read("glm", T0 + 1)
    breakers.succeeded("glm", T0 + 1)
    fail(breakers, 12, at=T0 + 20_000)
    assert breakers.read("glm", T0 + 20_000) == before


def test_a_reset_closes_and_makes_probes_meaningless() -> None:
    """CB-41, CB-68, CB-69, edge 18"""
    breakers = opened()
    fail(breakers, 3, "openai")
    running = probe(breakers, "h", T0 + HOLD)
    assert breakers.reset(T0 + HOLD) == ["glm", "openai"]
    for _ in range(2):
        breakers.failed("glm", Failure(connection="x"), T0 + HOLD + 1, running)
    glm = breakers.read("glm", T0 + HOLD + 1)
    assert (glm.state, glm.failures, glm.history[-1].reason) == (CLOSED, 0, "manual-reset")
    assert breakers.read("openai", T0 + HOLD).failures == 0
    assert breakers.reset(T0 + HOLD, "openai") == ["openai"] and breakers.reset(T0 + HOLD, "nobody") == []


@pytest.mark.parametrize(
    ("later_ms", "wanted"), [(0, OPEN), (HOLD - 1, OPEN), (HOLD, HALF_OPEN), (HOLD + 1, HALF_OPEN), (10**9, HALF_OPEN)]
)
def test_an_open_breaker_after_a_restart(later_ms: int, wanted: State) -> None:
    """CB-58, CB-60, edge 11"""
    store = MemoryStore()
    opened(store)
    again = made(store)
    assert again.blocking == {"glm"}
    assert again.read("glm", T0 + later_ms).state is wanted
    refusal = again.refusal("glm", T0 + later_ms)
    assert (refusal.until_ms if refusal else None) == (T0 + HOLD if wanted is OPEN else None)


def test_the_other_states_after_a_restart() -> None:
    """CB-58, CB-59, edge 11"""
    store = MemoryStore()
    breakers = opened(store)
    fail(breakers, 9, "sick")
    fail(breakers, 2, "well")
    probe(breakers, "h", T0 + HOLD)
    restarted = MemoryStore()  # the same rows, and nobody holds a permit any more
    for key, value in store.table(TABLE_NAME).scan():
        restarted.table(TABLE_NAME, keep=True).update(key, lambda _, value=value: value)
    again = made(restarted)
    assert again.read("sick", T0 + HOLD).state is DEGRADED
    assert (again.read("well", T0 + HOLD).state, again.read("well", T0 + HOLD).failures) == (CLOSED, 2)
    assert again.read("glm", T0 + HOLD).state is HALF_OPEN
    probe(again, "h2", T0 + HOLD + 1)


def test_a_changed_setting_holds_at_the_next_use() -> None:
    """CB-62"""
    figures = [API]
    breakers = Breakers(MemoryStore(), lambda _: figures[0])
    fail(breakers, 12)
    figures[0] = replace(API, reset_timeout_ms=5_000)
    assert breakers.read("glm", T0 + 4_999).state is OPEN
    assert breakers.read("glm", T0 + 5_000).state is HALF_OPEN


def test_another_proxy_on_the_same_store_is_heard() -> None:
    store = MemoryStore()
    ours, theirs = made(store), made(store)
    fail(theirs, 12)
    assert ours.blocking == {"glm"}
    probe(theirs, "theirs", T0 + HOLD)
    refusal = ours.claim("glm", "ours", T0 + HOLD + 5)
    assert isinstance(refusal, Refusal)
    assert refusal.until_ms == T0 + HOLD + 5 + HOLD  # how long theirs has is not known here
    theirs.reset(T0 + HOLD + 6)
    assert ours.blocking == frozenset()
    ours.close()
    fail(theirs, 12, at=T0 + HOLD + 7)
    assert ours.blocking == frozenset()


def test_idle_breakers_make_room_and_no_other_is_ever_dropped() -> None:
    """CB-63, edge 19"""
    breakers = made(most=500)
    for number in range(500):
        fail(breakers, 12, f"open{number}")
    fail(breakers, 1, "one-more")
    assert len(breakers.blocking) == 500
    assert len(breakers.status(T0)) == 501


def test_the_idle_breaker_with_the_oldest_failure_goes_first() -> None:
    """CB-63"""
    breakers = made(most=2)
    for name, at in (("older", T0), ("newer", T0 + 1)):
        fail(breakers, 1, name, at=at)
        breakers.succeeded(name, at)
    fail(breakers, 1, "third", at=T0 + 2)
    assert [entry["name"] for entry in breakers.status(T0 + 2)] == ["newer", "third"]


def test_a_breaker_that_is_idle_for_half_an_hour_is_forgotten() -> None:
    """CB-64"""
    breakers = opened()
    fail(breakers, 1, "idle")
    breakers.succeeded("idle", T0)
    breakers.forget_idle(T0 + 1_800_000)
    assert [entry["name"] for entry in breakers.status(T0)] == ["glm", "idle"]
    breakers.forget_idle(T0 + 1_800_001)
    assert [entry["name"] for entry in breakers.status(T0)] == ["glm"]


def test_status_knows_the_lease_of_the_running_probe() -> None:
    """CB-67"""
    breakers = opened()
    probe(breakers, "h", T0 + HOLD)
    [shown] = breakers.status(T0 + HOLD + 1_000)
    assert (shown["state"], shown["retryAfterMs"]) == ("HALF_OPEN", 29_000)


@pytest.fixture
def events(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, "omniroute_addon.breaker.registry")
    return lambda: [f"{r.levelname} {r.getMessage()}" for r in caplog.records]


def test_each_change_of_state_is_one_event(events: Callable[[], list[str]]) -> None:
    """CB-66"""
    breakers = opened()
    breakers.succeeded("glm", T0 + HOLD + 1, probe(breakers, "h", T0 + HOLD))
    breakers.reset(T0 + HOLD + 2)
    start = "circuit breaker changed: provider=glm"
    assert events() == [
        f"INFO {start} from=CLOSED to=DEGRADED reason=elevated-failures (7/12) failures=7",
        f"WARNING {start} from=DEGRADED to=OPEN reason=kind:transient failures=12",
        f"INFO {start} from=OPEN to=HALF_OPEN reason=timeout-elapsed failures=12",
        f"INFO {start} from=HALF_OPEN to=CLOSED reason=probe-success failures=0",
    ]


def test_a_flapping_breaker_is_told_of_once_a_minute(events: Callable[[], list[str]]) -> None:
    """CB-66 and "beyond the reference": no hysteresis, but no noise either."""
    breakers = made()
    fail(breakers, 7)
    for second in range(10, 80, 10):
        breakers.succeeded("glm", T0 + second * 1000)
        breakers.failed("glm", Failure(connection="x"), T0 + second * 1000)
    assert len(events()) == 2
    assert len(breakers.read("glm", T0 + 80_000).history) == 15


def test_time_is_noticed_by_whoever_reads_and_is_kept() -> None:
    """CB-20, CB-21, CB-27: the store holds what the read saw."""
    store = MemoryStore()
    breakers = opened(store)
    assert breakers.refusal("glm", T0 + HOLD) is None
    row = store.table(TABLE_NAME).get("glm")
    assert row and row["state"] == "HALF_OPEN"


def test_a_lease_that_was_over_does_not_come_back_when_the_clock_is_turned_back() -> None:
    """CB-40: found by the laws."""
    breakers = opened()
    probe(breakers, "h1", T0 + HOLD)
    assert breakers.refusal("glm", T0 + 3_600_000) is None
    assert breakers.refusal("glm", T0 - 3_600_000) is None
