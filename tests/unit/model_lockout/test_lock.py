"""How long a lock lasts, how it grows, how it is forgotten."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from omniroute_addon.model_lockout.lock import (
    SURVIVES_RESTART,
    Cause,
    Figures,
    Lock,
    after_failure,
    after_success,
    as_value,
    from_value,
    next_midnight,
)

F = Figures()
BERLIN = ZoneInfo("Europe/Berlin")


def fail(lock: Lock | None, now: float, figures: Figures = F, **cause: Any) -> Lock:
    return after_failure(
        lock, Cause(**{"reason": "rate_limited", "origin": "switch", **cause}), figures, now, zone=BERLIN
    )


def test_failures_right_after_each_lock_escalate_to_the_cap() -> None:
    """ML-25, ML-27, ML-29, ML-36, ML-39, edge case 4"""
    lock, now, spans = None, 1000.0, []
    for _ in range(6):
        lock = fail(lock, now)
        spans.append(lock.until - now)
        now = lock.until
    assert spans == [120, 240, 480, 960, 1800, 1800]
    assert fail(fail(None, 0.0, Figures(steps=1)), 120.0, Figures(steps=1)).duration_s == 240


def test_without_backoff_every_lock_is_the_base() -> None:
    """ML-28"""
    figures = Figures(exponential=False)
    lock = fail(None, 0.0, figures)
    assert fail(lock, lock.until, figures).duration_s == 120


def test_a_run_ends_when_the_window_and_the_last_lock_are_over() -> None:
    """ML-37, ML-38, ML-40, edge case 5"""
    figures = Figures(window_s=30.0)
    lock = fail(None, 0.0, figures)
    assert fail(lock, 150.0, figures).count == 2
    late = fail(lock, 150.001, figures)
    assert (late.count, late.duration_s) == (1, 120)
    assert lock.forgotten_at() == 150.0


def test_failures_while_it_is_locked_are_one_failure_and_never_shorten_it() -> None:
    """ML-35, edge case 8; 64 at once raise the ladder once"""
    lock = fail(None, 0.0)
    assert fail(lock, 1.0) is lock
    assert fail(lock, 1.0, declared_s=5.0, origin="rule") is lock
    longer = fail(lock, 1.0, declared_s=500.0)
    assert (longer.until, longer.count, longer.locked_at) == (501.0, 1, 0.0)


def test_a_verdicts_duration_is_the_base_and_is_capped() -> None:
    """ML-26, ML-34"""
    assert fail(None, 0.0, fixed_s=300.0).duration_s == 300
    assert fail(None, 0.0, fixed_s=6 * 3600.0).duration_s == 1800
    assert fail(fail(None, 0.0, fixed_s=300.0), 300.0, fixed_s=300.0).duration_s == 600


@pytest.mark.parametrize(
    ("declared", "authoritative", "origin", "wanted"),
    [
        (60.0, True, "switch", 120.0),
        (120.0, True, "switch", 120.0),
        (121.0, False, "switch", 121.0),
        (331_067.0, True, "per_model_quota", 331_067.0),
        (331_067.0, False, "per_model_quota", 1800.0),
        (7.0, False, "rule", 7.0),
    ],
)
def test_a_declared_wait_replaces_a_shorter_lock(
    declared: float, authoritative: bool, origin: str, wanted: float
) -> None:
    """ML-30, ML-31, CC-32, edge case 9"""
    lock = fail(None, 0.0, declared_s=declared, authoritative=authoritative, origin=origin)
    assert lock.duration_s == wanted
    assert lock.estimated_reset_at == (declared if wanted < declared else 0.0)


def test_a_retired_model_is_locked_for_its_whole_day() -> None:
    """ML-33"""
    assert fail(None, 0.0, reason="not_found", fixed_s=86_400.0).duration_s == 86_400
    assert fail(None, 0.0, reason="not_found").duration_s == 120


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        ("2026-11-30T23:59:00", 1 / 60),
        ("2026-11-30T00:00:00", 24),
        ("2026-03-29T00:30:00", 22.5),  # 23 hours long
        ("2026-10-25T00:00:00", 24),  # 25 hours long, at most 24
        ("2026-10-25T12:00:00", 12),
    ],
)
def test_a_used_up_quota_without_a_wait_lasts_until_midnight(now: str, hours: float) -> None:
    """ML-32, edge case 10"""
    start = at(now)
    assert next_midnight(start, BERLIN) - start == pytest.approx(hours * 3600)
    lock = fail(None, start, reason="quota_exhausted")
    assert lock.duration_s == pytest.approx(min(hours * 3600, 1800))
    assert bool(lock.estimated_reset_at) is (hours > 0.5)
    wide = fail(None, start, Figures(max_s=1e9), reason="quota_exhausted")
    assert wide.duration_s == pytest.approx(hours * 3600) and not wide.estimated_reset_at


def test_midnight_of_this_machine() -> None:
    assert 0 < next_midnight(1_800_000_000.0) - 1_800_000_000.0 <= 86_400


def test_a_success_halves_the_count_and_frees_at_zero() -> None:
    """ML-42, ML-43, ML-44, edge case 6"""
    lock = fail(None, 0.0)
    halved = {}
    for count in (1, 2, 3, 5, 8):
        after = after_success(from_count(lock, count), 1.0)
        halved[count] = after.count if after else 0
    assert halved == {1: 0, 2: 1, 3: 1, 5: 2, 8: 4}
    kept = after_success(from_count(lock, 3), 1.0)
    assert kept is not None and kept.until == lock.until
    assert after_success(kept, 1.0) is None


def from_count(lock: Lock, count: int) -> Lock:
    value = as_value(lock, provider="p", connection="c", model="m", family=None)
    read = from_value({**value, "count": count})
    assert read is not None
    return read


def test_a_success_from_before_the_failure_proves_nothing() -> None:
    lock = fail(None, 5.0)
    assert after_success(lock, 4.9) is lock


def test_a_lock_survives_the_store_and_garbage_is_none() -> None:
    """ML-50"""
    lock = fail(None, 5.0, rule="r", reason="quota_exhausted")
    value = as_value(lock, provider="p", connection="c", model="m", family="f")
    assert from_value(json.loads(json.dumps(value))) == lock
    assert from_value(None) is None
    for field in ("until", "count", "reason", "origin", "failedAt"):
        assert from_value({**value, field: "?"}) is None
    odd = from_value({**value, "estimatedResetAt": "?"})
    assert odd is not None and odd.estimated_reset_at == 0.0


def test_every_reason_says_whether_it_survives_a_restart() -> None:
    """ML-47, decided per reason"""
    assert {reason for reason, kept in SURVIVES_RESTART.items() if kept} == {"quota_exhausted", "credits"}
    assert repr(fail(None, 0.0)) == "<Lock until=120.000 reason=rate_limited count=1 origin=switch>"
