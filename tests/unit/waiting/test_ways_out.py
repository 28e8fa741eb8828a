"""Which targets are worth waiting for, and until when (`CW-9` to `CW-21`, A08, A25)."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.model import RetryAfter, Story, Target
from omniroute_addon.testing.calls import make_attempt, make_exclusion, make_story, make_target, make_verdict
from omniroute_addon.waiting.ways_out import KINDS, LADDER_S, REASONS, WayOut, ways_out

NOW = 1000.0
A, B = make_target("a"), make_target("b")


def barred(target: Target = A, seconds: float | None = 10.0, reason: str = "rate_limit_exceeded", **fields: Any) -> Any:
    return make_exclusion(target, until=None if seconds is None else NOW + seconds, reason=reason, **fields)


def told(
    target: Target = A, kind: str = "rate_limit", hint: float | None = None, ago: float = 0.0, **more: Any
) -> Story:
    after = RetryAfter(seconds=hint, source="header:retry-after") if hint is not None else None
    verdict = make_verdict(kind, retry_after=after, **more)
    return make_story(make_attempt(target), verdict=verdict, ended_at=NOW - ago)


def found(*known: Any, targets: tuple[Target, ...] = (A,), passes: int = 0) -> list[tuple[str, float]]:
    exclusions = [k for k in known if not isinstance(k, Story)]
    stories = [k for k in known if isinstance(k, Story)]
    ways = ways_out(targets, exclusions, stories, passes=passes, now=NOW)
    return [(way.target.connection.id, way.in_s) for way in ways]


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_a_passing_lock_is_a_way_out(reason: str) -> None:
    """CW-10, CW-11."""
    assert found(barred(reason=reason)) == [("a", 10.0)]


@pytest.mark.parametrize("reason", ["quota_exhausted", "auth_error", "not_found", "not_found_local", "", "who_knows"])
def test_any_other_reason_or_none_is_not(reason: str) -> None:
    """CW-9, CW-12: even if it ends in a moment."""
    assert found(barred(seconds=1.0, reason=reason)) == []


@pytest.mark.parametrize("seconds", [None, 0.0, -1.0])
def test_what_does_not_end_by_itself_or_has_ended_is_not(seconds: float | None) -> None:
    """CW-13, CW-18."""
    assert found(barred(seconds=seconds)) == []


def test_the_earliest_decides() -> None:
    """CW-19, edge cases 6, 12 and 17: a short quota lock beside it vetoes nothing, each target has its own."""
    assert found(barred(A, 20.0), barred(B, 5.0), targets=(A, B)) == [("b", 5.0), ("a", 20.0)]
    assert found(barred(A, 20.0), barred(B, 1.0, "quota_exhausted"), targets=(A, B)) == [("a", 20.0)]


def test_all_that_bars_a_target_must_pass() -> None:
    """The last of it counts; an open breaker in between, and the target is no way out (CW-13)."""
    assert found(barred(seconds=3.0), barred(seconds=8.0, label="model_lockout")) == [("a", 8.0)]
    assert found(barred(seconds=3.0), barred(seconds=8.0, reason="", label="circuit_open")) == []


def test_a_hint_of_this_call_counts_where_it_is_longer() -> None:
    """CW-20, edge case 3."""
    assert found(barred(seconds=10.0), told(hint=120.0, ago=1.0)) == [("a", 119.0)]
    assert found(barred(seconds=10.0), told(hint=2.0)) == [("a", 10.0)]


def test_a_hint_alone_is_enough() -> None:
    """The client's own credential, or a connection that never cools."""
    assert found(told(hint=7.0, ago=2.0)) == [("a", 5.0)]
    assert found(told(hint=7.0, ago=8.0)) == []


def test_a25_a_quota_is_waited_for_when_the_upstream_itself_named_its_end() -> None:
    """A25 against CW-12: in this very call, and the lock is the one of that answer."""
    quota = {"kind": "quota_exhausted", "reason": "quota_exhausted"}
    assert found(told(hint=90.0, **quota), barred(seconds=90.0, reason="quota_exhausted")) == [("a", 90.0)]
    assert found(told(**quota), barred(seconds=5.0, reason="quota_exhausted")) == []
    assert found(told(hint=90.0, **quota), barred(seconds=95.0, reason="auth_error")) == []


def test_a08_an_overload_without_a_time_is_tried_again_ever_later() -> None:
    waits = [found(told(kind="overloaded"), passes=n) for n in range(6)]
    assert [w[0][1] for w in waits] == [*LADDER_S, LADDER_S[-1], LADDER_S[-1]]


@pytest.mark.parametrize(
    "kind", ["auth_invalid", "credits_exhausted", "server_error", "network", "timeout", "forbidden"]
)
def test_an_answer_that_no_moment_mends_is_no_way_out(kind: str) -> None:
    """CW-13: whatever its lock is called."""
    assert kind not in KINDS
    assert found(told(kind=kind, hint=1.0), barred(seconds=1.0)) == []


def test_nor_is_one_that_needs_a_person() -> None:
    assert found(told(hint=1.0, terminal=True)) == []


def test_the_last_answer_of_a_target_counts() -> None:
    assert found(told(kind="auth_invalid"), told(hint=3.0)) == [("a", 3.0)]


def test_a_target_of_which_nothing_is_known_is_none() -> None:
    assert found() == []


def test_the_word_for_the_log() -> None:
    ways = ways_out([A], [barred(seconds=3.0, label="model_lockout")], [told()], passes=0, now=NOW)
    assert ways == [WayOut(target=A, in_s=3.0, why="model_lockout")]
    assert ways_out([A], [], [told(hint=1.0)], passes=0, now=NOW)[0].why == "rate_limit"
