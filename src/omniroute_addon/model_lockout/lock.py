"""One lock: how long, how it grows and how it is forgotten (`ML-25` to `ML-46`). Pure.

Theory. A key is *free*, *locked* until a point in time, or free with a *record*: a failure shortly after a lock goes on
where the last one was, so that a model that fails whenever it is asked is asked less and less.

    free ── failure ──► locked, count 1
    locked ── time passes ──► record ── failure within (window + last duration) ──► locked, count + 1
    record ── window over ──► free
    any ── success ──► count halved; at 0 free at once, even with time left

Failures while it is locked, of requests that were under way or of a try in place, are one failure: only a later
declared deadline of them moves the end (`ML-35`, as `CC-36`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, cast, get_args

from omniroute_addon.failure_effects import LockReason, Origin

SURVIVES_RESTART: Final[Mapping[LockReason, bool]] = {
    "quota_exhausted": True,  # the allowance renews at its own time, not at our restart
    "credits": True,  # nobody paid by restarting us
    "forbidden": False,  # a person may just have bought access; one try tells
    "not_found": False,  # a person may just have pulled the model; one try tells
    "rate_limited": False,  # over in a minute
    "model_capacity": False,
    "server_error": False,
}
"""`ML-47` kept none; a crash loop would then hammer used-up models. Decided per reason."""
LASTING: Final[frozenset[LockReason]] = frozenset({"quota_exhausted", "credits", "forbidden", "not_found"})
"""Never waited for (`ML-55`)."""
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What holds for one provider. Seconds."""

    base_s: float = 120.0
    max_s: float = 1_800.0
    steps: int = 10
    exponential: bool = True
    window_s: float = 1_800.0
    """`ML-38`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What of a failure sets a lock."""

    reason: LockReason
    origin: Origin
    rule: str = ""
    declared_s: float = 0.0
    """The upstream's own wait; 0 for none."""
    authoritative: bool = False
    """Said in a header or RetryInfo: may be longer than the longest lock (`ML-31`)."""
    hint: str = ""
    """Where it said so."""
    fixed_s: float = 0.0
    """The rule's duration; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock, or the record that outlives it (`ML-50`). Points in time are epoch seconds."""

    until: float
    reason: LockReason
    origin: Origin
    rule: str
    count: int
    """Failures of the run."""
    locked_at: float
    failed_at: float
    duration_s: float
    """Last applied."""
    window_s: float
    estimated_reset_at: float = 0.0
    """Where the cap hides a later end: for people."""
    hint: str = ""
    """Where the upstream said how long; empty when its word does not set the end."""

    def __repr__(self) -> str:
        return f"<Lock until={self.until:.3f} reason={self.reason} count={self.count} origin={self.origin}>"

    def forgotten_at(self) -> float:
        """When the record ends too (`ML-40`)."""
        return max(self.until, self.failed_at + self.window_s + self.duration_s)


def after_failure(lock: Lock | None, cause: Cause, figures: Figures, now: float, *, zone: tzinfo | None = None) -> Lock:
    """The lock after a failure. `zone`: whose midnight; None is this machine's."""
    if lock is not None and now < lock.until:
        return _extended(lock, cause, figures, now)
    goes_on = lock is not None and now <= lock.failed_at + lock.window_s + lock.duration_s  # ML-37
    count = lock.count + 1 if lock is not None and goes_on else 1
    seconds, estimate = _duration(cause, figures, count, now, zone)
    return Lock(
        until=now + seconds,
        reason=cause.reason,
        origin=cause.origin,
        rule=cause.rule,
        count=count,
        locked_at=now,
        failed_at=now,
        duration_s=seconds,
        window_s=figures.window_s,
        estimated_reset_at=estimate,
        hint=_hint(cause, seconds),
    )


def _hint(cause: Cause, seconds: float) -> str:
    return cause.hint if cause.declared_s and seconds == cause.declared_s else ""


def _extended(lock: Lock, cause: Cause, figures: Figures, now: float) -> Lock:
    if not (cause.declared_s or cause.fixed_s):
        return lock
    seconds, estimate = _duration(cause, figures, lock.count, now, None)
    if now + seconds <= lock.until:
        return lock
    return replace(
        lock,
        until=now + seconds,
        reason=cause.reason,
        rule=cause.rule,
        failed_at=now,
        duration_s=seconds,
        estimated_reset_at=estimate,
        hint=_hint(cause, seconds),
    )


def after_success(lock: Lock, started_at: float) -> Lock | None:
    """Halved (`ML-42` to `ML-44`); None for nothing left. A success from before the failure proves nothing (`CC-49`)."""
    if started_at < lock.failed_at:
        return lock
    count = lock.count // 2
    return replace(lock, count=count) if count else None


def next_midnight(now: float, zone: tzinfo | None = None) -> float:
    """Epoch seconds of the next local midnight; at midnight, of the following one (`ML-32`)."""
    local = datetime.fromtimestamp(now, zone)
    tomorrow = datetime.combine(local.date() + timedelta(days=1), datetime.min.time(), tzinfo=zone)
    return min(tomorrow.timestamp(), now + _DAY_S)


def _duration(cause: Cause, figures: Figures, count: int, now: float, zone: tzinfo | None) -> tuple[float, float]:
    """Seconds, and the later end that the cap hides (0.0 for none)."""
    if cause.reason == "not_found" and cause.fixed_s:
        return cause.fixed_s, 0.0  # ML-33: a retired model
    # A rule that ties a limit to a model stands in for the connection's rest, so a short wait is a wait as well.
    least = 0.0 if cause.origin == "rule" else figures.base_s
    if cause.declared_s > least:
        capped = cause.declared_s if cause.authoritative else min(cause.declared_s, figures.max_s)
        return capped, now + cause.declared_s if capped < cause.declared_s else 0.0  # ML-30, ML-31
    if cause.reason == "quota_exhausted" and not cause.declared_s and not cause.fixed_s:
        midnight = next_midnight(now, zone)
        seconds = min(midnight - now, figures.max_s)
        return seconds, midnight if seconds < midnight - now else 0.0  # ML-32
    grown = (cause.fixed_s or figures.base_s) * (2 ** min(count - 1, figures.steps) if figures.exponential else 1)
    return min(grown, figures.max_s), 0.0  # ML-26 to ML-29, ML-34


# ---------------------------------------------------------------- stored form


def as_value(lock: Lock, *, provider: str, connection: str, model: str, family: str | None) -> dict[str, Any]:
    """JSON for the store; ids stand in fields of their own, because a model's name may hold any character."""
    return {
        "provider": provider,
        "connection": connection,
        "model": model,
        "family": family,
        "until": lock.until,
        "reason": lock.reason,
        "origin": lock.origin,
        "rule": lock.rule,
        "count": lock.count,
        "lockedAt": lock.locked_at,
        "failedAt": lock.failed_at,
        "durationS": lock.duration_s,
        "windowS": lock.window_s,
        "estimatedResetAt": lock.estimated_reset_at,
        "hint": lock.hint,
    }


def from_value(value: Mapping[str, Any] | None) -> Lock | None:
    """From the store; None for what makes no sense."""
    if value is None:
        return None
    numbers = [value.get(n) for n in ("until", "count", "lockedAt", "failedAt", "durationS", "windowS")]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in numbers):
        return None
    if value.get("reason") not in get_args(LockReason) or value.get("origin") not in get_args(Origin):
        return None
    until, count, locked_at, failed_at, duration_s, window_s = (cast(float, n) for n in numbers)
    estimate = value.get("estimatedResetAt")
    return Lock(
        until=until,
        reason=value["reason"],
        origin=value["origin"],
        rule=str(value.get("rule", "")),
        count=int(count),
        locked_at=locked_at,
        failed_at=failed_at,
        duration_s=duration_s,
        window_s=window_s,
        estimated_reset_at=float(estimate) if isinstance(estimate, int | float) else 0.0,
        hint=str(value.get("hint", "")),
    )
