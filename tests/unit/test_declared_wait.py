"""The caps of a declared wait, and whose word counts."""

from __future__ import annotations

import pytest

from omniroute_addon.declared_wait import declared_wait_s, is_authoritative
from omniroute_addon.model import RetryAfter

MONTH_MS = 2_592_000_000


@pytest.mark.parametrize(
    ("seconds", "source", "wanted"),
    [
        (86_399.0, "body:error.details[RetryInfo].retryDelay", 86_399.0),
        (100_000.0, "body:error.details[RetryInfo].retryDelay", 86_400.0),
        (100_000.0, "text:Please retry in 100000s", 86_400.0),
        (592_044.0, "text:Resets in 164h27m24s", 592_044.0),
        (9e9, "header:retry-after", 2_592_000.0),
        (0.0, "header:retry-after", 0.0),
        (-5.0, "header:retry-after", 0.0),
    ],
)
def test_a_wait_has_the_cap_of_its_source(seconds: float, source: str, wanted: float) -> None:
    """CC-27, CC-31, CC-33, edge cases 3 and 6"""
    assert declared_wait_s(RetryAfter(seconds=seconds, source=source), max_hint_ms=MONTH_MS) == wanted


def test_the_operator_may_set_a_lower_ceiling() -> None:
    """CC-31"""
    assert declared_wait_s(RetryAfter(seconds=500.0, source="header:retry-after"), max_hint_ms=60_000) == 60
    assert declared_wait_s(None, max_hint_ms=60_000) == 0.0


def test_headers_and_retry_info_are_authoritative_prose_is_not() -> None:
    """CC-32, ML-31"""
    told = ["header:retry-after", "body:error.details[RetryInfo].retryDelay", "body:retryAfter", "text:try again in 5s"]
    assert [is_authoritative(RetryAfter(seconds=5.0, source=s)) for s in told] == [True, True, False, False]
    assert not is_authoritative(None)
