"""The time of day at which an allowance renews (`FC-41` to `FC-43`)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from omniroute_addon.verdicts.daily_time import parse_daily_time
from omniroute_addon.verdicts.schema import ClassifyRule

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("written", "hours"),
    [
        ("00:00 UTC", 12.0),
        ("12:00 UTC", 24.0),  # it is noon now: tomorrow's
        ("12:30 UTC", 0.5),
        ("11:59 UTC", 24 - 1 / 60),
        ("00:00 Asia/Shanghai", 4.0),
        ("00:00 America/Los_Angeles", 19.0),
        (" 16:00 Asia/Shanghai ", 20.0),
        ("16:00 +08:00", 20.0),
    ],
)
def test_the_next_such_time_is_waited_for(written: str, hours: float) -> None:
    assert parse_daily_time(written).seconds_until(NOON) == pytest.approx(hours * 3600)


@pytest.mark.usefixtures("in_berlin")
def test_without_a_zone_it_is_this_machines_midnight() -> None:
    """FC-42"""
    assert parse_daily_time("00:00").seconds_until(NOON) == 10 * 3600
    before_the_long_day = datetime(2026, 10, 24, 22, 0, 1, tzinfo=UTC).timestamp()  # 00:00:01, and 25 hours to go
    assert parse_daily_time("00:00").seconds_until(before_the_long_day) == 24 * 3600


@given(
    st.times(),
    st.sampled_from(["", " UTC", " America/St_Johns", " Australia/Lord_Howe", " Pacific/Apia"]),
    st.floats(min_value=0, max_value=1e12),
)
def test_fc_43_never_now_and_never_more_than_a_day(at: object, zone: str, now: float) -> None:
    """FC-43"""
    assert 0 < parse_daily_time(f"{str(at)[:5]}{zone}").seconds_until(now) <= 86_400


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("24:00", "cannot read the time of day '24:00'; write '00:00', '00:00 UTC' or '16:00 Asia/Shanghai'"),
        (0, "cannot read the time of day 0; write '00:00', '00:00 UTC' or '16:00 Asia/Shanghai'"),
        ("00:00 Moon/Crater", "unknown time zone 'Moon/Crater'; write UTC, an offset such as +08:00"),
        ("00:00 ../../etc/passwd", "cannot read the time of day '00:00 ../../etc/passwd'"),
    ],
)
def test_what_cannot_be_read_is_said(written: object, said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ClassifyRule.model_validate({"id": "a", "when": {"status": 429}, "kind": "quota_exhausted", "renews": written})
    assert said in str(raised.value)


def test_a_rule_rests_for_one_reason_only() -> None:
    with pytest.raises(ValidationError, match="`cooldown` and `renews` both say how long it rests; keep one of them"):
        ClassifyRule.model_validate(
            {"id": "a", "when": {"status": 429}, "kind": "quota_exhausted", "renews": "00:00", "cooldown": "1h"}
        )


def test_it_is_shown_and_described_as_it_is_written() -> None:
    rule = ClassifyRule.model_validate(
        {"id": "a", "when": {"status": 429}, "kind": "quota_exhausted", "renews": "07:05 Asia/Shanghai"}
    )
    assert json.loads(rule.model_dump_json())["renews"] == str(rule.renews) == "07:05 Asia/Shanghai"
    assert parse_daily_time(rule.renews) is rule.renews
    assert ClassifyRule.model_json_schema()["properties"]["renews"]["anyOf"][0]["type"] == "string"
