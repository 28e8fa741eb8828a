"""An error shows the value as written and the allowed ones nearest first, and never a credential."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.nearest import by_nearness, plural, shown, unknown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "'x'"),
        (5, "'5'"),
        (None, "'null'"),
        (True, "'true'"),
        (False, "'false'"),
        ({"a": 1}, "a mapping"),
        ([1], "a list"),
        ("a\nb", "'a\\nb'"),
        ("wörter " * 20, "'wörter wörter wörter wörter wörter wörter wörter wörter wört…'"),
    ],
)
def test_a_value_is_shown_as_it_was_written(value: Any, text: str) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    "value",
    [
        "sk-abcdefgh12345678",
        "sk-ant-api03-abcdefgh",
        "ghp_abcdefgh12345678",
        "AIzaSyA1234567890",
        "eyJhbGciOiJIUzI1NiJ9.e30",
        "Bearer abc",
        "http://user:pass@host",
        "0123456789abcdef0123456789abcdef",
    ],
)
def test_what_looks_like_a_credential_is_hidden(value: str) -> None:
    assert shown(value) == f"(hidden, {len(value)} characters)"


@pytest.mark.parametrize("value", ["risk-assessments", "us.anthropic.claude-sonnet-4-20250514-v1:0", "quota_exhausted"])
def test_ordinary_words_are_not(value: str) -> None:
    assert shown(value) == f"'{value}'"


def test_the_nearest_word_comes_first_and_is_asked_about() -> None:
    assert unknown("reason", "quota_exausted", ["auth_error", "quota_exhausted"]) == (
        "unknown reason 'quota_exausted'. Did you mean 'quota_exhausted'?\n  Known reasons: quota_exhausted, auth_error"
    )


def test_without_anything_near_nothing_is_suggested() -> None:
    assert unknown("category", "zzz", ["local"]) == "unknown category 'zzz'.\n  Known categories: local"
    assert unknown("connection", "zzz", []) == "unknown connection 'zzz'.\n  No connection is known here."


def test_a_long_list_is_cut() -> None:
    text = unknown("word", "w00", [f"w{n:02}" for n in range(30)])
    assert text.endswith(", … and 6 more")
    assert text.count(",") == 24


def test_equals_are_in_alphabetical_order() -> None:
    assert by_nearness("", ["b", "a"]) == ["a", "b"]


def test_plurals() -> None:
    assert [plural(w) for w in ("key", "category", "status", "trait")] == ["keys", "categories", "statuses", "traits"]
