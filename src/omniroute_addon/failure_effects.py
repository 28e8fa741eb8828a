"""What one failure does, and to whom: the rows `FC-73` to `FC-86` in one place.

Connection cooldown, model lockout and egress lock must agree on every failure: exactly one of connection and model
pays for it. So each of them asks here and does its own part; with one of them switched off the others still know.

    rest     the connection cools, or is out for good when the verdict says so
    note     the error is written down, nobody is skipped
    nothing  somebody else's business

A rule of the provider's own pack knows what its answer is about. The scope of a rule for anybody is a guess, and gives
way where a provider is known to count per model (`ML-12`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from .connection_key import is_shared_rule
from .model import Kind, Provider, Story
from .provider_failure import is_network_failure, provider_key
from .settings import Settings

LockReason = Literal[
    "rate_limited", "quota_exhausted", "credits", "forbidden", "not_found", "model_capacity", "server_error"
]
Origin = Literal["per_model_quota", "rule", "switch"]
OnConnection = Literal["rest", "note", "nothing"]

TURN_FAULTS: Final = frozenset({"empty", "half_tool_call"})
"""`ST-72`, `ML-21`: one bad turn of a model says nothing about connection or model."""
STALLS: Final = frozenset({"timeout:readiness", "timeout:idle"})
"""`CC-45`, `CC-47`: our own watchdog gave up on a stream."""
LOCKOUT: Final = "model_lockout"
"""The plugin that enforces locks."""
BARE_402: Final = "payment-required"
"""The rule for a 402 without a word (`rules/_generic.yaml`)."""
_UNREACHABLE: Final[frozenset[Kind]] = frozenset({"network", "timeout", "server_error"})
"""Says nothing about the account, but the next request should not run into it at once either."""
_LIMITS: Final[frozenset[Kind]] = frozenset({"rate_limit", "quota_exhausted"})
_TRANSIENT: Final[frozenset[Kind]] = frozenset({"rate_limit", "overloaded", "server_error", "timeout"})
_EGRESS_REASONS: Final = frozenset({"quota_exhausted", "rate_limit_exceeded"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockOrder:
    """Lock the model of the attempt's target."""

    reason: LockReason
    origin: Origin
    repeated: bool = False
    """Only when it happens again and again: the failure came after output was sent (`ML-21`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """What a failure does. `siblings`: it also cools whoever leaves through the same address (`EL-6`)."""

    connection: OnConnection
    lock: LockOrder | None = None
    siblings: bool = False


NOTHING: Final = Effects(connection="nothing")
NOTE: Final = Effects(connection="note")
REST: Final = Effects(connection="rest")


def effects_of(story: Story, settings: Settings, provider: Provider | None) -> Effects:
    """The first row that holds. Pure; never called with a verdict of scope `request`.

    `provider` is what the packs say of the connection's provider; None when they say nothing.
    """
    verdict, target = story.verdict, story.attempt.target
    own_rule = not is_shared_rule(verdict.rule.file)
    if story.answer.fault in TURN_FAULTS:
        return NOTE
    if story.answer.fault in STALLS and not settings.connection_cooldown.stream_stall:
        return NOTE  # CC-45
    if fires_egress(story, settings):
        return Effects(connection="rest", siblings=True)  # FC-76
    if verdict.kind == "concurrency_limited" and verdict.scope != "model":
        return REST  # CC-40
    if LOCKOUT in settings.plugins.disabled:  # nobody would enforce a lock
        return _else(story, settings, locks=False)
    # FC-75, SR-37: an account's quota is the account's, unless its connection may not cool.
    accounts = verdict.scope == "connection" and not (
        verdict.kind == "quota_exhausted" and target.connection.disable_cooling
    )
    if provider is not None and not (own_rule and accounts):
        per_model = _per_model(story, provider)
        if per_model is not None:
            return per_model
    if target.model and verdict.scope == "model":
        return _scoped_to_model(story, settings, own_rule)
    return _else(story, settings)


def fires_egress(story: Story, settings: Settings) -> bool:
    """`EL-6` to `EL-9`: a limit of a provider that counts per outgoing address."""
    verdict, connection = story.verdict, story.attempt.target.connection
    return (
        verdict.status == 429
        and provider_key(connection.provider) in settings.egress_lock.providers
        and verdict.reason in _EGRESS_REASONS
        and verdict.kind in _LIMITS
        and not verdict.terminal
        and not connection.disable_cooling
    )


def _per_model(story: Story, provider: Provider) -> Effects | None:
    """Rows of providers that count per model: `FC-78`, `FC-82` to `FC-84`. Which those are: `ML-12`.

    A gateway or somebody's own server counts limits per model, but its 5xx is its own, and an overload is nobody's
    fault (`A07`); only where the pack says `per_model_quota` a 5xx is about the model.
    """
    verdict, model = story.verdict, story.attempt.target.model
    status, kind = verdict.status, verdict.kind
    strict = "per_model_quota" in provider.traits
    if not (strict or "passthrough_models" in provider.traits or provider.category == "local"):
        return None
    if not model:
        return NOTE if strict and status == 429 else None  # ML-14
    if strict and kind == "credits_exhausted" and verdict.rule.id == BARE_402:
        return _locks("credits", "per_model_quota")  # CC-78: no word about money in it
    if verdict.terminal and verdict.scope == "connection":
        return None  # FC-81 comes before FC-82
    if kind == "model_not_found" and verdict.scope == "model":
        return _locks("not_found", "per_model_quota")  # ML-23, ML-51
    if kind in _LIMITS and status != 402:
        return _locks("quota_exhausted" if kind == "quota_exhausted" else "rate_limited", "per_model_quota")
    if kind in ("model_access_denied", "forbidden") and status == 403 and verdict.scope != "egress_ip":
        return _locks("forbidden", "per_model_quota")  # FC-82, ML-52, ML-54
    if strict and kind in ("server_error", "timeout") and status >= 500 and not is_network_failure(story):
        # ML-20, ML-21
        return NOTE if status == 500 else _locks("server_error", "per_model_quota", repeated=_after_output(story))
    return None


def _scoped_to_model(story: Story, settings: Settings, own_rule: bool) -> Effects:
    """The rule says that only this model is concerned: `FC-31`, `FC-77`, and limits that the words tie to a model."""
    kind, status = story.verdict.kind, story.verdict.status
    if kind in _LIMITS:
        return _locks("quota_exhausted" if kind == "quota_exhausted" else "rate_limited", "rule")
    reason: LockReason = "model_capacity"
    if kind == "model_not_found":
        reason = "not_found"
    elif kind == "model_access_denied":
        reason = "forbidden"
    elif kind == "credits_exhausted":
        reason = "credits"
    if own_rule and (story.verdict.cooldown_s or kind not in ("overloaded", "server_error", "concurrency_limited")):
        return _locks(reason, "rule")
    if _switched_on(settings, status) and kind != "concurrency_limited":
        return _locks(reason, "switch")
    return NOTE


def _else(story: Story, settings: Settings, *, locks: bool = True) -> Effects:
    """`FC-85`, `FC-86`."""
    verdict = story.verdict
    order = None
    if locks and story.attempt.target.model and _switched_on(settings, verdict.status) and not verdict.terminal:
        if verdict.kind in _TRANSIENT and not is_network_failure(story):
            return _locks(_transient_reason(verdict.kind), "switch", repeated=_after_output(story))  # FC-85
        if verdict.kind == "quota_exhausted":
            order = LockOrder(reason="quota_exhausted", origin="switch")  # ML-16
    rests = verdict.scope in ("connection", "egress_ip") or verdict.kind in _UNREACHABLE
    return Effects(connection="rest" if rests else "nothing", lock=order)


def _switched_on(settings: Settings, status: int) -> bool:
    return settings.model_lockout.enabled and status in settings.model_lockout.error_codes and status != 500


def _transient_reason(kind: Kind) -> LockReason:
    return "rate_limited" if kind == "rate_limit" else "model_capacity" if kind == "overloaded" else "server_error"


def _after_output(story: Story) -> bool:
    return story.answer.phase == "stream" and story.verdict.status >= 500


def _locks(reason: LockReason, origin: Origin, *, repeated: bool = False) -> Effects:
    return Effects(connection="note", lock=LockOrder(reason=reason, origin=origin, repeated=repeated))
