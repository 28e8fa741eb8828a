"""What follows from a failure, a success, a try: the decision table of `spec/03`, step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from omniroute_addon.cooldown.rest import CLEAN, Rest
from omniroute_addon.cooldown.steps import (
    Failure,
    Policy,
    after_failure,
    after_success,
    after_try,
    cooled,
    failure_of,
    ladder_s,
    next_try_at,
)
from omniroute_addon.model import RetryAfter
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import make_attempt, make_connection, make_story, make_target, make_verdict

API = Policy.of(Settings(), "api_key")
OAUTH = Policy.of(Settings(), "oauth")
LOCAL = Policy.of(Settings(), "local")


def failure(**fields: Any) -> Failure:
    return Failure(
        **{"cause": "rate_limit (r)", "error": "slow", "error_type": "rate_limit_exceeded", "code": 429, **fields}
    )


def fail(rest: Rest, now: float, policy: Policy = API, **fields: Any) -> Rest:
    return after_failure(rest, failure(**fields), policy, now)


def read(verdict: Any, *, policy: Policy = API, shared: bool = False, **connection: Any) -> Failure:
    story = make_story(make_attempt(make_target(make_connection(**connection))), verdict=verdict)
    return failure_of(story, "rest", policy, shared_rule=shared)


# ---------------------------------------------------------------- the ladder


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        (API, [3, 6, 12, 24, 48, 96, 96]),
        (OAUTH, [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1280]),
        (LOCAL, [2, 4, 8, 16, 16]),
    ],
)
def test_the_ladder_of_each_class_up_to_its_cap(policy: Policy, wanted: list[float]) -> None:
    """CC-12, CC-13, CC-14, CC-15, CC-17, A05; edge case 2"""
    rest, now, pauses = CLEAN, 100.0, []
    for _ in wanted:
        rest = fail(rest, now, policy)
        pauses.append(rest.until - now)
        now = rest.until
    assert pauses == wanted
    assert rest.level == policy.steps


def test_the_ladder_is_capped_by_the_longest_lock_of_a_model_or_by_its_own_setting() -> None:
    """CC-16"""
    long = replace(OAUTH, base_ms=1_000_000)
    assert ladder_s(long, 8) == 1800
    own = Policy.of(Settings.model_validate({"max_cooldown_ms": 120_000}), "oauth")
    assert ladder_s(own, 8) == 120


def test_a_base_of_zero_rests_nobody_but_climbs() -> None:
    """CC-19, edge case 21"""
    rest = fail(CLEAN, 5.0, replace(API, base_ms=0))
    assert (rest.until, rest.level, rest.status, rest.failed_at) == (0.0, 1, "active", 5.0)


def test_after_a_quiet_while_the_ladder_begins_anew() -> None:
    """CC-85"""
    rest = replace(fail(CLEAN, 100.0), level=4)
    assert fail(rest, rest.until + 600).until == rest.until + 600 + 48
    late = fail(rest, rest.until + 600.001)
    assert (late.until - (rest.until + 600.001), late.level) == (pytest.approx(3), 1)


# ---------------------------------------------------------------- what was declared


def test_a_hint_is_exact_and_sets_the_ladder_back() -> None:
    """CC-21"""
    rest = fail(Rest(level=4, failed_at=9.0), 10.0, declared_s=13872)
    assert (rest.until, rest.level) == (13882.0, 0)


@pytest.mark.parametrize(("policy", "wanted"), [(API, 60.0), (OAUTH, 0.0), (LOCAL, 60.0)])
def test_hints_count_by_class(policy: Policy, wanted: float) -> None:
    """CC-20, CC-22, edge case 5"""
    verdict = make_verdict(retry_after=RetryAfter(seconds=60, source="header:retry-after"))
    assert read(verdict, policy=policy).declared_s == wanted


@pytest.mark.parametrize("policy", [API, OAUTH, LOCAL])
def test_the_reset_of_a_used_up_allowance_counts_for_every_class(policy: Policy) -> None:
    """FC-87; FC-88: not under a 5xx; a throttle's wait stays a hint"""
    reset = RetryAfter(seconds=13_872, source="body:error.resets_in_seconds")
    assert read(make_verdict("quota_exhausted", retry_after=reset), policy=policy).declared_s == 13_872
    for other in (
        make_verdict("quota_exhausted", retry_after=reset, status=500),
        make_verdict("rate_limit", retry_after=reset),
    ):
        assert read(other, policy=policy).declared_s == (0.0 if policy is OAUTH else 13_872)


def test_a_rules_duration_is_neither_doubled_nor_capped_and_leaves_the_level() -> None:
    """CC-18"""
    rest = fail(Rest(level=3, failed_at=1.0), 1.0, fixed_s=86_400.0)
    assert (rest.until, rest.level) == (86_401.0, 3)
    assert fail(rest, rest.until, fixed_s=86_400.0).until == rest.until + 86_400


def test_a_duration_of_zero_is_written_down_only() -> None:
    """CC-19"""
    rest = fail(Rest(level=2, failed_at=1.0), 1.0, fixed_s=0.0)
    assert (rest.until, rest.level, rest.status, rest.error) == (0.0, 2, "active", "slow")
    assert fail(CLEAN, 1.0, fixed_s=0.0, least_s=120.0).until == 121.0


def test_the_later_declared_deadline_wins() -> None:
    """A01, CC-39"""
    rest = fail(CLEAN, 0.5, declared_s=10)
    rest = fail(rest, 1.0, declared_s=60, cause="second (r)")
    assert (rest.until, rest.cause) == (61.0, "second (r)")
    assert fail(rest, 2.0, declared_s=5) is rest
    assert fail(rest, 2.0, fixed_s=3600.0).until == 3602.0


def test_many_failures_of_one_moment_are_one() -> None:
    """CC-36, CC-37, FC-11, edge case 1"""
    first = fail(CLEAN, 1.0)
    rest = first
    for _ in range(50):
        rest = fail(rest, 1.5)
    assert rest is first
    assert (rest.level, rest.until) == (1, 4.0)


def test_a_busy_connection_rests_a_second_and_keeps_its_level() -> None:
    """CC-42, CC-43"""
    busy = fail(Rest(level=3, failed_at=1.0), 1.0, busy=True)
    assert (busy.until, busy.level, busy.status) == (2.0, 3, "unavailable")
    assert fail(Rest(level=3, failed_at=1.0), 1.0, busy=True, declared_s=7).until == 8.0
    assert read(make_verdict("concurrency_limited")).busy


def test_disable_cooling_counts_but_never_rests_and_may_still_end() -> None:
    """CC-52, CC-53, edge case 19"""
    rest = fail(CLEAN, 5.0, never_cools=True)
    assert (rest.until, rest.level, rest.failed_at, rest.status) == (0.0, 1, 5.0, "active")
    assert fail(CLEAN, 5.0, never_cools=True, out="banned").status == "banned"
    assert read(make_verdict(), disable_cooling=True).never_cools


def test_what_is_only_noted_skips_nobody() -> None:
    """CC-45"""
    rest = fail(CLEAN, 5.0, rests=False)
    assert (rest.until, rest.level, rest.error_type) == (0.0, 0, "rate_limit_exceeded")
    resting = fail(CLEAN, 5.0)
    assert fail(resting, 6.0, rests=False) is resting


# ---------------------------------------------------------------- terminal states


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        ("credits_exhausted", "credits_exhausted"),
        ("quota_exhausted", "credits_exhausted"),
        ("account_banned", "banned"),
        ("forbidden", "banned"),
        ("auth_invalid", "expired"),
        ("auth_expired", "expired"),
        ("model_not_found", None),
    ],
)
def test_each_terminal_verdict_has_its_state(kind: str, wanted: str | None) -> None:
    """CC-58, CC-59, CC-65, CC-68, CC-70, CC-77, CC-79, CC-82: the verdict has read the words"""
    assert read(make_verdict(kind, terminal=True)).out == wanted
    assert read(make_verdict(kind, terminal=False)).out is None


def test_an_address_or_a_model_is_never_terminal_for_the_connection() -> None:
    """EL-29, CC-80"""
    for scope in ("egress_ip", "model", "provider"):
        assert read(make_verdict("forbidden", scope=scope, terminal=True)).out is None


def test_the_clients_own_credential_is_never_terminal() -> None:
    """`spec/README.md` rule 4"""
    assert read(make_verdict("auth_invalid", terminal=True), own=True).out is None


def test_a_terminal_state_ends_the_rest_and_is_never_overwritten_by_a_timer() -> None:
    """CC-38, CC-55, CC-56, FC-9"""
    out = fail(Rest(until=9.0, level=2, failed_at=1.0, status="unavailable"), 1.5, out="credits_exhausted")
    assert (out.status, out.until) == ("credits_exhausted", 0.0)
    assert fail(out, 2.0, declared_s=99) is out
    assert fail(out, 2.0, out="banned") is out
    assert cooled(out, until=99.0, error="x", error_type="y", cause="z", label="l", now=2.0) is out


def test_a_403_without_a_stated_cause_bans_at_the_second_within_ten_minutes() -> None:
    """CC-63, CC-64, and the decision in `spec/README.md`"""
    first = fail(CLEAN, 100.0, out="banned", unexplained_403=True)
    assert (first.status, first.until) == ("unavailable", 103.0)
    assert fail(first, 101.0, out="banned", unexplained_403=True) is first, "one of the same moment"
    assert fail(first, 700.0, out="banned", unexplained_403=True).status == "banned"
    late = fail(first, 700.5, out="banned", unexplained_403=True)
    assert (late.status, late.forbidden_at) == ("unavailable", 700.5)
    strict = replace(API, forbidden_window_ms=0)
    assert fail(CLEAN, 1.0, strict, out="banned", unexplained_403=True).status == "banned"
    assert read(make_verdict("forbidden", terminal=True), shared=True).unexplained_403
    assert not read(make_verdict("forbidden", terminal=True)).unexplained_403, "the provider's own rule knows"


# ---------------------------------------------------------------- success, tries, siblings


def test_a_success_clears_what_failed_before_it_began() -> None:
    """CC-48, CC-49, A06, edge case 10"""
    rest = fail(CLEAN, 10.0)
    assert after_success(rest, started_at=11.0) is CLEAN
    assert after_success(rest, started_at=9.0) is rest


def test_a_success_never_clears_a_terminal_state() -> None:
    """CC-50, edge case 11"""
    for status in ("banned", "credits_exhausted", "expired"):
        out = Rest(status=status, failed_at=1.0)  # type: ignore[arg-type]
        assert after_success(out, started_at=5.0) is out


def test_an_expired_login_is_tried_at_five_ten_and_twenty_minutes_and_then_no_more() -> None:
    """CC-71, CC-72, CC-73, edge case 14"""
    rest, at = Rest(status="expired", failed_at=1000.0), []
    while (due := next_try_at(rest, tries=3, base_ms=300_000)) is not None:
        at.append(due - (rest.tried_at or rest.failed_at))
        rest = after_try(rest, due)
    assert (at, rest.tries) == ([300, 600, 1200], 3)
    assert after_success(rest, started_at=rest.tried_at, tried=True) is CLEAN
    assert after_success(replace(rest, status="banned"), started_at=9e9, tried=True).status == "banned"
    assert next_try_at(Rest(status="banned", failed_at=1.0), tries=3, base_ms=300_000) is None


def test_a_sibling_is_cooled_only_when_it_is_free_and_keeps_its_level() -> None:
    """EL-22, EL-24, EL-25"""
    fields: dict[str, Any] = {"error": "shared", "error_type": "quota_exhausted", "cause": "c", "label": "egress_lock"}
    sibling = cooled(Rest(level=2, failed_at=1.0), until=50.0, now=10.0, **fields)
    assert (sibling.status, sibling.until, sibling.level, sibling.code) == ("unavailable", 50.0, 2, 429)
    assert (sibling.error_type, sibling.error, sibling.label) == ("quota_exhausted", "shared", "egress_lock")
    for until in (20.0, 90.0):
        resting = Rest(status="unavailable", until=until)
        assert cooled(resting, until=50.0, now=10.0, **fields) is resting
    assert cooled(CLEAN, until=10.0, now=10.0, **fields) is CLEAN
