"""What is remembered of one connection, and the form in which a store keeps it (`CC-1` to `CC-6`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast, get_args

Status = Literal["active", "unavailable", "banned", "expired", "credits_exhausted"]
"""`testStatus` (`CC-2`)."""
TERMINAL: Final[frozenset[str]] = frozenset({"banned", "expired", "credits_exhausted"})
"""`CC-55`: only new credentials, a passed test or a person end them."""
MAX_ERROR: Final = 100
NO_WORDS: Final = "Provider request failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """One connection's state. Points in time are epoch seconds, 0.0 for never."""

    status: Status = "active"
    until: float = 0.0
    """`rateLimitedUntil`: the connection is skipped while this is later than now (`CC-7`)."""
    level: int = 0
    """`backoffLevel`: the step on the ladder that the next failure takes (`CC-14`)."""
    failed_at: float = 0.0
    """`lastErrorAt`."""
    error: str = ""
    """`lastError`: the upstream's words without credentials (`CC-5`)."""
    error_type: str = ""
    """`lastErrorType`: the reason."""
    code: int | None = None
    """`errorCode`: status after restatement (`CC-6`)."""
    cause: str = ""
    """Kind and rule of the failure that set the state, for people."""
    rule: str = ""
    """Id of that rule."""
    hint: str = ""
    """Where the upstream said how long (`CC-32`); empty when its word does not set the end."""
    label: str = "connection_cooldown"
    """Word under which a skipped connection is listed."""
    forbidden_at: float = 0.0
    """Last 403 without a stated cause, of which two make a ban."""
    tries: int = 0
    """`expiredRetryCount` (`CC-72`)."""
    tried_at: float = 0.0
    """`expiredRetryAt`."""

    def __repr__(self) -> str:
        state = self.status.upper() if self.terminal else f"until={self.until:.3f}"
        return f"<Rest {state} level={self.level} cause={self.cause}>"

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL

    def shown_status(self, now: float) -> Status:
        """For display: a rest that is over is over, whatever was written (`CC-9`)."""
        return "active" if self.status == "unavailable" and self.until <= now else self.status

    def remaining_s(self, now: float) -> float:
        """Never negative, 0 for a terminal state."""
        return 0.0 if self.terminal else max(0.0, self.until - now)


CLEAN: Final = Rest()


def error_text(message: str) -> str:
    """`CC-5`: at most 100 printable characters; the verdict has taken credentials out already."""
    text = " ".join("".join(c if c.isprintable() else " " for c in message).split())
    return (text if len(text) <= MAX_ERROR else text[: MAX_ERROR - 1] + "…") or NO_WORDS


# ---------------------------------------------------------------- stored form


def as_value(rest: Rest, *, connection: str, provider: str) -> dict[str, Any]:
    """JSON with the names of the reference's API. A clean state has no value: it is deleted."""
    return {
        "connectionId": connection,
        "provider": provider,
        "testStatus": rest.status,
        "rateLimitedUntil": iso(rest.until),
        "lastError": rest.error or None,
        "lastErrorType": rest.error_type or None,
        "lastErrorAt": iso(rest.failed_at),
        "errorCode": rest.code,
        "backoffLevel": rest.level,
        "cause": rest.cause,
        "rule": rest.rule,
        "hint": rest.hint,
        "label": rest.label,
        "forbiddenAt": iso(rest.forbidden_at),
        "expiredRetryCount": rest.tries or None,
        "expiredRetryAt": iso(rest.tried_at),
    }


def from_value(value: Mapping[str, Any] | None) -> Rest:
    """From the store; written by another version perhaps, or by hand: what makes no sense is as if it were missing."""
    if value is None:
        return CLEAN
    return Rest(
        status=_status(value.get("testStatus")),
        until=instant(value.get("rateLimitedUntil")),
        level=_whole(value.get("backoffLevel")) or 0,
        failed_at=instant(value.get("lastErrorAt")),
        error=_text(value.get("lastError")),
        error_type=_text(value.get("lastErrorType")),
        code=_whole(value.get("errorCode")),
        cause=_text(value.get("cause")),
        rule=_text(value.get("rule")),
        hint=_text(value.get("hint")),
        label=_text(value.get("label")) or CLEAN.label,
        forbidden_at=instant(value.get("forbiddenAt")),
        tries=_whole(value.get("expiredRetryCount")) or 0,
        tried_at=instant(value.get("expiredRetryAt")),
    )


def iso(at: float) -> str | None:
    """ISO 8601 in UTC with milliseconds (`CC-3`); None for never."""
    if at <= 0:
        return None
    seconds, millis = divmod(round(at * 1000), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{millis:03d}Z"


def instant(value: object) -> float:
    """Epoch seconds of an ISO text, of epoch milliseconds, or of their text (`CC-3`); anything else is never (`CC-4`)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return 0.0
    try:
        millis = float(value)
    except ValueError:
        try:
            parsed = datetime.fromisoformat(str(value).strip())
        except ValueError:
            return 0.0
        return max(0.0, round((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp(), 3))
    except OverflowError:
        return 0.0
    return round(millis / 1000, 3) if math.isfinite(millis) and 0 < millis < 1e14 else 0.0


def _status(value: object) -> Status:
    word = str(value).strip().lower()
    return cast(Status, word) if word in get_args(Status) else "active"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
