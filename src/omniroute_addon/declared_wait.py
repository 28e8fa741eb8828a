"""How long an upstream's declared wait may hold somebody: the caps that belong to timers, not to reading (`CC-27`, `CC-31`)."""

from __future__ import annotations

from typing import Final

from .model import RetryAfter

_DAY_S: Final = 86_400.0
_RETRY_INFO: Final = "[RetryInfo]"
_SHORT_PHRASE: Final = "text:please retry in "


def declared_wait_s(wait: RetryAfter | None, *, max_hint_ms: int) -> float:
    """Seconds, 0 for none (`CC-33`). At its ceiling a wait ends, and the next request finds out whether it was right."""
    if wait is None or wait.seconds <= 0:
        return 0.0
    short = _RETRY_INFO in wait.source or wait.source.lower().startswith(_SHORT_PHRASE)
    return min(wait.seconds, max_hint_ms / 1000, _DAY_S if short else wait.seconds)


def is_authoritative(wait: RetryAfter | None) -> bool:
    """Said in a header or in a RetryInfo: may exceed the longest lock of a model (`CC-32`, `ML-31`)."""
    return wait is not None and (wait.source.startswith("header:") or _RETRY_INFO in wait.source)
