"""How a breaker moves along its table, one event after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omniroute_addon.breaker.figures import Figures, figures_for
from omniroute_addon.breaker.machine import (
    HISTORY,
    Breaker,
    Failure,
    after_failure,
    after_nothing,
    after_reset,
    after_success,
    after_test,
    refreshed,
    remaining_ms,
)
from omniroute_addon.breaker.table import PASSES, TABLE, Event, State
from omniroute_addon.provider_settings import CircuitBreaker

CLOSED, DEGRADED, OPEN, HALF_OPEN = State
API = figures_for("api_key", CircuitBreaker(), tells_kinds=True)
OAUTH = figures_for("oauth", CircuitBreaker(), tells_kinds=True)
LOCAL = figures_for("local", CircuitBreaker(), tells_kinds=False)
T0 = 1_800_000_000_000


def failing(count: int, figures: Figures = API, *, at: int = T0, breaker: Breaker | None = None) -> Breaker:
    """So many failures of as many connections at one moment."""
    breaker = breaker or Breaker()
    kind = "transient" if figures.tells_kinds else None
    for number in range(count):
        breaker = after_failure(breaker, Failure(connection=f"c{number}", kind=kind), figures, at)
    return breaker


def opened(figures: Figures = API, at: int = T0) -> Breaker:
    return failing(figures.failure_threshold, figures, at=at)


def half_open(figures: Figures = API, at: int = T0) -> Breaker:
    breaker = opened(figures, at - figures.reset_timeout_ms)
    return refreshed(breaker, figures, at)


# ---------------------------------------------------------------- the table itself


def test_states_are_written_in_capitals() -> None:
    """CB-2"""
    assert [str(state) for state in State] == ["CLOSED", "DEGRADED", "OPEN", "HALF_OPEN"]


def test_every_state_can_be_reset_and_none_is_a_trap() -> None:
    """The law behind the diagram: from everywhere a way leads to CLOSED without a person."""
    assert all(TABLE[state, Event.RESET].to is CLOSED for state in State)
    reached, ways = {CLOSED}, [(s, row.to) for (s, e), row in TABLE.items() if e is not Event.RESET]
    for _ in State:
        reached |= {start for start, end in ways if end in reached}
    assert reached == set(State)


def test_probe_events_exist_only_while_half_open() -> None:
    probes = {Event.PROBE_SUCCEEDED, Event.PROBE_FAILED, Event.PROBE_SAID_NOTHING}
    assert {state for state, event in TABLE if event in probes} == {HALF_OPEN}
    assert {CLOSED, DEGRADED} == PASSES


def test_a_row_without_a_reason_keeps_the_state() -> None:
    assert [key for key, row in TABLE.items() if row.to is not key[0] and not row.reason] == []


# ---------------------------------------------------------------- counting


def test_a_new_breaker_is_closed_and_empty() -> None:
    """CB-3"""
    new = Breaker()
    assert (new.state, new.failures, new.failed_at_ms, new.kind, new.cycles) == (CLOSED, 0, None, None, 0)


def test_a_failure_is_counted_with_its_kind() -> None:
    """CB-28"""
    breaker = failing(2)
    assert (breaker.failures, breaker.failed_at_ms, breaker.kind) == (2, T0, "transient")
    breaker = after_failure(breaker, Failure(connection="x", kind="rate_limit"), API, T0 + 1)
    assert dict(breaker.of_kind) == {"transient": 2, "rate_limit": 1}
    breaker = after_failure(breaker, Failure(connection="y", kind=None), API, T0 + 2)
    assert (breaker.kind, breaker.failures, dict(breaker.of_kind)) == (None, 4, {"transient": 2, "rate_limit": 1})


def test_an_api_key_provider_degrades_at_7_and_opens_at_12() -> None:
    """CB-5, CB-29, CB-30, edge 1"""
    states = [failing(count).state for count in range(13)]
    assert states == [CLOSED] * 7 + [DEGRADED] * 5 + [OPEN]
    opening = failing(12)
    assert [(s.old, s.new, s.failures, s.reason) for s in opening.history] == [
        (CLOSED, DEGRADED, 7, "elevated-failures (7/12)"),
        (DEGRADED, OPEN, 12, "kind:transient"),
    ]


def test_an_oauth_provider_degrades_at_5_and_opens_at_8() -> None:
    """CB-4"""
    assert [failing(count, OAUTH).state for count in (4, 5, 7, 8)] == [CLOSED, DEGRADED, DEGRADED, OPEN]


def test_a_local_provider_goes_straight_to_open() -> None:
    """CB-6, CB-9; CB-57: without a kind there is no reason."""
    breaker = failing(2, LOCAL)
    assert (breaker.state, [(s.old, s.new, s.reason) for s in breaker.history]) == (OPEN, [(CLOSED, OPEN, None)])


def test_failures_of_one_connection_within_five_seconds_count_once() -> None:
    """CB-17, edge 1"""
    breaker = Breaker()
    for number in range(12):
        breaker = after_failure(breaker, Failure(connection="a"), API, T0 + number * 400)
    assert breaker.failures == 1
    assert after_failure(breaker, Failure(connection="a"), API, T0 + 4_999).failures == 1
    assert after_failure(breaker, Failure(connection="a"), API, T0 + 5_000).failures == 2


def test_network_failures_within_ten_seconds_count_once_whichever_connection() -> None:
    """CB-18, edge 2"""
    breaker = Breaker()
    for number in range(6):
        breaker = after_failure(breaker, Failure(connection=f"c{number}", network=True), API, T0 + number * 1_500)
    assert breaker.failures == 1
    for number in range(6):
        breaker = after_failure(breaker, Failure(connection=f"d{number}", network=True), API, T0 + 11_000)
    assert breaker.failures == 2
    assert after_failure(breaker, Failure(connection="e"), API, T0 + 11_000).failures == 3  # a status is another matter


def test_a_success_forgives_one_failure_and_never_goes_below_zero() -> None:
    """CB-31"""
    assert after_success(failing(3), API, T0).failures == 2
    assert after_success(Breaker(), API, T0) == Breaker()


def test_a_degraded_breaker_recovers_when_the_count_is_at_the_threshold_again() -> None:
    """CB-31"""
    degraded = failing(9)
    once = after_success(degraded, API, T0)
    assert (once.state, once.failures) == (DEGRADED, 8)
    twice = after_success(once, API, T0)
    assert (twice.state, twice.failures, twice.history[-1].reason) == (CLOSED, 7, "recovery")


def test_a_connection_test_heals_a_degraded_breaker_and_no_other() -> None:
    """CB-32"""
    healed = after_test(failing(9), API, T0)
    assert (healed.state, healed.failures, healed.kind, dict(healed.of_kind)) == (CLOSED, 0, None, {})
    for breaker in (failing(3), opened(), half_open()):
        assert after_test(breaker, API, T0) == breaker


def test_a_lower_threshold_opens_at_the_next_failure_not_at_a_read() -> None:
    """CB-62, edge 12"""
    strict = replace(API, failure_threshold=4, degradation_threshold=2)
    breaker = failing(6)
    assert refreshed(breaker, strict, T0).state is CLOSED
    assert after_failure(breaker, Failure(connection="x"), strict, T0).state is OPEN


def test_a_kind_may_open_at_once() -> None:
    """CB-56, CB-57"""
    settings = CircuitBreaker.model_validate({"kinds": {"quota_exhausted": {"immediate_open": True}}})
    figures = figures_for("api_key", settings, tells_kinds=True)
    breaker = after_failure(Breaker(), Failure(connection="a", kind="quota_exhausted"), figures, T0)
    assert (breaker.state, breaker.history[-1].reason) == (OPEN, "kind:quota_exhausted")
    assert remaining_ms(breaker, figures, T0) == 3_600_000


# ---------------------------------------------------------------- time


def test_an_open_breaker_is_half_open_exactly_when_its_hold_is_over() -> None:
    """CB-21, edge 4"""
    breaker = opened()
    assert refreshed(breaker, API, T0 + 29_999) == breaker
    assert remaining_ms(breaker, API, T0 + 29_999) == 1
    after = refreshed(breaker, API, T0 + 30_000)
    assert (after.state, after.history[-1].reason, after.failures) == (HALF_OPEN, "timeout-elapsed", 12)
    assert remaining_ms(after, API, T0 + 30_000) == 0


def test_an_open_breaker_that_does_not_know_since_when_is_half_open_at_once() -> None:
    """CB-22"""
    unknown = Breaker(state=OPEN, failures=12)
    assert remaining_ms(unknown, API, T0) == 0
    assert refreshed(unknown, API, T0).state is HALF_OPEN


def test_a_degraded_breaker_heals_after_the_quiet_window() -> None:
    """CB-23, CB-24, edge 8"""
    breaker = failing(6, OAUTH)
    assert refreshed(breaker, OAUTH, T0 + 479_999).state is DEGRADED
    healed = refreshed(breaker, OAUTH, T0 + 480_000)
    assert (healed.state, healed.failures, healed.kind, dict(healed.of_kind)) == (CLOSED, 0, None, {})
    late = after_failure(breaker, Failure(connection="z"), OAUTH, T0 + 480_001)
    assert (late.state, late.failures, dict(late.of_kind)) == (CLOSED, 1, {"transient": 1})


def test_old_failures_of_a_closed_breaker_age_as_well() -> None:
    """Beyond the reference: one failure a week never adds up."""
    breaker = failing(3)
    assert refreshed(breaker, API, T0 + 119_999).failures == 3
    aged = refreshed(breaker, API, T0 + 120_000)
    assert (aged.state, aged.failures, aged.history) == (CLOSED, 0, ())


def test_a_clock_turned_back_never_prolongs_a_hold() -> None:
    back = refreshed(opened(), API, T0 - 86_400_000)
    assert back.state is OPEN and remaining_ms(back, API, T0 - 86_400_000) == 30_000
    assert refreshed(back, API, T0 - 86_400_000 + 30_000).state is HALF_OPEN


@pytest.mark.parametrize("back_ms", [1, 86_400_000])
def test_a_clock_turned_back_hides_no_failure(back_ms: int) -> None:
    breaker = after_failure(failing(1), Failure(connection="c0"), API, T0 - back_ms)
    assert breaker.failures == 2


# ---------------------------------------------------------------- half-open


def test_a_good_probe_closes_and_clears() -> None:
    """CB-37"""
    closed = after_success(replace(half_open(), cycles=5), API, T0, probe=True)
    assert (closed.state, closed.failures, closed.kind, dict(closed.of_kind), closed.cycles) == (CLOSED, 0, None, {}, 0)
    assert closed.history[-1].reason == "probe-success"


def test_a_bad_probe_opens_again() -> None:
    """CB-38; the echo rules are for bursts, a probe always counts."""
    again = after_failure(half_open(), Failure(connection="c0"), API, T0 + 7, probe=True)
    assert (again.state, again.cycles, again.failed_at_ms) == (OPEN, 1, T0 + 7)
    assert again.history[-1].reason == "probe-failed (cycle 1)"


def test_holds_grow_with_failed_rounds() -> None:
    """CB-44, CB-45"""
    breaker, now, holds = opened(), T0, []
    for _ in range(7):
        holds.append(remaining_ms(breaker, API, now) // 1000)
        now += remaining_ms(breaker, API, now)
        breaker = after_failure(refreshed(breaker, API, now), Failure(connection="c0"), API, now, probe=True)
    assert holds == [30, 30, 30, 30, 60, 120, 120]


@pytest.mark.parametrize("breaker", [opened(), half_open()], ids=["open", "half-open"])
def test_results_of_other_requests_change_nothing(breaker: Breaker) -> None:
    """CB-19, CB-33, edge 7"""
    assert after_failure(breaker, Failure(connection="late"), API, T0) == breaker
    assert after_success(breaker, API, T0) == breaker


def test_a_probe_that_said_nothing_changes_nothing() -> None:
    """CB-39"""
    for breaker in (half_open(), opened(), Breaker()):
        assert after_nothing(breaker, API, T0) == breaker


def test_a_probe_needs_a_half_open_breaker() -> None:
    assert after_success(opened(), API, T0, probe=True) == opened()
    assert after_failure(opened(), Failure(connection="x"), API, T0, probe=True) == opened()


# ---------------------------------------------------------------- reset and history


@pytest.mark.parametrize("breaker", [failing(1), failing(9), opened(), half_open()])
def test_a_reset_makes_it_as_new(breaker: Breaker) -> None:
    """CB-68"""
    after = after_reset(breaker, API, T0)
    assert replace(after, history=(), period=0) == Breaker()
    assert (after.history[-1].reason, after.period) == ("manual-reset", breaker.period + 1)


def test_the_last_twenty_transitions_are_kept() -> None:
    """CB-65"""
    breaker, now = opened(), T0
    for _ in range(30):
        now += API.hold_ms("transient", breaker.cycles)
        breaker = after_failure(refreshed(breaker, API, now), Failure(connection="c"), API, now, probe=True)
    assert len(breaker.history) == HISTORY == 20
    assert breaker.history[-1].reason == "probe-failed (cycle 30)"


def test_the_text_of_a_breaker() -> None:
    assert repr(opened()) == "<Breaker OPEN failures=12 kind=transient cycles=0 period=2>"
