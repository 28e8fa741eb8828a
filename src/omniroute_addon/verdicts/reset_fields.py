"""Fields of an error body that say when to try again, and which of them says it most directly."""

from __future__ import annotations

from .error_body import Field, fields
from .reset_headers import find_reset
from .stated_time import Stated, parse_header, parse_stated

_SECONDS = (
    "resets_in_seconds", "reset_in_seconds", "resetsinseconds", "resetinseconds", "retry_after_seconds",
    "retryafterseconds", "retry_after_s", "retry_in_seconds", "reset_seconds", "reset_after_seconds",
    "resetafterseconds", "seconds_until_reset", "wait_seconds", "waitseconds", "cooldown_seconds", "remaining_seconds",
    "retry_in", "retryin", "retrydelay", "retry_delay", "quotaresetdelay", "resets_in", "reset_in", "reset_after",
    "resetafter", "resets_after", "time_to_reset", "wait_time", "reset_after_s", "retryafters",
)  # fmt: skip
"""Lengths of time; a bare number is seconds, a text may carry a unit."""
_MILLISECONDS = (
    "retry_after_ms", "retryafterms", "retry_in_ms", "retryinms", "resets_in_ms", "reset_in_ms", "reset_after_ms",
    "cooldown_ms", "wait_ms",
)  # fmt: skip
_EITHER = ("retry_after", "retryafter", "retry-after")
"""A length when small, a point in time when it is an epoch or a date (`CC-28`)."""
_INSTANTS = (
    "resets_at", "resetsat", "reset_at", "resetat", "reset_time", "resettime", "reset_timestamp", "quotaresettimestamp",
    "next_reset", "nextreset", "next_reset_time", "retry_at", "retryat", "available_at", "availableat",
    "next_available_at", "blocked_until", "cooldown_until", "ratelimiteduntil", "retry_after_timestamp",
    "rate_limit_reset", "ratelimitreset", "nextdatereset", "next_date_reset", "nextresettime", "nextresetat",
    "next_reset_at", "quota_reset_at", "quotaresetat", "quota_reset_time", "resetsatseconds", "window_reset_at",
)  # fmt: skip
_ESTIMATES = ("estimated_time",)
"""Hugging Face's guess, in seconds, of how long a model still loads."""
_ORDER = (("retryinfo",), _SECONDS + _MILLISECONDS, _EITHER, _INSTANTS, ("headers",), _ESTIMATES)
_RANK = {name: rank for rank, names in enumerate(_ORDER) for name in names}
_RANK |= dict.fromkeys(("response_headers", "responseheaders"), _RANK["headers"])
_MOST_FOUND = 20


def find_in_fields(document: object, *, base: float) -> list[Stated]:
    """The times that a JSON document states in fields, most direct first; equals in the order of the document.

    Google's RetryInfo comes first, then lengths of time (they need no clock), then points in time, then the headers of
    another answer that the document carries (OpenRouter, Codex over WebSocket).
    """
    found: list[tuple[int, Stated]] = []
    for field in fields(document):
        key = field.key.lower()
        if key in _RANK and (stated := _read(field, key, base)):
            retry_info = "RetryInfo" in str(field.siblings.get("@type", ""))[:200]
            found.append((_RANK["retryinfo"] if retry_info else _RANK[key], stated))
            if len(found) == _MOST_FOUND:
                break
    return [stated for _, stated in sorted(found, key=lambda pair: pair[0])]


def _read(field: Field, key: str, base: float) -> Stated | None:
    value = field.value
    if isinstance(value, dict):
        return _headers(field.path, value, base) if _RANK[key] == _RANK["headers"] else _protobuf(field.path, value)
    stated = parse_stated(_plain(value), source=field.path, base=base, milliseconds=key in _MILLISECONDS)
    # A small number where a point in time belongs has no meaning that could be relied on.
    if stated and key in _INSTANTS and stated.seconds is not None and not isinstance(value, str):
        return None
    return stated


def _headers(path: str, value: dict[str, object], base: float) -> Stated | None:
    written = {name.lower(): name for name in list(value)[:100]}
    headers = {lower: str(value[name])[:200] for lower, name in written.items()}
    stated = parse_header(headers.get("retry-after", ""), source="retry-after", base=base)
    stated = stated or find_reset(headers, base=base)
    if stated is None:
        return None
    return Stated(source=f"{path}.{written[stated.source]}", seconds=stated.seconds, at=stated.at)


def _protobuf(path: str, value: dict[str, object]) -> Stated | None:
    """A duration in its long form, `{"seconds": "5", "nanos": 500000000}`."""
    whole = parse_stated(_plain(value.get("seconds", 0)), source=path, base=0)
    nanos = value.get("nanos", 0)
    if whole is None or whole.seconds is None:
        return None
    fraction = nanos / 1e9 if isinstance(nanos, int) and 0 <= nanos < 10**9 else 0
    return Stated(source=path, seconds=whole.seconds + fraction)


def _plain(value: object) -> str:
    """A JSON scalar in plain decimal notation; empty for what cannot be a time."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return f"{value:.9f}" if 0 <= value < 1e20 else ""
