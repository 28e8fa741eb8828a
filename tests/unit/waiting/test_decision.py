"""To wait or not: the decision table of `CW` section 4 and its edge cases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.testing.calls import make_target
from omniroute_addon.waiting.decision import MARGIN_S, Decision, decide
from omniroute_addon.waiting.settings import CooldownWaitSettings
from omniroute_addon.waiting.ways_out import WayOut

REFERENCE = {"max_wait_ms": 90_000, "max_waits": 5, "budget_ms": 300_000}


def ask(
    in_s: float | None, waited: tuple[float, ...] = (), patience_s: float | None = None, **settings: Any
) -> Decision:
    ways = [] if in_s is None else [WayOut(target=make_target(), in_s=in_s, why="model_lockout")]
    return decide(
        ways, waited=waited, patience_s=patience_s, settings=CooldownWaitSettings(**{**REFERENCE, **settings})
    )


def test_one_wait_and_its_margin() -> None:
    """CW-20, edge case 1."""
    assert ask(60.0) == Decision(wait=True, planned_s=60.05, why="model_lockout")


def test_the_margin_counts_against_the_longest_wait() -> None:
    """CW-23, edge case 2."""
    assert not ask(90.0).wait
    assert ask(89.95) == Decision(wait=True, planned_s=pytest.approx(90.0), why="model_lockout")


def test_by_default_a_reset_in_90_s_is_within_reach() -> None:
    """A25."""
    assert decide(
        [WayOut(target=make_target(), in_s=90.0, why="")], waited=(), patience_s=None, settings=CooldownWaitSettings()
    ).wait


def test_without_a_candidate_there_is_nothing_to_plan() -> None:
    """CW-24."""
    assert ask(None) == Decision(wait=False, planned_s=0.0, why="nothing ends by itself")


def test_the_budget_and_the_number_of_waits() -> None:
    """Edge case 4: four waits of 60 s and then the budget; five of 10 s and then the count."""
    assert ask(60.0, (60.05,) * 3).wait
    assert ask(60.0, (60.05,) * 4).why == "the budget is spent"
    assert ask(10.0, (10.05,) * 4).wait
    assert ask(10.0, (10.05,) * 5).why == "waited often enough"


@pytest.mark.parametrize("off", [{"enabled": False}, {"max_wait_ms": 0}, {"max_waits": 0}])
def test_switched_off(off: dict[str, Any]) -> None:
    """CW-6, edge case 13; CW-25: the plan is told all the same."""
    assert ask(10.0, **off) == Decision(wait=False, planned_s=10.05, why="switched off")


def test_one_full_wait_always_fits_into_the_budget() -> None:
    """CW-5, edge case 14."""
    assert CooldownWaitSettings(**{**REFERENCE, "budget_ms": 1000}).budget_s == 90.0
    assert ask(80.0, budget_ms=1000).wait


def test_a_client_is_never_held_longer_than_it_bears() -> None:
    assert ask(10.0, patience_s=10.05).wait
    assert ask(10.0, patience_s=10.0).why == "the client would not bear it"
    assert ask(10.0, patience_s=0.0).why == "the client would not bear it"


@given(
    in_s=st.floats(0.001, 1e6),
    waited=st.lists(st.floats(0, 300), max_size=12),
    patience=st.none() | st.floats(0, 1e4),
    longest=st.integers(0, 300_000),
    most=st.integers(0, 10),
    budget=st.integers(0, 300_000),
)
def test_no_wait_breaks_a_limit(
    in_s: float, waited: list[float], patience: float | None, longest: int, most: int, budget: int
) -> None:
    """CW-22 as a law."""
    settings = CooldownWaitSettings(max_wait_ms=longest, max_waits=most, budget_ms=budget)
    ways = [WayOut(target=make_target(), in_s=in_s, why="")]
    decision = decide(ways, waited=waited, patience_s=patience, settings=settings)
    assert decision.planned_s == in_s + MARGIN_S
    if decision.wait:
        assert decision.planned_s * 1000 <= longest and len(waited) < most
        assert sum(waited) + decision.planned_s <= settings.budget_s + 1e-6
        assert patience is None or decision.planned_s <= patience
