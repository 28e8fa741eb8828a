"""Fields of a body that say when to try again, the most direct first (`CC-27`, `CC-28`)."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.verdicts.reset_fields import find_in_fields

NOW = 1_780_000_000.0
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


def first(document: Any) -> tuple[str, float] | None:
    found = [stated for stated in find_in_fields(document, base=NOW) if stated.wait(NOW) > 0]
    return (found[0].source, round(found[0].wait(NOW), 3)) if found else None


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"error": {"resets_in_seconds": 13872, "resets_at": 1780013000}}, ("error.resets_in_seconds", 13872.0)),
        ({"error": {"resets_at": 1780000060}}, ("error.resets_at", 60.0)),
        ({"error": {"resets_at": 1780000060, "resets_in_seconds": 0}}, ("error.resets_at", 60.0)),
        ({"error": {"metadata": {"resets_at": "2026-05-28T20:27:40Z"}}}, ("error.metadata.resets_at", 60.0)),
        ({"retry_after": 1.5}, ("retry_after", 1.5)),
        ({"retry_after": "30s"}, ("retry_after", 30.0)),
        ({"error": {"retryAfter": "2026-05-28T20:27:40Z"}}, ("error.retryAfter", 60.0)),
        ({"error": {"retryAfter": 1780000060000}}, ("error.retryAfter", 60.0)),
        ({"retry_after_ms": 2500}, ("retry_after_ms", 2.5)),
        ({"retryAfterMs": 2500}, ("retryAfterMs", 2.5)),
        (
            {"error": {"details": [{"@type": RETRY_INFO, "retryDelay": "26.660853464s"}]}},
            ("error.details[RetryInfo].retryDelay", 26.661),
        ),
        (
            {"details": [{"@type": RETRY_INFO, "retryDelay": {"seconds": "5", "nanos": 500000000}}]},
            ("details[RetryInfo].retryDelay", 5.5),
        ),
        (
            {
                "error": {
                    "details": [
                        {
                            "metadata": {
                                "quotaResetDelay": "161h39m41.3s",
                                "quotaResetTimeStamp": "2026-06-01T00:00:00Z",
                            }
                        },
                        {"@type": RETRY_INFO, "retryDelay": "9s"},
                    ]
                }
            },
            ("error.details[RetryInfo].retryDelay", 9.0),
        ),
        (
            {"details": [{"metadata": {"quotaResetDelay": "161h39m41.3s"}}]},
            ("details[0].metadata.quotaResetDelay", 581981.3),
        ),
        (
            {"error": {"metadata": {"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1780000060000"}}}},
            ("error.metadata.headers.X-RateLimit-Reset", 60.0),
        ),
        ({"headers": {"Retry-After": "7"}}, ("headers.Retry-After", 7.0)),
        ({"error": "loading", "estimated_time": 20.0}, ("estimated_time", 20.0)),
        ({"error": {"message": '{"error":{"retry_after":4}}'}}, ("error.message.error.retry_after", 4.0)),
    ],
)
def test_the_most_direct_field_wins(document: Any, found: tuple[str, float]) -> None:
    """CC-27, CC-28, A02"""
    assert first(document) == found


@pytest.mark.parametrize(
    "document",
    [
        {"error": {"resets_at": 30}},
        {"retry_after": True},
        {"retry_after": -5},
        {"retry_after": None},
        {"retry_after": [5]},
        {"retry_after": 1e30},
        {"retry_after": float("nan")},
        {"retry_after": float("inf")},
        {"retry_after": "soon"},
        {"retryDelay": {"seconds": "x"}},
        {"retryDelay": {"seconds": -4, "nanos": "x"}},
        {"headers": {"content-type": "x"}},
        {"headers": "retry-after: 5"},
        {"messages": [{"retry_after": 5}]},
        {"request": {"retry_after": 5}},
        {"input": {"retry_after": 5}},
        [],
        None,
        "retry_after",
    ],
)
def test_nonsense_and_echoed_requests_say_nothing(document: Any) -> None:
    assert first(document) is None


def test_a_thousand_fields_are_read_only_so_far() -> None:
    assert len(find_in_fields([{"retry_after": 1}] * 5000, base=NOW)) == 20
