"""The mechanism between the engine's question and the pure decision (`CW`)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.cooldown_wait import CooldownWait

from omniroute_addon.model import RetryAfter
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import make_attempt, make_call, make_exclusion, make_story, make_target, make_verdict
from omniroute_addon.testing.clock import ManualClock

NOW = 1000.0
A = make_target("a")


def started(**settings: Any) -> CooldownWait:
    plugin = CooldownWait()
    clock = ManualClock(NOW)
    config = SimpleNamespace(settings=Settings(cooldown_wait=settings))  # type: ignore[arg-type]
    plugin.start(core=SimpleNamespace(config=config, clock=clock.clock))  # type: ignore[arg-type]
    return plugin


def ask(plugin: CooldownWait, *, until: float = 10.0, patience_s: float | None = None) -> float | None:
    return plugin.wait(
        call=make_call(),
        targets=(A,),
        exclusions=(make_exclusion(A, until=NOW + until, reason="rate_limit_exceeded"),),
        stories=(
            make_story(
                make_attempt(A), verdict=make_verdict(retry_after=RetryAfter(seconds=until, source="x")), ended_at=NOW
            ),
        ),
        waited=(),
        patience_s=patience_s,
        now=NOW,
    )


def test_it_waits_until_the_rest_is_over_and_a_little_more() -> None:
    seconds = ask(started())
    assert seconds is not None and 10.05 <= seconds <= 10.30


def test_what_is_not_waited_for_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    """CW-25."""
    caplog.set_level("INFO")
    assert ask(started(), until=1000.0) is None
    assert "not held: provider=openai planned_s=1000.05 why=too long" in caplog.text


def test_a_client_that_would_leave_is_not_held() -> None:
    assert ask(started(), patience_s=5.0) is None


def test_before_it_was_started_it_says_nothing() -> None:
    assert ask(CooldownWait()) is None


def test_many_for_one_moment_are_spread() -> None:
    plugin = started()
    waits = [ask(plugin) or 0.0 for _ in range(20)]
    assert min(waits) >= 10.05 and len(set(waits)) > 1
