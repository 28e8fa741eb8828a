"""When may I try again? The order of the sources, the clock, the bounds (`CC-23` to `CC-34`, `A02`, `A11`)."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.model import Answer, RetryAfter
from omniroute_addon.verdicts.retry_after import LONGEST_S, find_retry_after

NOW = 1_780_000_000.0
DATE = "Thu, 28 May 2026 20:26:40 GMT"
"""NOW as an HTTP date."""
LIMIT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "40s"}


def find(
    body: Any = "", *, status: int = 429, headers: dict[str, str] | None = None, stream: bool = False, now: float = NOW
) -> RetryAfter | None:
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return find_retry_after(Answer(status=status, headers=headers or {}, body=raw, stream=stream), now=now)


def said(found: RetryAfter | None) -> tuple[float, str] | None:
    return (found.seconds, found.source) if found else None


def test_the_sources_are_asked_in_order() -> None:
    """CC-23, corpus README: taking one away uncovers the next."""
    headers = {"retry-after-ms": "1500", "retry-after": "20", **LIMIT}
    body = {"error": {"resets_in_seconds": 60, "message": "Please try again in 80s"}}
    assert said(find(body, headers=headers)) == (1.5, "header:retry-after-ms")
    del headers["retry-after-ms"]
    assert said(find(body, headers=headers)) == (20.0, "header:retry-after")
    del headers["retry-after"]
    assert said(find(body, headers=headers)) == (40.0, "header:x-ratelimit-reset-requests")
    assert said(find(body)) == (60.0, "body:error.resets_in_seconds")
    del body["error"]["resets_in_seconds"]
    assert said(find(body)) == (80.0, "text:Please try again in 80s")
    assert find({"error": {"message": "Slow down"}}) is None


@pytest.mark.parametrize(
    "value", ["0", "-5", "abc", "Thu, 01 Jan 1970 00:00:00 GMT", "nan", "inf", "1e9", "", "9" * 600]
)
def test_a_useless_header_counts_as_absent(value: str) -> None:
    """CC-33 and edge case 3: the next source is asked."""
    assert said(find("try again in 9s", headers={"retry-after": value})) == (9.0, "text:try again in 9s")
    assert find(headers={"retry-after": value}) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("5m", 300.0),
        ("5m30s", 330.0),
        ("1.5", 1.5),
        ("Thu, 28 May 2026 20:27:40 GMT", 60.0),
        ("99999999", LONGEST_S),
        ("1780000060", 60.0),
        ("3, 30", 30.0),
    ],
)
def test_retry_after_in_every_form(value: str, seconds: float) -> None:
    """CC-24, CC-25, CC-31"""
    assert said(find(headers={"retry-after": value})) == (seconds, "header:retry-after")


def test_header_names_match_in_any_case() -> None:
    """CC-34"""
    assert said(find(headers={"Retry-After": "5"})) == (5.0, "header:retry-after")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1780000060", 60.0), ("1780000060000", 60.0), ("10000000000", LONGEST_S), ("10000000001", None)],
)
def test_x_ratelimit_reset_at_the_border_of_seconds_and_milliseconds(value: str, seconds: float | None) -> None:
    """CC-26, edge case 4: one more than 10,000,000,000 is April 1970."""
    found = find(headers={"x-ratelimit-reset": value})
    assert (found.seconds if found else None) == seconds


def test_the_providers_clock_is_subtracted_from_the_providers_time() -> None:
    """A `date` header makes a point in time a length; our own clock may be hours off."""
    body = {"error": {"resets_at": 1_780_000_060}}
    for now in (NOW, NOW - 7200, NOW + 7200):
        assert find(body, headers={"date": DATE}, now=now) == RetryAfter(
            seconds=60.0, source="body:error.resets_at", absolute=False
        )


def test_without_a_date_our_clock_is_used_and_the_result_says_so() -> None:
    found = find({"error": {"resets_at": 1_780_000_060}})
    assert found == RetryAfter(seconds=60.0, source="body:error.resets_at", absolute=True)
    assert find("try again in 5s") == RetryAfter(seconds=5.0, source="text:try again in 5s", absolute=False)


def test_a_reset_in_the_past_is_ignored_and_the_length_beside_it_used() -> None:
    """A02"""
    body = {"error": {"type": "usage_limit_reached", "resets_at": 1_770_000_000, "resets_in_seconds": 13872}}
    assert said(find(body)) == (13872.0, "body:error.resets_in_seconds")
    del body["error"]["resets_in_seconds"]
    assert find(body) is None


def test_retry_info_is_exact_above_a_day_and_bounded_to_thirty() -> None:
    """CC-27's cap of 24 h is the timer's: the corpus wants what the answer says."""
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "86399s"}
    assert said(find({"error": {"details": [detail]}})) == (86399.0, "body:error.details[RetryInfo].retryDelay")
    detail["retryDelay"] = "581981.3s"
    assert said(find({"error": {"details": [detail]}})) == (581981.3, "body:error.details[RetryInfo].retryDelay")
    detail["retryDelay"] = "99999999s"
    found = find({"error": {"details": [detail]}})
    assert found is not None and found.seconds == LONGEST_S


@pytest.mark.parametrize(
    "value",
    [
        -1,
        0,
        1e18,
        10**600,
        float("nan"),
        float("inf"),
        float("-inf"),
        "9999-12-31T23:59:59Z",
        "2026-13-01",
        "1e999",
        "0000-00-00",
        "2026-06-01T00:00:00 Nowhere/Land",
        [1],
        {},
        True,
        None,
    ],
)
@pytest.mark.parametrize("name", ["retry_after", "resets_at", "resets_in_seconds", "retry_after_ms", "retryDelay"])
def test_hostile_values_are_bounded_or_ignored(name: str, value: object) -> None:
    """CC-31, CC-33"""
    found = find({"error": {name: value}})
    assert found is None or 0 < found.seconds <= LONGEST_S


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422, 500, 502, 504])
def test_an_empty_bucket_is_no_reason_for_another_failure(status: int) -> None:
    """The last request of a minute may be malformed: its headers then say nothing about when to try again."""
    assert find("nope", status=status, headers=LIMIT) is None
    assert said(find("nope", status=429, headers=LIMIT)) == (40.0, "header:x-ratelimit-reset-requests")
    assert said(find("nope", status=status, headers={"retry-after": "3"})) == (3.0, "header:retry-after")


@pytest.mark.parametrize("status", [0, 100, 204, 301, 304])
def test_statuses_that_never_speak_of_waiting(status: int) -> None:
    assert find("try again in 5s", status=status, headers={"retry-after": "5"}) is None


def test_a_successful_answer_says_nothing_whatever_it_talks_about() -> None:
    """A11"""
    talk = "Rate limit exceeded, please try again in 20s"
    used_up = {
        "x-codex-primary-used-percent": "100",
        "x-codex-primary-reset-after-seconds": "471285",
        "retry-after": "5",
    }
    assert find({"choices": [{"message": {"content": talk}}]}, status=200, headers=used_up) is None
    assert find(talk, status=200, headers=used_up) is None
    stream = f'data: {{"choices":[{{"delta":{{"content":"{talk}"}}}}]}}\n\ndata: [DONE]\n\n'
    assert find(stream, status=200, headers=used_up, stream=True) is None


def test_an_error_inside_a_success_does() -> None:
    body = {"error": {"message": "try again in 20s"}}
    assert said(find(body, status=200)) == (20.0, "text:try again in 20s")
    event = b'event: error\ndata: {"type":"error","error":{"resets_in_seconds":7}}\n\n'
    assert said(find(event, status=200, stream=True)) == (7.0, "body:error.resets_in_seconds")


def test_an_echoed_prompt_says_nothing() -> None:
    echo = {
        "error": {"message": "bad request", "code": "x"},
        "input": "try again in 20s",
        "messages": [{"retry_after": 5}],
    }
    assert find(echo, status=400) is None


def test_a_body_that_is_cut_off_still_says_when() -> None:
    assert said(find('{"error":{"message":"Please try again in 120ms. Visit https://platf')) == (
        0.12,
        "text:Please try again in 120ms",
    )


def test_edge_case_7_of_the_specification() -> None:
    on_30_august = 1_788_084_000.0  # 2026-08-30 10:00 UTC
    assert said(find("Resets in 164h27m24s")) == (592_044.0, "text:Resets in 164h27m24s")
    assert said(find("Your quota will reset in 3 days.")) == (259_200.0, "text:Your quota will reset in 3 days")
    found = find("reset at 08-29 15:29:00 UTC", now=on_30_august)  # next year, hence bounded
    assert found is not None and found.seconds == LONGEST_S and found.absolute
    found = find("reset at 2026-08-29 21:01:21", now=on_30_august - 86_400)
    assert found is not None and found.seconds == pytest.approx(39_681)


@given(
    status=st.sampled_from([200, 400, 429, 503]),
    body=st.binary(max_size=300),
    prefix=st.sampled_from(
        [b"", b'{"error":{"message":"', b"try again in ", "重置时间 ".encode(), b"resets at ", b"data: "]
    ),
    stream=st.booleans(),
)
def test_any_body_gives_none_or_a_bounded_wait(status: int, body: bytes, prefix: bytes, stream: bool) -> None:
    found = find(prefix + body, status=status, stream=stream)
    assert found is None or (math.isfinite(found.seconds) and 0 < found.seconds <= LONGEST_S)


_times = st.one_of(
    st.text(max_size=60),
    st.from_regex(r"[0-9.:/TZhmsd ,+-]{0,30}", fullmatch=True),
    st.integers().map(str),
    st.floats().map(str),
    st.datetimes().map(str),
)


@settings(max_examples=150)
@given(
    headers=st.dictionaries(
        st.sampled_from(
            [
                "retry-after",
                "retry-after-ms",
                "date",
                "x-ratelimit-reset",
                "x-ratelimit-remaining",
                "ratelimit",
                "x-ratelimit-reset-tokens",
                "x-ratelimit-remaining-tokens",
                "anthropic-ratelimit-unified-reset",
                "anthropic-ratelimit-unified-status",
                "x-codex-primary-reset-at",
                "x-codex-primary-used-percent",
                "reset_at",
            ]
        ),
        _times,
    ),
    text=_times,
    now=st.floats(min_value=0, max_value=4e9),
)
def test_any_header_value_gives_none_or_a_bounded_wait(headers: dict[str, str], text: str, now: float) -> None:
    found = find(f"try again at {text}", headers=headers, now=now)
    assert found is None or (math.isfinite(found.seconds) and 0 < found.seconds <= LONGEST_S)


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _times),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "message",
                    "retry_after",
                    "resets_at",
                    "retryDelay",
                    "@type",
                    "headers",
                    "details",
                    "metadata",
                    "seconds",
                    "nanos",
                    "retry_after_ms",
                    "retry-after",
                ]
            ),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=150)
@given(_json)
def test_any_json_gives_none_or_a_bounded_wait(document: object) -> None:
    found = find(document)
    assert found is None or (math.isfinite(found.seconds) and 0 < found.seconds <= LONGEST_S)
