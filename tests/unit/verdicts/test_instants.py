"""Points in time, as providers write them (`CC-24`, `CC-26`, `CC-30`)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.verdicts.instants import CHINA, match_instant, parse_epoch, parse_http_date, parse_instant

SUNDAY = datetime(2026, 8, 30, 10, 0, tzinfo=UTC).timestamp()


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-08-29 21:01:21", at(2026, 8, 29, 21, 1, 21)),
        ("2026-08-29T21:01", at(2026, 8, 29, 21, 1)),
        ("2026/8/9 1:02", at(2026, 8, 9, 1, 2)),
        ("2026-09-01", at(2026, 9, 1)),
        ("2026-04-01 at 00:00 UTC", at(2026, 4, 1)),
        ("2026-10-01T00:00:00Z", at(2026, 10, 1)),
        ("2026-08-30T12:00:00.123+02:00", at(2026, 8, 30, 10)),
        ("2026-08-30 12:00 UTC-3", at(2026, 8, 30, 15)),
        ("08-29 15:29:00 UTC", at(2027, 8, 29, 15, 29)),
        ("08-31 15:29", at(2026, 8, 31, 15, 29)),
        ("3pm (America/New_York)", at(2026, 8, 30, 19)),
        ("8:30am", at(2026, 8, 31, 8, 30)),
        ("12am", at(2026, 8, 31)),
        ("12pm", at(2026, 8, 30, 12)),
        ("15:00", at(2026, 8, 30, 15)),
        ("15:00 PST", at(2026, 8, 30, 23)),
        ("tomorrow at 00:00 UTC", at(2026, 8, 31)),
        ("tomorrow", at(2026, 8, 31)),
        ("tomorrow 3pm", at(2026, 8, 31, 15)),
        ("today at 15:00", at(2026, 8, 30, 15)),
        ("midnight UTC", at(2026, 8, 31)),
        ("noon", at(2026, 8, 30, 12)),
        ("Monday at 9am", at(2026, 8, 31, 9)),
        ("Sunday, 9:00 AM", at(2026, 9, 6, 9)),
        ("Oct 5, 3pm (America/New_York)", at(2026, 10, 5, 19)),
        ("Aug 29, 2026 3:00 PM UTC", at(2026, 8, 29, 15)),
        ("August 31st, 2026", at(2026, 8, 31)),
        ("May 5", at(2027, 5, 5)),
        ("29 August 2026 at 15:00", at(2026, 8, 29, 15)),
        ("Sat, 29 Aug 2026 15:00:00 GMT", at(2026, 8, 29, 15)),
        ("2026年8月25日 07:41:44", at(2026, 8, 25, 7, 41, 44)),
        ("8月31日", at(2026, 8, 31)),
        ("明天", at(2026, 8, 31)),
        ("2026-08-25 07:41 北京时间", at(2026, 8, 24, 23, 41)),
        ("1777420800", 1_777_420_800.0),
        ("1777420800000", 1_777_420_800.0),
    ],
)
def test_a_point_in_time_is_read_in_every_form(text: str, moment: float) -> None:
    """CC-30 nos. 2 and 8: without a zone it is UTC; without a year or day it is the next such moment."""
    assert parse_instant(text, base=SUNDAY) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "2026-13-01",
        "2026-02-30",
        "0000-01-01",
        "25:00",
        "15:61",
        "13pm",
        "0am",
        "2026-09-02T00:00 Mars/Olympus",
        "02-29 10:00",
        "123",
        "2026-09-02 +99:00",
        "Blursday at 9am",
        "x" * 65,
    ],
)
def test_an_impossible_date_is_none(text: str) -> None:
    assert parse_instant(text, base=SUNDAY) is None


@pytest.mark.parametrize("zone", ["../../etc/passwd", "/etc/passwd", "America", "America/", "Europe/Atlantis"])
def test_a_bad_zone_is_no_path_into_the_file_system(zone: str) -> None:
    found = match_instant(f"3pm ({zone})", 0, base=SUNDAY)
    assert found is None or found[1] == 3


def test_the_caller_names_the_zone_of_a_text_without_one() -> None:
    assert match_instant("2026-08-25 07:41:44", 0, base=SUNDAY, zone=CHINA) == (at(2026, 8, 24, 23, 41, 44), 19)


def test_an_epoch_is_milliseconds_only_above_ten_digits() -> None:
    """CC-26, at the border."""
    assert parse_epoch(10_000_000_000) == 10_000_000_000
    assert parse_epoch(10_000_000_001) == 10_000_000.001
    assert parse_epoch(999_999_999) is None
    assert parse_epoch(float("inf")) is None
    assert parse_epoch(float("nan")) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Sun, 30 Aug 2026 10:00:00 GMT", SUNDAY),
        ("Sunday, 30-Aug-26 10:00:00 GMT", SUNDAY),
        ("Sun Aug 30 10:00:00 2026", SUNDAY),
        ("Sun, 30 Aug 2026 12:00:00 +0200", SUNDAY),
        ("", None),
        ("yesterday", None),
        ("Sun, 99 Aug 2026 10:00:00 GMT", None),
        ("x" * 65, None),
    ],
)
def test_http_dates(text: str, moment: float | None) -> None:
    """CC-24"""
    assert parse_http_date(text) == moment


@given(st.text(max_size=80), st.floats(min_value=0, max_value=4e9))
def test_any_text_is_read_without_an_exception(text: str, base: float) -> None:
    moment = parse_instant(text, base=base)
    assert moment is None or moment == moment


@given(st.from_regex(r"[0-9:/TZ apm+-]{1,40}", fullmatch=True))
def test_any_jumble_of_digits_is_read_without_an_exception(text: str) -> None:
    moment = parse_instant(text, base=SUNDAY)
    assert moment is None or abs(moment) < 1e12
