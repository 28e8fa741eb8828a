"""How long a hold is, and when a breaker opens."""

from __future__ import annotations

import pytest

from omniroute_addon.breaker.figures import Figures, figures_for
from omniroute_addon.model import Category
from omniroute_addon.provider_settings import CircuitBreaker, KindThreshold, OauthBreaker
from omniroute_addon.settings import Settings, resolve_settings


def of(category: Category, *, tells_kinds: bool = True, **settings: object) -> Figures:
    return figures_for(category, CircuitBreaker.model_validate(settings), tells_kinds=tells_kinds)


@pytest.mark.parametrize(
    ("category", "wanted"),
    [
        ("oauth", (5, 8, 60_000, 8, 2)),
        ("api_key", (7, 12, 30_000, 4, 3)),
        ("local", (2, 2, 15_000, 16, 3)),
    ],
)
def test_the_defaults_of_the_classes(category: Category, wanted: tuple[int, ...]) -> None:
    """CB-4, CB-5, CB-6, CB-7, CB-8, CB-9, CB-10"""
    f = of(category)
    found = (
        f.degradation_threshold,
        f.failure_threshold,
        f.reset_timeout_ms,
        f.max_backoff_multiplier,
        f.backoff_escalation_count,
    )
    assert found == wanted
    assert f.half_open_requests == 1


@pytest.mark.parametrize(
    ("category", "seconds"),
    [
        ("oauth", [60, 60, 60, 120, 240, 480, 480, 480, 480]),
        ("api_key", [30, 30, 30, 30, 60, 120, 120, 120, 120]),
        ("local", [15, 15, 15, 15, 30, 60, 120, 240, 240]),
    ],
)
def test_the_hold_tables(category: Category, seconds: list[int]) -> None:
    """CB-44, CB-45"""
    assert [of(category).hold_ms("transient", cycle) // 1000 for cycle in range(9)] == seconds
    assert [of(category).hold_ms(None, cycle) // 1000 for cycle in range(9)] == seconds


def test_a_kind_with_a_cooldown_replaces_the_base_and_escalates_the_same() -> None:
    """CB-46, CB-47"""
    f = of("api_key")
    assert [f.hold_ms("quota_exhausted", c) // 1000 for c in range(8)] == [3600] * 4 + [7200, 14400, 14400, 14400]
    assert f.hold_ms("rate_limit", 0) == 60_000


def test_without_trust_no_kind_has_a_cooldown() -> None:
    """CB-48"""
    f = of("api_key", tells_kinds=False, kinds={"quota_exhausted": {"cooldown_ms": 99_000}})
    assert f.hold_ms("quota_exhausted", 0) == 30_000
    assert not f.kinds


def test_the_operators_cooldown_of_a_kind_wins() -> None:
    """CB-56"""
    f = of("api_key", kinds={"rate_limit": {"cooldown_ms": 5_000}, "transient": {"cooldown_ms": 7_000}})
    assert (f.hold_ms("rate_limit", 0), f.hold_ms("transient", 0)) == (5_000, 7_000)
    assert f.hold_ms("quota_exhausted", 0) == 3_600_000


def test_the_quiet_window_is_the_longest_hold() -> None:
    """CB-25, CB-26, edge 9"""
    assert of("oauth").quiet_ms("transient") == 480_000
    assert of("api_key").quiet_ms("transient") == 120_000
    assert of("api_key").quiet_ms("quota_exhausted") == 4 * 3_600_000


@pytest.mark.parametrize("multiplier", [0, 0.5, 1])
def test_the_quiet_window_is_never_shorter_than_one_hold(multiplier: float) -> None:
    """CB-25, edge 10"""
    f = Figures(
        failure_threshold=8,
        degradation_threshold=5,
        reset_timeout_ms=60_000,
        max_backoff_multiplier=multiplier,
        backoff_escalation_count=2,
    )
    assert f.quiet_ms(None) == f.hold_ms(None, 99) == 60_000


@pytest.mark.parametrize(
    ("failure", "declared", "wanted"), [(8, 8, 7), (8, 20, 7), (8, 3, 3), (1, 5, 1), (12, None, 8), (2, None, 2)]
)
def test_a_declared_degradation_threshold_stays_below_the_other(
    failure: int, declared: int | None, wanted: int
) -> None:
    """CB-8, edge 13"""
    own = {"failure_threshold": failure, "degradation_threshold": declared}
    assert of("api_key", api_key=own).degradation_threshold == wanted


@pytest.mark.parametrize(
    ("rule", "failures", "of_kind", "wanted"),
    [
        ({}, 11, 11, False),
        ({}, 12, 0, True),
        ({"threshold": 3}, 3, 2, False),
        ({"threshold": 3}, 3, 3, True),
        ({"immediate_open": True}, 1, 1, True),
        ({"immediate_open": True, "threshold": 2}, 1, 1, False),
        ({"immediate_open": True, "threshold": 2}, 2, 2, True),
        ({"cooldown_ms": 1000}, 11, 11, False),
    ],
)
def test_a_kind_may_have_a_threshold_of_its_own(
    rule: dict[str, object], failures: int, of_kind: int, wanted: bool
) -> None:
    """CB-56"""
    f = of("api_key", kinds={"rate_limit": rule} if rule else {})
    assert f.opens(failures, "rate_limit", of_kind) is wanted
    assert f.opens(min(failures, 11), "transient", of_kind) is False


def test_defaults_that_no_setting_needs() -> None:
    assert CircuitBreaker().kinds == {}
    assert KindThreshold().immediate_open is False


# ---------------------------------------------------------------- where the figures come from


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("abc", 8), ("", 8), ("-1", 8), ("1e3", 1000), ("nan", 8), ("9.9", 9), ("99999", 1000), ("0", 1)],
)
def test_the_environment_replaces_the_default_and_is_clamped(text: str, wanted: int) -> None:
    """CB settings, edge 14"""
    settings, _, _ = resolve_settings(None, {"OMNIROUTE_CIRCUIT_BREAKER_OAUTH_THRESHOLD": text}, {})
    assert settings.circuit_breaker.oauth.failure_threshold == wanted


def test_every_variable_of_the_specification_is_read() -> None:
    names = {
        **{f"OMNIROUTE_CIRCUIT_BREAKER_{c}_THRESHOLD": 21 for c in ("OAUTH", "API_KEY", "LOCAL")},
        **{f"OMNIROUTE_CIRCUIT_BREAKER_{c}_RESET_MS": 22_000 for c in ("OAUTH", "API_KEY", "LOCAL")},
        **{f"OMNIROUTE_PROVIDER_BREAKER_{c}_DEGRADATION_THRESHOLD": 13 for c in ("OAUTH", "API_KEY")},
        **{f"OMNIROUTE_PROVIDER_BREAKER_{c}_MAX_BACKOFF_MULTIPLIER": 14 for c in ("OAUTH", "API_KEY")},
        **{f"OMNIROUTE_PROVIDER_BREAKER_{c}_BACKOFF_ESCALATION_COUNT": 15 for c in ("OAUTH", "API_KEY")},
    }
    breaker = resolve_settings(None, {k: str(v) for k, v in names.items()}, {})[0].circuit_breaker
    for own in (breaker.oauth, breaker.api_key, breaker.local):
        assert (own.failure_threshold, own.reset_timeout_ms) == (21, 22_000)
    for own in (breaker.oauth, breaker.api_key):
        more = (own.degradation_threshold, own.max_backoff_multiplier, own.backoff_escalation_count)
        assert more == (13, 14, 15)


def test_the_variables_of_the_provider_cooldown_do_not_touch_the_breaker() -> None:
    """CB settings, PC settings"""
    family = ("FAILURE_THRESHOLD", "FAILURE_WINDOW_MS", "COOLDOWN_MS")
    environ = {f"OMNIROUTE_PROVIDER_BREAKER_{c}_{n}": "2000" for c in ("OAUTH", "API_KEY", "LOCAL") for n in family}
    settings, _, warnings = resolve_settings(None, environ, {})
    assert settings.circuit_breaker == CircuitBreaker() and warnings == []
    for own in (settings.provider_cooldown.oauth, settings.provider_cooldown.api_key, settings.provider_cooldown.local):
        assert own.provider_failure_threshold == 1000  # clamped
        assert (own.provider_failure_window_ms, own.provider_cooldown_ms) == (2000, 2000)


def test_a_written_setting_wins_over_the_environment() -> None:
    """Edge 15"""
    written = Settings.model_validate({"circuit_breaker": {"oauth": {"failure_threshold": 3}}})
    environ = {"OMNIROUTE_CIRCUIT_BREAKER_OAUTH_THRESHOLD": "9"}
    places = {"circuit_breaker.oauth.failure_threshold": "omniroute.yaml:3:5"}
    assert resolve_settings(written, environ, places)[0].circuit_breaker.oauth == OauthBreaker(failure_threshold=3)
