"""The fields of a connection's state, and how they are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.cooldown.rest import CLEAN, Rest, as_value, error_text, from_value, instant, iso

FULL = Rest(
    status="unavailable",
    until=1781696905.131,
    level=3,
    failed_at=1781696900.5,
    error="slow",
    error_type="rate_limit_exceeded",
    code=429,
    cause="rate_limit (r)",
    label="egress_lock",
    forbidden_at=5.0,
    tries=2,
    tried_at=7.25,
)


def test_every_field_survives_the_store_under_the_references_names() -> None:
    """CC-1, CC-3, CC-6, CC-72"""
    value = as_value(FULL, connection="a", provider="openai")
    names = {"testStatus", "rateLimitedUntil", "lastError", "lastErrorType", "lastErrorAt", "errorCode", "backoffLevel"}
    assert names <= set(value)
    assert value["rateLimitedUntil"] == "2026-06-17T11:48:25.131Z"
    assert from_value(json.loads(json.dumps(value))) == FULL
    assert from_value(as_value(CLEAN, connection="a", provider="x")) == CLEAN == from_value(None)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("2026-06-17T11:48:25.131Z", 1781696905.131),
        ("2026-06-17T11:48:25.131", 1781696905.131),
        (1781696905131, 1781696905.131),
        ("1781696905131.0", 1781696905.131),
        ("", 0.0),
        ("soon", 0.0),
        (None, 0.0),
        (True, 0.0),
        (-5, 0.0),
        (float("nan"), 0.0),
        ("1e400", 0.0),
        (10**400, 0.0),
        ([], 0.0),
    ],
)
def test_an_instant_is_read_in_every_form_and_garbage_is_never(written: object, wanted: float) -> None:
    """CC-3, CC-4, edge case 9"""
    assert instant(written) == pytest.approx(wanted, abs=1e-6)


@given(st.integers(1, 10**13))
def test_an_instant_keeps_its_milliseconds(millis: int) -> None:
    """CC-3"""
    assert instant(iso(millis / 1000)) == millis / 1000


@pytest.mark.parametrize(
    ("word", "wanted"), [(" BANNED ", "banned"), ("Active", "active"), ("odd", "active"), (3, "active")]
)
def test_a_status_is_read_trimmed_and_in_any_letter_case(word: object, wanted: str) -> None:
    """CC-2"""
    assert from_value({"testStatus": word}).status == wanted


@pytest.mark.parametrize("field", ["backoffLevel", "errorCode", "expiredRetryCount", "lastError", "cause", "label"])
@pytest.mark.parametrize("garbage", [-1, True, [1], {}])
def test_a_field_that_makes_no_sense_is_as_if_missing(field: str, garbage: Any) -> None:
    assert from_value({field: garbage}) == CLEAN


def test_error_texts_are_short_printable_and_never_empty() -> None:
    """CC-5"""
    assert error_text("a\x00b\n  c") == "a b c"
    assert error_text("x" * 101) == "x" * 99 + "…"
    assert error_text("x" * 100) == "x" * 100
    assert error_text(" \x01 ") == "Provider request failed"


def test_for_display_a_rest_that_is_over_is_over() -> None:
    """CC-9, edge case 22"""
    rest = Rest(status="unavailable", until=100.0)
    assert (rest.shown_status(99.0), rest.remaining_s(99.0)) == ("unavailable", 1.0)
    assert (rest.shown_status(100.0), rest.remaining_s(100.0)) == ("active", 0.0)
    assert rest.remaining_s(100.0 - 3600) == 3600
    assert Rest(status="banned", until=9e9).remaining_s(0.0) == 0.0


def test_repr_tells_the_state() -> None:
    assert repr(Rest(until=1.5, level=2, cause="x")) == "<Rest until=1.500 level=2 cause=x>"
    assert repr(Rest(status="banned", cause="x")) == "<Rest BANNED level=0 cause=x>"
