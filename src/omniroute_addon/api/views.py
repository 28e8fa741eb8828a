"""What the management API shows, as JSON values: camelCase names, epoch milliseconds, no field that holds a credential."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omniroute_addon.connection_key import is_guest
from omniroute_addon.core import Core
from omniroute_addon.model import Timer
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.steering import Names


def timer_row(timer: Timer, now: float) -> Mapping[str, Any]:
    """One timer, whatever mechanism holds it."""
    return {
        "part": timer.part,
        "mechanism": timer.mechanism,
        "provider": timer.provider,
        "connectionId": timer.connection,
        "model": timer.model,
        "state": timer.state,
        "blocks": timer.blocks,
        "terminal": timer.terminal,
        "reason": timer.reason or None,
        "detail": timer.detail or None,
        "rule": timer.rule or None,
        "hint": timer.hint or None,
        "failures": timer.failures,
        "since": _ms(timer.since),
        "until": _ms(timer.until),
        "remainingMs": max(0, round((timer.until - now) * 1000)) if timer.until is not None else None,
    }


def providers(core: Core, shown: Sequence[Timer]) -> list[Mapping[str, Any]]:
    """Every provider that has a connection or a timer, with the worst that is known of it as a whole."""
    names = Names(core, shown)
    rows: list[Mapping[str, Any]] = []
    known = sorted({names.provider_of(c) for c in names.connections} | {t.provider for t in shown})
    for provider in known:
        whole = [t for t in shown if t.part == "provider" and provider_key(t.provider) == provider]
        worst = next((t for t in whole if t.blocks), whole[0] if whole else None)
        rows.append(
            {
                "provider": provider,
                "state": worst.state if worst is not None else "CLOSED",
                "blocked": worst is not None and worst.blocks,
                "until": _ms(worst.until) if worst is not None else None,
                "connections": len(names.of_provider(provider)),
            }
        )
    return rows


def connections(core: Core, shown: Sequence[Timer]) -> list[Mapping[str, Any]]:
    """Every connection that is configured or has a timer: what holds it back as a whole, and how many models are locked."""
    names = Names(core, shown)
    configured = {c.id: c for c in core.config.connections}
    rows: list[Mapping[str, Any]] = []
    for name in names.connections:
        provider, own = names.provider_of(name), configured.get(name)
        mine = [t for t in shown if t.connection == name and t.part == "connection" and t.blocks]
        whole = [t for t in shown if t.part == "provider" and provider_key(t.provider) == provider and t.blocks]
        worst = next(iter(sorted(mine, key=lambda t: not t.terminal) + whole), None)
        rows.append(
            {
                "connectionId": name,
                "provider": provider,
                "configured": own is not None,
                "clientsOwn": is_guest(name),
                "priority": own.priority if own is not None else None,
                "state": worst.state if worst is not None else "ready",
                "terminal": worst is not None and worst.terminal,
                "heldBackBy": worst.mechanism if worst is not None else None,
                "until": _ms(worst.until) if worst is not None else None,
                "lockedModels": sum(t.part == "model" and t.connection == name for t in shown),
            }
        )
    return rows


def cooldowns(shown: Iterable[Timer], provider: str | None) -> list[Mapping[str, Any]]:
    """Connections out of routing, with their locked models (`ML-60`)."""
    rows: dict[str, dict[str, Any]] = {}
    wanted = [t for t in shown if provider is None or provider_key(t.provider) == provider_key(provider)]
    for timer in wanted:
        if timer.listed == "connections" and timer.connection:
            rows[timer.connection] = {**timer.row, "label": timer.connection, "modelLockouts": []}
    for timer in wanted:
        if timer.part != "model" or not timer.connection:
            continue
        row = rows.setdefault(timer.connection, _locked_only(timer))
        keys = ("model", "reason", "remainingMs", "failureCount", "until")
        row["modelLockouts"].append({key: timer.row.get(key) for key in keys})
    return list(rows.values())


def _locked_only(timer: Timer) -> dict[str, Any]:
    """A connection that serves, but not all of its models."""
    return {
        "connectionId": timer.connection,
        "provider": timer.provider,
        "label": timer.connection,
        "status": "locked_models",
        "testStatus": "active",
        "rateLimitedUntil": None,
        "remainingMs": 0,
        "backoffLevel": 0,
        "lastErrorType": None,
        "errorCode": None,
        "terminal": False,
        "modelLockouts": [],
    }


def _ms(at: float | None) -> int | None:
    return round(at * 1000) if at is not None else None
