"""A connection's state as people and the API see it (`spec/04`, `GET /api/resilience/cooldowns`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .rest import Rest, iso


def entry(connection: str, provider: str, rest: Rest, now: float) -> Mapping[str, Any]:
    """No field of it holds a credential (`ML-60`)."""
    return {
        "connectionId": connection,
        "provider": provider,
        "status": "terminal" if rest.terminal else "cooling" if rest.until > now else "active",
        "testStatus": rest.shown_status(now),
        "rateLimitedUntil": iso(rest.until),
        "remainingMs": round(rest.remaining_s(now) * 1000),
        "backoffLevel": rest.level,
        "lastError": rest.error or None,
        "lastErrorType": rest.error_type or None,
        "lastErrorAt": iso(rest.failed_at),
        "errorCode": rest.code,
        "cause": "egress_lock" if rest.label == "egress_lock" else rest.cause,
        "terminal": rest.terminal,
        "expiredRetryCount": rest.tries or None,
    }
