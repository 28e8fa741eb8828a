"""Refusals of the way of calling, in a row."""

from __future__ import annotations

from omniroute_addon.cooldown.refusals import Refusals


def test_a_row_grows_and_ends_with_any_other_answer() -> None:
    """CC-60, CC-62"""
    refusals = Refusals()
    assert [refusals.count("a", 1.0), refusals.count("a", 2.0), refusals.count("b", 2.0)] == [1, 2, 1]
    refusals.ended("a", 3.0)
    assert refusals.count("a", 4.0) == 1


def test_a_refusal_from_before_the_last_other_answer_is_told_too_late_to_count() -> None:
    refusals = Refusals()
    refusals.ended("a", 3.0)
    assert refusals.count("a", 2.0) == 0
    assert refusals.count("a", 3.0) == 1


def test_only_configured_connections_are_remembered() -> None:
    refusals = Refusals()
    refusals.ended("client:1#1", 9.0)
    assert refusals.count("client:1#1", 1.0) == 1
    refusals.count("a", 1.0)
    refusals.ended("b", 5.0)
    refusals.keep({"a"})
    assert repr(refusals) == "<Refusals {'a': 1}>"
    assert refusals.count("b", 1.0) == 1
