"""The figures of one provider's breaker under the settings in force, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from ..model import Category
from ..provider_settings import CircuitBreaker, FailureKind, KindThreshold

TRUSTED_COOLDOWNS: Final[Mapping[FailureKind, int]] = {"rate_limit": 60_000, "quota_exhausted": 3_600_000}
"""Milliseconds (`CB-47`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Never stored: a changed setting holds from the next use on (`CB-62`). Times are integer milliseconds."""

    failure_threshold: int
    degradation_threshold: int
    reset_timeout_ms: int
    max_backoff_multiplier: float
    backoff_escalation_count: int
    half_open_requests: int = 1
    tells_kinds: bool = True
    """Kinds of failures are told apart, with holds of their own (`CB-47`, `CB-48`)."""
    kinds: Mapping[FailureKind, KindThreshold] = field(default_factory=lambda: MappingProxyType({}))
    same_connection_ms: int = 5_000
    same_network_ms: int = 10_000

    def base_ms(self, kind: FailureKind | None) -> int:
        """The hold before any backoff (`CB-44`, `CB-46`)."""
        if kind is None or not self.tells_kinds:
            return self.reset_timeout_ms
        own = self.kinds.get(kind)
        if own is not None and own.cooldown_ms is not None:
            return own.cooldown_ms
        return TRUSTED_COOLDOWNS.get(kind, self.reset_timeout_ms)

    def hold_ms(self, kind: FailureKind | None, cycles: int) -> int:
        """How long an open breaker holds after so many open cycles (`CB-44` to `CB-46`)."""
        base = self.base_ms(kind)
        steps = min(max(0, cycles - self.backoff_escalation_count), 64)
        return int(min(base * 2**steps, base * max(1, self.max_backoff_multiplier)))

    def quiet_ms(self, kind: FailureKind | None) -> int:
        """Time without a failure after which the counts are cleared (`CB-25`); never shorter than one hold."""
        return int(self.base_ms(kind) * max(1, self.max_backoff_multiplier))

    def opens(self, failures: int, kind: FailureKind | None, of_kind: int) -> bool:
        """So many failures, `of_kind` of them of this kind, open the breaker (`CB-29`, `CB-56`)."""
        if failures >= self.failure_threshold:
            return True
        own = self.kinds.get(kind) if kind is not None else None
        if own is None:
            return False
        return of_kind >= (own.threshold or (1 if own.immediate_open else self.failure_threshold))


def figures_for(category: Category, settings: CircuitBreaker, *, tells_kinds: bool) -> Figures:
    """What the settings say for one class of provider."""
    own = getattr(settings, category)
    declared = own.degradation_threshold
    return Figures(
        failure_threshold=own.failure_threshold,
        # A derived threshold may equal the other one: such a breaker never shows DEGRADED (CB-9).
        degradation_threshold=math.ceil(own.failure_threshold * 0.6)
        if declared is None
        else max(1, min(declared, own.failure_threshold - 1)),
        reset_timeout_ms=own.reset_timeout_ms,
        max_backoff_multiplier=own.max_backoff_multiplier,
        backoff_escalation_count=own.backoff_escalation_count,
        half_open_requests=settings.half_open_requests,
        tells_kinds=tells_kinds,
        kinds=MappingProxyType(dict(settings.kinds)) if tells_kinds else MappingProxyType({}),
        same_connection_ms=settings.same_connection_ms,
        same_network_ms=settings.same_network_ms,
    )
