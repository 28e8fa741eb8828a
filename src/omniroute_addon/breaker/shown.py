"""A breaker as a row for people (the hook `timers`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniroute_addon.model import Timer

from .registry import Refusal
from .table import PASSES


def as_timer(row: Mapping[str, Any], refusal: Refusal | None, now: float) -> Timer:
    """`row` is the API's status object; `refusal` what a request to this provider would be told now."""
    since = max((step["timestamp"] for step in row["transitionHistory"]), default=row["lastFailureTime"])
    state, failures = str(row["state"]), row["failureCount"]
    detail = f"{failures} of late; from {row['degradationThreshold']} on it is degraded" if failures else ""
    passes = {str(s) for s in PASSES}
    until = refusal.until_ms / 1000 if refusal is not None and state not in passes else None
    if until is None and state not in passes:
        detail = "the next request is the probe"
    return Timer(
        part="provider",
        mechanism="circuit_breaker",
        provider=row["name"],
        state=state,
        blocks=refusal is not None,
        reason=row["lastFailureKind"] or "",
        detail=refusal.detail if refusal is not None else detail,
        failures=failures,
        since=since / 1000 if since else None,
        until=until,
        listed="circuitBreakers",
        row=row,
    )
