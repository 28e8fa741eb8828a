"""A connection's state as people and the API see it (`spec/04`, `GET /api/resilience/cooldowns`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omniroute_addon.model import Timer

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
        "rule": rest.rule or None,
        "hint": rest.hint or None,
        "terminal": rest.terminal,
        "expiredRetryCount": rest.tries or None,
    }


def as_timer(row: Mapping[str, Any], rest: Rest, *, label: str, again: float | None) -> Timer:
    """`row` is its `entry`; `again` is when a login that expired is tried once more by itself, if ever."""
    end = again if rest.terminal else rest.until
    return Timer(
        part="connection",
        mechanism=label,
        provider=row["provider"],
        connection=row["connectionId"],
        state=rest.status if rest.terminal else "cooling",
        terminal=rest.terminal,
        reason=rest.error_type,
        detail=rest.error,
        rule=rest.rule,
        hint=rest.hint,
        failures=rest.level,
        since=rest.failed_at or None,
        until=end,
        listed="connections",
        row=row,
    )
