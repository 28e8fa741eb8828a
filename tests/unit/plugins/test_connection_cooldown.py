"""A connection that failed rests, for as long as it should, and comes back by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown, Rest, after_failure, ladder_s

from omniroute_addon.model import (
    Answer,
    Attempt,
    Auth,
    Connection,
    Kind,
    RetryAfter,
    RuleRef,
    Scope,
    Secret,
    Story,
    Target,
    Verdict,
)
from omniroute_addon.settings import ApiKeyCooldown, OauthCooldown, Settings

API, OAUTH = ApiKeyCooldown(), OauthCooldown()
CAP = 120_000


def target(name: str = "a", *, own: bool = False, disable_cooling: bool = False, key: str | None = None) -> Target:
    secret = Secret(value=key, digest=key) if key else None
    connection = Connection(id=name, provider="openai", own=own, disable_cooling=disable_cooling, secret=secret)
    return Target(connection=connection, dialect="openai-chat", url="https://x/", model="m", auth=Auth())


def story(
    kind: Kind = "rate_limit",
    *,
    scope: Scope = "connection",
    wait_s: float | None = None,
    terminal: bool = False,
    to: Target | None = None,
    started_at: float = 0.0,
) -> Story:
    verdict = Verdict(
        kind=kind,
        scope=scope,
        retry_other=True,
        terminal=terminal,
        breaker=False,
        status=429,
        reason="r",
        rule=RuleRef(id="rule"),
        retry_after=RetryAfter(seconds=wait_s, source="header:retry-after") if wait_s is not None else None,
    )
    attempt = Attempt(number=1, target=to or target(), tries=1, started_at=started_at)
    return Story(attempt=attempt, answer=Answer(status=429), verdict=verdict, ended_at=started_at)


def fail(rest: Rest, now: float, *, figures: Any = API, **kwargs: Any) -> Rest:
    return after_failure(rest, story(**kwargs), figures, max_cooldown_ms=CAP, now=now)


def mechanism(category: str = "api_key") -> ConnectionCooldown:
    plugin = ConnectionCooldown()
    config = SimpleNamespace(settings=Settings(), connections=(target().connection,))
    packs = SimpleNamespace(providers={"openai": SimpleNamespace(category=category)})
    plugin.start(SimpleNamespace(config=config, packs=packs))  # type: ignore[arg-type]
    return plugin


def test_the_ladder_of_api_keys() -> None:
    """CC-14, CC-17."""
    assert [ladder_s(API, level, CAP) for level in range(8)] == [3, 6, 12, 24, 48, 96, 96, 96]


def test_the_ladder_of_oauth_accounts_and_its_cap() -> None:
    """CC-15, CC-16, CC-17."""
    big = 10**9
    assert [ladder_s(OAUTH, level, big) for level in range(10)] == [5, 10, 20, 40, 80, 160, 320, 640, 1280, 1280]
    assert ladder_s(OAUTH, 8, CAP) == 120


def test_each_failure_after_a_rest_climbs_one_step_up_to_the_cap() -> None:
    """CC-14, A05."""
    rest, now, pauses = Rest(), 0.0, []
    for _ in range(7):
        rest = fail(rest, now)
        pauses.append(rest.until - now)
        now = rest.until
    assert pauses == [3, 6, 12, 24, 48, 96, 96]
    assert rest.level == API.max_backoff_steps


def test_a_hint_is_exact_and_sets_the_ladder_back() -> None:
    """CC-21."""
    rest = fail(Rest(level=4), 10.0, wait_s=13872)
    assert (rest.until, rest.level) == (13882.0, 0)


def test_oauth_accounts_ignore_hints_by_default() -> None:
    """CC-20, CC-22."""
    rest = fail(Rest(), 0.0, wait_s=60, figures=OAUTH)
    assert (rest.until, rest.level) == (5.0, 1)


def test_the_later_declared_deadline_wins() -> None:
    """A01, CC-39."""
    rest = fail(Rest(), 0.0, wait_s=10)
    rest = fail(rest, 1.0, wait_s=60)
    assert rest.until == 61.0
    assert fail(rest, 2.0, wait_s=5).until == 61.0


def test_many_failures_of_one_moment_are_one() -> None:
    """CC-36, CC-37."""
    rest = Rest()
    for _ in range(50):
        rest = fail(rest, 0.0)
    assert (rest.level, rest.until) == (1, 3.0)


def test_a_busy_connection_rests_a_second_and_keeps_its_level() -> None:
    """CC-42, CC-43."""
    rest = fail(Rest(level=3), 0.0, kind="concurrency_limited")
    assert (rest.until, rest.level) == (1.0, 3)
    assert fail(Rest(level=3), 0.0, kind="concurrency_limited", wait_s=7).until == 7.0


def test_disable_cooling_never_rests_but_may_end() -> None:
    """CC-52, CC-53."""
    rest = fail(Rest(), 5.0, to=target(disable_cooling=True))
    assert rest.until == 0.0 and rest.failed_at == 5.0
    assert fail(Rest(), 5.0, to=target(disable_cooling=True), terminal=True, kind="account_banned").terminal


def test_a_terminal_state_is_never_overwritten_by_a_timer() -> None:
    """CC-38, CC-56."""
    out = fail(Rest(until=9.0, level=2), 1.0, terminal=True, kind="credits_exhausted")
    assert out.terminal and out.until == 0.0
    assert fail(out, 2.0, wait_s=99) is out


def test_the_clients_own_credential_is_never_terminal() -> None:
    """`spec/README.md` rule 4."""
    rest = fail(Rest(), 0.0, terminal=True, kind="auth_invalid", to=target(own=True))
    assert not rest.terminal and rest.until == 3.0


def test_excluded_exactly_while_resting() -> None:
    """CC-7, CC-8."""
    plugin = mechanism()
    a, b = target("a"), target("b")
    plugin.failed(call=None, story=story(to=a), now=100.0)  # type: ignore[arg-type]
    (exclusion,) = plugin.exclude(targets=[a, b], now=102.9)
    assert (exclusion.target, exclusion.label, exclusion.until) == (a, "connection_cooldown", 103.0)
    assert exclusion.detail == "rate_limit (rule)"
    assert plugin.exclude(targets=[a, b], now=103.0) == []


def test_a_terminal_connection_is_excluded_without_end() -> None:
    """CC-11."""
    plugin = mechanism()
    plugin.failed(call=None, story=story("account_banned", terminal=True), now=1.0)  # type: ignore[arg-type]
    (exclusion,) = plugin.exclude(targets=[target()], now=1e9)
    assert (exclusion.label, exclusion.until) == ("connection_terminal", None)
    assert "account_banned" in exclusion.detail


@pytest.mark.parametrize("kind", ["overloaded", "context_overflow", "model_not_found"])
def test_what_is_not_the_accounts_fault_cools_nothing(kind: Kind) -> None:
    """A07."""
    plugin = mechanism()
    plugin.failed(call=None, story=story(kind, scope="provider"), now=1.0)  # type: ignore[arg-type]
    assert plugin.exclude(targets=[target()], now=1.0) == []


@pytest.mark.parametrize("kind", ["network", "timeout", "server_error"])
def test_a_dead_address_is_not_asked_again_at_once(kind: Kind) -> None:
    plugin = mechanism()
    plugin.failed(call=None, story=story(kind, scope="provider"), now=1.0)  # type: ignore[arg-type]
    assert plugin.exclude(targets=[target()], now=1.0) != []


def test_a_success_clears_what_failed_before_it_began() -> None:
    """CC-48."""
    plugin = mechanism()
    plugin.failed(call=None, story=story(), now=10.0)  # type: ignore[arg-type]
    plugin.succeeded(attempt=Attempt(number=2, target=target(), tries=1, started_at=11.0))
    assert plugin.exclude(targets=[target()], now=11.0) == []


def test_a_success_that_began_before_the_failure_clears_nothing() -> None:
    """CC-49."""
    plugin = mechanism()
    plugin.failed(call=None, story=story(), now=10.0)  # type: ignore[arg-type]
    plugin.succeeded(attempt=Attempt(number=2, target=target(), tries=1, started_at=9.0))
    assert plugin.exclude(targets=[target()], now=11.0) != []


def test_a_success_never_clears_a_terminal_state() -> None:
    """CC-50."""
    plugin = mechanism()
    plugin.failed(call=None, story=story("auth_invalid", terminal=True), now=1.0)  # type: ignore[arg-type]
    plugin.succeeded(attempt=Attempt(number=2, target=target(), tries=1, started_at=5.0))
    assert plugin.exclude(targets=[target()], now=9.0) != []


def test_a_new_key_starts_clean_and_a_removed_connection_is_forgotten() -> None:
    plugin = mechanism()
    plugin.failed(call=None, story=story("auth_invalid", terminal=True, to=target(key="old")), now=1.0)  # type: ignore[arg-type]
    plugin.failed(call=None, story=story(to=target("client:1", own=True)), now=1.0)  # type: ignore[arg-type]
    assert plugin.exclude(targets=[target(key="new")], now=1.0) == []
    plugin.start(plugin._core)  # type: ignore[arg-type]
    assert list(plugin.rests) == ["client:1"]


def test_repr_tells_the_state() -> None:
    assert repr(Rest(until=1.5, level=2, cause="x")) == "<Rest until=1.500 level=2 cause=x>"
    assert repr(Rest(terminal=True, cause="x")) == "<Rest OUT level=0 cause=x>"


FAILURES = st.tuples(
    st.floats(0, 50), st.sampled_from([None, 0.5, 7.0, 500.0]), st.sampled_from(["rate_limit", "concurrency_limited"])
)


@given(st.lists(FAILURES, max_size=30))
def test_laws_of_the_ladder(failures: list[tuple[float, float | None, Kind]]) -> None:
    """No failure shortens a rest; the level stays within its bounds; every rest ends by itself."""
    rest, now = Rest(), 0.0
    for after, wait_s, kind in failures:
        now += after
        before, rest = rest, fail(rest, now, wait_s=wait_s, kind=kind)
        assert rest.until >= before.until or before.until <= now
        assert 0 <= rest.level <= API.max_backoff_steps
        assert now < rest.until <= max(before.until, now + 500.0)
