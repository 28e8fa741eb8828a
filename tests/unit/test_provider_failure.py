"""What counts against a provider, as what kind, and under whose figures."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.model import Category, RetryAfter, Story
from omniroute_addon.provider_failure import (
    class_of,
    counted_status,
    counts_against_provider,
    failure_kind,
    is_network_failure,
    is_private_host,
    provider_key,
    tells_kinds,
)
from omniroute_addon.provider_settings import CircuitBreaker
from omniroute_addon.testing.calls import make_answer, make_connection, make_provider, make_story, make_verdict
from omniroute_addon.verdicts.kinds import BREAKER_STATUSES

DEFAULT = CircuitBreaker()


def story(kind: str, status: int, *, answer: dict[str, Any] | None = None, **verdict: Any) -> Story:
    verdict = {"scope": "provider", "breaker": status in BREAKER_STATUSES, **verdict}
    given = {"status": status, **(answer or {})}
    return make_story(answer=make_answer(**given), verdict=make_verdict(kind, status=status, **verdict))


def no_answer(kind: str = "network", status: int = 502, fault: str = "reset") -> Story:
    return story(kind, status, answer={"status": 0, "fault": fault, "phase": "connect"})


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_the_providers_own_failures_count(status: int) -> None:
    """CB-11"""
    assert counts_against_provider(story("server_error", status), DEFAULT)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 429, 529])
def test_all_others_never_count(status: int) -> None:
    """CB-12"""
    assert not counts_against_provider(story("rate_limit", status), DEFAULT)


def test_a_restated_status_is_what_counts() -> None:
    """CB-11, edge 20: a 403 that was a 429."""
    restated = story("quota_exhausted", 429, answer={"status": 403}, scope="connection")
    assert counted_status(restated) == 429 and not counts_against_provider(restated, DEFAULT)


@pytest.mark.parametrize(
    ("kind", "status", "fault", "stands_for", "network"),
    [
        ("network", 502, "connect_failed", 502, True),
        ("network", 502, "reset", 502, True),
        ("timeout", 504, "timeout:connect", 502, True),
        ("timeout", 504, "timeout:head", 504, False),
    ],
)
def test_no_answer_counts_as_a_status(kind: str, status: int, fault: str, stands_for: int, network: bool) -> None:
    """CB-13"""
    silent = no_answer(kind, status, fault)
    assert (counted_status(silent), is_network_failure(silent)) == (stands_for, network)
    assert counts_against_provider(silent, DEFAULT)


@pytest.mark.parametrize(("status", "stands_for"), [(521, 502), (522, 504), (524, 504), (530, 502)])
def test_a_cdns_words_for_a_dead_origin(status: int, stands_for: int) -> None:
    assert counted_status(story("network", status)) == stands_for
    assert counts_against_provider(story("network", status), DEFAULT)


@pytest.mark.parametrize("kind", ["network", "server_error", "rate_limit"])
def test_a_verdict_that_rules_it_out_never_counts(kind: str) -> None:
    """CB-15: local faults and skip-breaker rules say so in the verdict."""
    assert not counts_against_provider(story(kind, 503, breaker=False), DEFAULT)
    assert not counts_against_provider(story(kind, 503, scope="request"), DEFAULT)


def test_a_concurrency_limit_never_counts_even_where_429_does() -> None:
    """CB-16"""
    settings = CircuitBreaker(counted_statuses=[429, 500])
    assert counts_against_provider(story("rate_limit", 429), settings)
    assert not counts_against_provider(story("concurrency_limited", 429), settings)
    assert not counts_against_provider(story("server_error", 503), settings)  # taken off the list


def test_a_provider_may_have_a_list_of_its_own() -> None:
    """CB settings: counted statuses, per provider"""
    settings = CircuitBreaker(counted_statuses_by_provider={"openai": [529]})
    assert counts_against_provider(story("overloaded", 529), settings)
    assert not counts_against_provider(story("server_error", 500), settings)


def test_a_rule_may_count_what_no_list_knows() -> None:
    assert counts_against_provider(story("server_error", 418, breaker=True), DEFAULT)


QUOTA, RATE, OTHER = "quota_exhausted", "rate_limit", "transient"


@pytest.mark.parametrize(
    ("kind", "terminal", "wait", "wanted"),
    [
        ("credits_exhausted", False, (17, "text:please retry in 17 s"), QUOTA),
        ("quota_exhausted", True, (17, "body:error.details[0].retryDelay"), QUOTA),
        ("quota_exhausted", False, (17, "body:error.details[0].retryDelay"), RATE),
        ("quota_exhausted", False, (17, "text:Please retry in 17s"), RATE),
        ("quota_exhausted", False, (3600, "text:Please retry in 1h"), QUOTA),
        ("quota_exhausted", False, (17, "header:retry-after"), QUOTA),
        ("quota_exhausted", False, None, QUOTA),
        ("rate_limit", False, (7200, "text:please retry in 2 h"), RATE),
        ("rate_limit", False, None, RATE),
        ("concurrency_limited", False, None, RATE),
    ],
)
def test_the_kind_of_a_429(kind: str, terminal: bool, wait: tuple[int, str] | None, wanted: str) -> None:
    """CB-53, CB-54, CB-55"""
    hint = RetryAfter(seconds=wait[0], source=wait[1]) if wait else None
    assert failure_kind(story(kind, 429, terminal=terminal, retry_after=hint)) == wanted


@pytest.mark.parametrize("status", [500, 503, 504, 529])
def test_every_other_status_is_transient(status: int) -> None:
    """CB-52"""
    assert failure_kind(story("quota_exhausted", status)) == OTHER


def test_one_provider_has_one_key() -> None:
    """CB-1, PC edge 13"""
    assert {provider_key(name) for name in ("glm", "GLM", " Glm ")} == {"glm"}


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("192.168.0.9", True),
        ("[fd00::1]", True),
        ("8.8.8.8", False),
        ("api.openai.com", False),
        ("", False),
    ],
)
def test_private_addresses(host: str, private: bool) -> None:
    assert is_private_host(host) is private


@pytest.mark.parametrize(
    ("category", "urls", "wanted"),
    [
        ("api_key", [], "api_key"),
        ("api_key", [None], "api_key"),
        ("api_key", ["http://127.0.0.1:1"], "local"),
        ("oauth", ["http://10.0.0.1/v1", "http://localhost"], "local"),
        ("api_key", ["http://127.0.0.1:1", None], "api_key"),
        ("local", [], "local"),
        ("oauth", ["https://gateway.example"], "oauth"),
    ],
)
def test_local_figures_hold_where_every_address_is_private(
    category: Category, urls: list[str | None], wanted: str
) -> None:
    """CB-6 and "beyond the reference": the local class is in use."""
    mine = [make_connection(f"c{n}", base_url=url) for n, url in enumerate(urls)]
    others = [make_connection("x", provider="groq", base_url="http://127.0.0.1")]
    assert class_of(make_provider(category=category), [*mine, *others]) == wanted


def test_whether_kinds_are_told_apart() -> None:
    """CB-49, CB-50"""
    openai, hosted = make_provider(), make_provider("new-api", hosts=())
    direct, gateway = make_connection("a"), make_connection("b", base_url="https://gateway.example")
    proxied = make_connection("c", via="http://proxy.example:8080")
    assert tells_kinds(openai, [], None, "api_key")
    assert tells_kinds(openai, [direct, gateway], None, "api_key")
    assert not tells_kinds(openai, [gateway], None, "api_key")
    assert not tells_kinds(openai, [proxied], None, "api_key")
    assert not tells_kinds(openai, [], None, "local")
    assert not tells_kinds(hosted, [], None, "api_key")
    assert tells_kinds(hosted, [], True, "local") and not tells_kinds(openai, [direct], False, "api_key")
