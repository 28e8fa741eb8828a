"""Lengths of time, as providers write them (`CC-29`, `CC-33`)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.verdicts.durations import match_countdown, match_duration, parse_duration, parse_number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("33s", 33.0),
        ("26.660853464s", 26.660853464),
        ("1500ms", 1.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("45", 45.0),
        ("6m0s", 360.0),
        ("644ms", 0.644),
        ("164h27m24s", 592_044.0),
        ("1h2m3s", 3723.0),
        ("3 days", 259_200.0),
        ("2 weeks", 1_209_600.0),
        ("1 hour, 5 minutes and 3 seconds", 3903.0),
        ("1,313,280 seconds", 1_313_280.0),
        ("an hour", 3600.0),
        ("one day", 86_400.0),
        ("01:30:00", 5400.0),
        ("PT1M30S", 90.0),
        ("P1DT2H", 93_600.0),
        ("30 秒", 30.0),
        ("2分钟30秒", 150.0),
        ("5 个小时", 18_000.0),
        ("30 segundos", 30.0),
        ("10 минут", 600.0),
        (".5", 0.5),
        ("5M", 300.0),
    ],
)
def test_a_duration_is_read_in_every_form(text: str, seconds: float) -> None:
    """CC-29"""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-5",
        "-5s",
        "abc",
        "nan",
        "inf",
        "1e5",
        "9" * 600,
        "9" * 600 + "s",
        "5 secs later",
        "5month",
        "P",
        "PT",
        "5ſ",
        "²",
    ],
)
def test_what_is_no_duration_is_none(text: str) -> None:
    """CC-33: signs, words and absurd numbers count as absent."""
    assert parse_duration(text) is None


def test_a_duration_does_not_begin_inside_a_number() -> None:
    assert match_duration("1.5s", 2) is None
    assert match_duration("-5s", 1) is None
    assert match_duration("in 5s.", 3) == (5.0, 5)


def test_a_clock_is_a_duration_only_where_it_is_asked_for() -> None:
    assert match_duration("0:05:12") is None
    assert match_countdown("0:05:12") == (312.0, 7)
    assert match_countdown("10:05:12", 1) is None
    assert match_countdown("05:12") is None


def test_a_unit_must_end_where_the_word_ends() -> None:
    assert match_duration("5 seconds") == (5.0, 9)
    assert match_duration("5 sections") is None
    assert match_duration("3 models") is None


def test_more_than_six_parts_are_no_single_duration() -> None:
    assert match_duration("1s" * 7) == (6.0, 12)


@given(st.text())
def test_any_text_gives_a_finite_length_or_none(text: str) -> None:
    seconds = parse_duration(text)
    assert seconds is None or 0 <= seconds < float("inf")


@given(st.floats(min_value=0, max_value=1e9, allow_nan=False))
def test_a_written_number_reads_back(number: float) -> None:
    assert parse_number(f"{number:.9f}") == pytest.approx(number, abs=1e-9)
