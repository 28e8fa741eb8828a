"""Failures after output lock only when they repeat."""

from __future__ import annotations

from omniroute_addon.model_lockout.repeats import Repeats


def test_the_third_within_ten_minutes_counts_and_then_counting_begins_anew() -> None:
    """ML-21"""
    repeats = Repeats()
    assert [repeats.enough("k", at) for at in (0.0, 300.0, 600.0, 601.0)] == [False, False, True, False]
    assert [repeats.enough("l", at) for at in (0.0, 300.0, 600.1)] == [False, False, False]


def test_keys_are_bounded() -> None:
    repeats = Repeats()
    for number in range(1500):
        repeats.enough(str(number), 0.0)
    assert repr(repeats) == "<Repeats keys=1000>"
