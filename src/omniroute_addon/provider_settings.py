"""The figures about a whole provider: circuit breaker (`spec/01`) and provider cooldown (`spec/02`).

Each group has one model per class of provider, because the classes differ in their defaults and variables. The variables
`OMNIROUTE_PROVIDER_BREAKER_*_{FAILURE_THRESHOLD,FAILURE_WINDOW_MS,COOLDOWN_MS}` belong to the provider cooldown, whatever
their names say.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from .input_problems import Strict
from .setting_fields import DAY_MS, group, ms, setting

FailureKind = Literal["rate_limit", "quota_exhausted", "transient"]
"""How a provider failed, as far as the breaker tells failures apart (`CB-47`, `CB-52`)."""
Status = Annotated[int, Field(ge=400, le=599)]
COUNTED_STATUSES = (408, 500, 502, 503, 504)
"""`CB-11`."""

# ---------------------------------------------------------------- circuit breaker


def _threshold(default: int, variable: str) -> Any:
    env = f"OMNIROUTE_CIRCUIT_BREAKER_{variable}_THRESHOLD"
    return setting(default, "Failures that open the breaker (CB-29).", env=env, ge=1, le=1000, clamp=True)


def _reset(default: int, variable: str) -> Any:
    env = f"OMNIROUTE_CIRCUIT_BREAKER_{variable}_RESET_MS"
    meaning = "How long an open breaker holds before a probe may go (CB-44)."
    return ms(default, meaning, env=env, ge=1000, clamp=True)


def _degradation(default: int | None, variable: str = "") -> Any:
    env = f"OMNIROUTE_PROVIDER_BREAKER_{variable}_DEGRADATION_THRESHOLD" if variable else ""
    meaning = "Failures that show the provider as degraded; unset: 60 % of the failure threshold (CB-8)."
    return setting(default, meaning, env=env, ge=1, le=1000, clamp=True)


def _multiplier(default: int, variable: str = "") -> Any:
    env = f"OMNIROUTE_PROVIDER_BREAKER_{variable}_MAX_BACKOFF_MULTIPLIER" if variable else ""
    return setting(default, "How many times its base a hold may grow (CB-45).", env=env, ge=1, le=64, clamp=True)


def _escalation(default: int, variable: str = "") -> Any:
    env = f"OMNIROUTE_PROVIDER_BREAKER_{variable}_BACKOFF_ESCALATION_COUNT" if variable else ""
    meaning = "Failed probes before the hold begins to double (CB-44)."
    return setting(default, meaning, env=env, ge=0, le=100, clamp=True)


class OauthBreaker(Strict):
    """Breaker of providers that log in with OAuth."""

    failure_threshold: int = _threshold(8, "OAUTH")
    reset_timeout_ms: int = _reset(60_000, "OAUTH")
    degradation_threshold: int | None = _degradation(5, "OAUTH")
    max_backoff_multiplier: int = _multiplier(8, "OAUTH")
    backoff_escalation_count: int = _escalation(2, "OAUTH")


class ApiKeyBreaker(Strict):
    """Breaker of providers with API keys."""

    failure_threshold: int = _threshold(12, "API_KEY")
    reset_timeout_ms: int = _reset(30_000, "API_KEY")
    degradation_threshold: int | None = _degradation(7, "API_KEY")
    max_backoff_multiplier: int = _multiplier(4, "API_KEY")
    backoff_escalation_count: int = _escalation(3, "API_KEY")


class LocalBreaker(Strict):
    """Breaker of servers on this machine or network."""

    failure_threshold: int = _threshold(2, "LOCAL")
    reset_timeout_ms: int = _reset(15_000, "LOCAL")
    degradation_threshold: int | None = _degradation(None)
    max_backoff_multiplier: int = _multiplier(16)
    backoff_escalation_count: int = _escalation(3)


class KindThreshold(Strict):
    """What one kind of failure does by itself (`CB-56`)."""

    threshold: int | None = setting(
        None,
        "Failures of this kind that open; unset: 1 with `immediate_open`, else the failure threshold.",
        ge=1,
        le=1000,
    )
    cooldown_ms: int | None = setting(None, "Hold after this kind instead of the reset timeout.", ge=1000, le=DAY_MS)
    immediate_open: bool = setting(False, "Open at `threshold`, or at the first failure of this kind.")


class CircuitBreaker(Strict):
    """Circuit breaker of a provider."""

    oauth: OauthBreaker = group(OauthBreaker, "Providers that log in with OAuth.")
    api_key: ApiKeyBreaker = group(ApiKeyBreaker, "Providers with API keys.")
    local: LocalBreaker = group(LocalBreaker, "Servers on this machine or network.")
    half_open_requests: int = setting(1, "Probes at once while half-open (CB-10).", ge=1, le=100)
    counted_statuses: list[Status] = setting(
        [*COUNTED_STATUSES], "HTTP statuses that count as the provider's failure (CB-11)."
    )
    counted_statuses_by_provider: dict[str, list[Status]] = setting(
        {}, "Provider id -> the statuses that count there instead."
    )
    kinds: dict[FailureKind, KindThreshold] = setting(
        {}, "Kind of failure -> `threshold`, `cooldown_ms`, `immediate_open` of its own (CB-56)."
    )
    same_connection_ms: int = ms(5_000, "Failures of one connection within this time count once (CB-17).")
    same_network_ms: int = ms(10_000, "Network failures of one provider within this time count once (CB-18).")
    dead_network_providers: int = setting(
        3,
        "So many providers with nothing but network failures mean that our own network is down; 0 never.",
        ge=0,
        le=1000,
    )
    max_breakers: int = setting(500, "Breakers remembered; idle ones make room (CB-63).", ge=1, le=1_000_000)
    forget_after_ms: int = ms(1_800_000, "A closed breaker without failures for so long is forgotten (CB-64).")


# ---------------------------------------------------------------- provider cooldown


def _window(threshold: int, window_ms: int, cooldown_ms: int, variable: str) -> tuple[Any, Any, Any]:
    env = f"OMNIROUTE_PROVIDER_BREAKER_{variable}_"
    return (
        setting(
            threshold,
            "Failures within the window that cool (PC-7).",
            env=f"{env}FAILURE_THRESHOLD",
            ge=1,
            le=1000,
            clamp=True,
        ),
        ms(window_ms, "Length of the sliding window (PC-12).", env=f"{env}FAILURE_WINDOW_MS", ge=1000, clamp=True),
        ms(cooldown_ms, "How long the provider cools (PC-13).", env=f"{env}COOLDOWN_MS", ge=1000, clamp=True),
    )


_OAUTH = _window(10, 900_000, 300_000, "OAUTH")
_API_KEY = _window(15, 1_800_000, 600_000, "API_KEY")
_LOCAL = _window(2, 300_000, 60_000, "LOCAL")


class OauthWindow(Strict):
    """Window gate of providers that log in with OAuth (`PC-8`)."""

    provider_failure_threshold: int = _OAUTH[0]
    provider_failure_window_ms: int = _OAUTH[1]
    provider_cooldown_ms: int = _OAUTH[2]


class ApiKeyWindow(Strict):
    """Window gate of providers with API keys (`PC-9`)."""

    provider_failure_threshold: int = _API_KEY[0]
    provider_failure_window_ms: int = _API_KEY[1]
    provider_cooldown_ms: int = _API_KEY[2]


class LocalWindow(Strict):
    """Window gate of servers on this machine or network (`PC-10`)."""

    provider_failure_threshold: int = _LOCAL[0]
    provider_failure_window_ms: int = _LOCAL[1]
    provider_cooldown_ms: int = _LOCAL[2]


class ProviderCooldownSettings(Strict):
    """Optional cooldown of a whole provider across requests."""

    enabled: bool = setting(
        False, "Skip providers and connections that failed a moment ago (PC-1).", env="PROVIDER_COOLDOWN_ENABLED"
    )
    min_retry_cooldown_ms: int = ms(
        5_000, "First delay of a connection (PC-18).", env="PROVIDER_COOLDOWN_MIN_MS", le=3_600_000, clamp=True
    )
    max_retry_cooldown_ms: int = ms(
        300_000,
        "Longest delay of a connection; never below the first (PC-18).",
        env="PROVIDER_COOLDOWN_MAX_MS",
        clamp=True,
    )
    oauth: OauthWindow = group(OauthWindow, "Providers that log in with OAuth.")
    api_key: ApiKeyWindow = group(ApiKeyWindow, "Providers with API keys.")
    local: LocalWindow = group(LocalWindow, "Servers on this machine or network.")
