"""A lock as people and the API see it (`spec/04`, `GET /api/resilience/model-cooldowns`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniroute_addon.connection_key import connection_id
from omniroute_addon.cooldown.rest import iso

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
        "remainingMs": max(0, round((lock.until - now) * 1000)),
        "failureCount": lock.count,
        "lockedAt": iso(lock.locked_at),
        "until": round(lock.until * 1000),
        "expiresAt": iso(lock.until),
        "estimatedResetAt": iso(lock.estimated_reset_at),
        "slowStartState": None,
    }
