"""A lock as people and the API see it (`spec/04`, `GET /api/resilience/model-cooldowns`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniroute_addon.connection_key import connection_id
from omniroute_addon.cooldown.rest import iso
from omniroute_addon.model import Timer

from .book import Place
from .lock import Lock


def item(lock: Lock, place: Place, now: float) -> Mapping[str, Any]:
    """No field of it holds a credential."""
    return {
        "scope": "connection-model",
        "provider": place.provider,
        "connectionId": connection_id(place.connection),
        "model": place.model,
        "modelFamily": place.family,
        "reason": lock.reason,
        "origin": lock.origin,
        "rule": lock.rule,
        "hint": lock.hint or None,
        "remainingMs": max(0, round((lock.until - now) * 1000)),
        "failureCount": lock.count,
        "lockedAt": iso(lock.locked_at),
        "until": round(lock.until * 1000),
        "expiresAt": iso(lock.until),
        "estimatedResetAt": iso(lock.estimated_reset_at),
        "slowStartState": None,
    }


def as_timer(lock: Lock, place: Place, row: Mapping[str, Any], *, label: str) -> Timer:
    """`row` is its `item`."""
    what = f"all models of the family {place.family}" if place.family else f"only this model ({lock.origin})"
    return Timer(
        part="model",
        mechanism=label,
        provider=place.provider,
        connection=row["connectionId"],
        model=place.model,
        state="locked",
        reason=lock.reason,
        detail=what,
        rule=lock.rule,
        hint=lock.hint,
        failures=lock.count,
        since=lock.locked_at,
        until=lock.until,
        listed="modelCooldowns",
        row=row,
    )
