"""One value in any unit (`CC-24` to `CC-26`)."""

from __future__ import annotations

import pytest

from omniroute_addon.verdicts.stated_time import Stated, parse_header, parse_stated

NOW = 1_780_000_000.0


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("120", 120.0),
        ("1.5", 1.5),
        ("5m", 300.0),
        ("5m30s", 330.0),
        ("644ms", 0.644),
        ("1780000060", 60.0),
        ("1780000060.5", 60.5),
        ("1780000060000", 60.0),
        ("2026-05-28T20:27:40Z", 60.0),
        ("Thu, 28 May 2026 20:27:40 GMT", 60.0),
        ("10000000000", 10_000_000_000 - NOW),
        ("0", 0.0),
    ],
)
def test_a_value_is_a_length_or_a_point_in_time(text: str, wait: float) -> None:
    stated = parse_stated(text, source="x", base=NOW)
    assert stated is not None
    assert stated.wait(NOW) == pytest.approx(wait)


@pytest.mark.parametrize("text", ["", "-5", "abc", "nan", "inf", "1e9", "9" * 600, "x" * 65, "2026-99-99"])
def test_nonsense_is_none(text: str) -> None:
    assert parse_stated(text, source="x", base=NOW) is None


def test_milliseconds_are_seconds_with_three_more_digits() -> None:
    assert parse_stated("5421", source="x", base=NOW, milliseconds=True) == Stated(source="x", seconds=5.421)
    epoch = parse_stated("1780000060000", source="x", base=NOW, milliseconds=True)
    assert epoch is not None and epoch.wait(NOW) == 60.0


def test_of_a_header_sent_twice_the_longest_counts() -> None:
    assert parse_header("5, 7", source="retry-after", base=NOW) == Stated(source="retry-after", seconds=7.0)
    assert parse_header("x, 250", source="retry-after-ms", base=NOW) == Stated(source="retry-after-ms", seconds=0.25)
    assert parse_header("x, y", source="retry-after", base=NOW) is None
