"""Reset headers: only the bucket that is empty counts."""

from __future__ import annotations

import pytest

from omniroute_addon.verdicts.reset_headers import find_reset

NOW = 1_780_000_000.0


def wait(headers: dict[str, str]) -> tuple[str, float] | None:
    stated = find_reset(headers, base=NOW)
    return (stated.source, round(stated.wait(NOW), 3)) if stated else None


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        # OpenAI, Groq: durations per bucket
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "500",
                "x-ratelimit-reset-tokens": "12m",
            },
            ("x-ratelimit-reset-requests", 360.0),
        ),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "644ms",
            },
            ("x-ratelimit-reset-requests", 1.0),
        ),
        # Cerebras: seconds with a fraction
        (
            {"x-ratelimit-remaining-tokens-day": "0", "x-ratelimit-reset-tokens-day": "33011.382867"},
            ("x-ratelimit-reset-tokens-day", 33011.383),
        ),
        # Anthropic API: RFC 3339
        (
            {
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-05-28T20:27:40Z",
            },
            ("anthropic-ratelimit-input-tokens-reset", 60.0),
        ),
        # Anthropic plans
        (
            {"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": "1780000090"},
            ("anthropic-ratelimit-unified-reset", 90.0),
        ),
        (
            {
                "anthropic-ratelimit-unified-5h-status": "allowed",
                "anthropic-ratelimit-unified-5h-reset": "1780000090",
                "anthropic-ratelimit-unified-7d-status": "rejected",
                "anthropic-ratelimit-unified-7d-reset": "1780009000",
            },
            ("anthropic-ratelimit-unified-7d-reset", 9000.0),
        ),
        # Codex: the window that is used up; "after seconds" before "at" for the same window
        (
            {
                "x-codex-primary-used-percent": "100",
                "x-codex-primary-reset-after-seconds": "13873",
                "x-codex-primary-reset-at": "1780013873",
                "x-codex-secondary-used-percent": "80",
                "x-codex-secondary-reset-after-seconds": "316705",
            },
            ("x-codex-primary-reset-after-seconds", 13873.0),
        ),
        (
            {"x-codex-secondary-used-percent": "100", "x-codex-secondary-reset-at": "1780000600"},
            ("x-codex-secondary-reset-at", 600.0),
        ),
        # One bucket: epoch seconds, milliseconds, plain seconds, no sibling needed
        ({"x-ratelimit-reset": "1780000060"}, ("x-ratelimit-reset", 60.0)),
        ({"x-ratelimit-reset": "1780000060000", "x-ratelimit-remaining": "0"}, ("x-ratelimit-reset", 60.0)),
        ({"x-ratelimit-reset": "36"}, ("x-ratelimit-reset", 36.0)),
        ({"x-ratelimit-reset-after": "2.5"}, ("x-ratelimit-reset-after", 2.5)),
        ({"x-ratelimit-reset-ms": "2500"}, ("x-ratelimit-reset-ms", 2.5)),
        ({"ratelimit-reset": "30"}, ("ratelimit-reset", 30.0)),
        ({"reset_at": "2026-05-28 20:27:40 UTC"}, ("reset_at", 60.0)),
        # GitHub Models
        ({"x-ratelimit-timeremaining": "57829"}, ("x-ratelimit-timeremaining", 57829.0)),
        # Mistral
        ({"ratelimitbysize-remaining": "0", "ratelimitbysize-reset": "36"}, ("ratelimitbysize-reset", 36.0)),
        # IETF drafts, new and old
        ({"ratelimit": '"default";r=0;t=30, "day";r=5;t=900'}, ("ratelimit", 30.0)),
        ({"ratelimit": "limit=100, remaining=0, reset=45"}, ("ratelimit", 45.0)),
    ],
)
def test_the_empty_bucket_says_when(headers: dict[str, str], found: tuple[str, float]) -> None:
    assert wait(headers) == found


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-remaining-requests": "12", "x-ratelimit-reset-requests": "6m0s"},
        {"x-ratelimit-reset-requests": "6m0s"},
        {"x-ratelimit-remaining": "3", "x-ratelimit-reset": "1780000060"},
        {"anthropic-ratelimit-unified-status": "allowed_warning", "anthropic-ratelimit-unified-reset": "1780000090"},
        {
            "anthropic-ratelimit-unified-overage-status": "rejected",
            "anthropic-ratelimit-unified-overage-reset": "1780000090",
        },
        {"x-codex-primary-used-percent": "99", "x-codex-primary-reset-after-seconds": "471285"},
        {"x-codex-primary-reset-after-seconds": "471285"},
        {"x-ratelimit-reset": "1779999999"},
        {"x-ratelimit-reset": "0"},
        {"x-ratelimit-remaining-requests": "soon", "x-ratelimit-reset-requests": "5s"},
        {"ratelimit": '"default";r=3;t=30'},
        {"ratelimit": "nonsense"},
        {"x-ratelimit-limit": "5"},
        {},
    ],
)
def test_a_bucket_with_something_left_says_nothing(headers: dict[str, str]) -> None:
    """CC-33: a time in the past is absent, too."""
    assert wait(headers) is None


def test_a_negative_remainder_is_empty() -> None:
    assert wait({"x-ratelimit-remaining": "-1", "x-ratelimit-reset": "5"}) == ("x-ratelimit-reset", 5.0)


def test_utilisation_is_a_share() -> None:
    head = "anthropic-ratelimit-unified-5h-"
    assert wait({f"{head}utilization": "1.02", f"{head}reset": "1780000060"}) == (f"{head}reset", 60.0)
    assert wait({f"{head}utilization": "0.96", f"{head}reset": "1780000060"}) is None
