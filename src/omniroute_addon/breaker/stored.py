"""A breaker as the store keeps it and as the API shows it (`CB-58`, REST shapes of `spec/01`).

What stands in a store was perhaps written by another version, or by hand: every field is looked at, and one that makes
no sense is read as if it were missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, cast, get_args

from ..provider_settings import FailureKind
from .figures import Figures
from .machine import HISTORY, Breaker, Transition, remaining_ms
from .table import State

_KINDS: tuple[str, ...] = get_args(FailureKind)


def as_value(provider: str, breaker: Breaker, figures: Figures) -> dict[str, Any]:
    """For the store. The figures are written for people who look at the file; they are never read back (`CB-62`)."""
    return {
        "name": provider,
        "state": str(breaker.state),
        "failureCount": breaker.failures,
        "lastFailureTime": breaker.failed_at_ms,
        "options": {
            "failureThreshold": figures.failure_threshold,
            "resetTimeout": figures.reset_timeout_ms,
            "halfOpenRequests": figures.half_open_requests,
            "lastFailureKind": breaker.kind,
            "openCycleCount": breaker.cycles,
            "kindFailureCounts": dict(breaker.of_kind),
            "period": breaker.period,
            "countedAt": dict(breaker.counted),
            "networkCountedAt": breaker.network_at_ms,
            "transitionHistory": [_shown(step) for step in breaker.history],
        },
    }


def from_value(value: Mapping[str, Any] | None) -> Breaker:
    """From the store; an unknown state word is CLOSED (`CB-59`)."""
    if value is None:
        return Breaker()
    options = value.get("options")
    more: Mapping[str, Any] = options if isinstance(options, Mapping) else {}
    kind = more.get("lastFailureKind")
    return Breaker(
        state=_state(value.get("state")),
        failures=_whole(value.get("failureCount")) or 0,
        failed_at_ms=_whole(value.get("lastFailureTime")),
        kind=cast(FailureKind, kind) if kind in _KINDS else None,
        cycles=_whole(more.get("openCycleCount")) or 0,
        of_kind=_numbers(more.get("kindFailureCounts")),
        period=_whole(more.get("period")) or 0,
        counted=_numbers(more.get("countedAt")),
        network_at_ms=_whole(more.get("networkCountedAt")),
        history=_steps(more.get("transitionHistory")),
    )


def status(provider: str, breaker: Breaker, figures: Figures, *, now_ms: int, lease_ms: int = 0) -> dict[str, Any]:
    """The status object of the API. `breaker` is refreshed; `lease_ms` is what a running probe has left."""
    return {
        "name": provider,
        "state": str(breaker.state),
        "failureCount": breaker.failures,
        "lastFailureTime": breaker.failed_at_ms,
        "retryAfterMs": lease_ms if breaker.state is State.HALF_OPEN else remaining_ms(breaker, figures, now_ms),
        "lastFailureKind": breaker.kind,
        "openCycleCount": breaker.cycles,
        "kindFailureCounts": dict(breaker.of_kind),
        "degradationThreshold": figures.degradation_threshold,
        "effectiveResetTimeout": figures.hold_ms(breaker.kind, breaker.cycles),
        "transitionHistory": [_shown(step) for step in breaker.history],
    }


def _shown(step: Transition) -> dict[str, Any]:
    return {
        "from": str(step.old),
        "to": str(step.new),
        "timestamp": step.at_ms,
        "failureCount": step.failures,
        "reason": step.reason,
    }


def _state(word: object) -> State:
    return next((state for state in State if state == word), State.CLOSED)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _numbers(value: object) -> Mapping[str, int]:
    found = value.items() if isinstance(value, Mapping) else ()
    return MappingProxyType({str(k): number for k, v in found if (number := _whole(v)) is not None})


def _steps(value: object) -> tuple[Transition, ...]:
    """The history; it is shown and never decided upon."""
    entries: Iterable[object] = value if isinstance(value, (list, tuple)) else ()
    return tuple(
        Transition(
            old=_state(entry.get("from")),
            new=_state(entry.get("to")),
            at_ms=_whole(entry.get("timestamp")) or 0,
            failures=_whole(entry.get("failureCount")) or 0,
            reason=entry.get("reason") if isinstance(entry.get("reason"), str) else None,
        )
        for entry in entries
        if isinstance(entry, Mapping)
    )[-HISTORY:]
