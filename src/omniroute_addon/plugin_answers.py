"""Is this an answer? What a plugin said is checked where it is said, so that nonsense is the plugin's fault and nobody
else's: it is logged with the plugin's name and skipped, like an exception.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from .model import Cleared, Exclusion, ModelCall, Restatement, Target, Timer, Verdict

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN_IN_VALUE = re.compile(r"[\r\n\0]")


def _one(kind: type) -> Callable[[Any], Any]:
    def check(answer: Any) -> Any:
        if not isinstance(answer, kind):
            raise TypeError(f"answered {_shown(answer)}; expected {kind.__name__}")
        return answer

    return check


def _many(kind: type) -> Callable[[Any], Any]:
    def check(answer: Any) -> Any:
        if isinstance(answer, (str, bytes)) or not isinstance(answer, Iterable):
            raise TypeError(f"answered {_shown(answer)}; expected a sequence of {kind.__name__}")
        found = tuple(answer)
        wrong = next((entry for entry in found if not isinstance(entry, kind)), None)
        if not all(isinstance(entry, kind) for entry in found):
            raise TypeError(f"answered a sequence with {_shown(wrong)} in it; expected {kind.__name__}")
        return found

    return check


def _seconds(answer: Any) -> float:
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not math.isfinite(answer):
        raise TypeError(f"answered {_shown(answer)}; expected a number of seconds")
    return float(answer)


def _targets(answer: Any) -> tuple[Target, ...]:
    found: tuple[Target, ...] = _many(Target)(answer)
    for target in found:
        try:
            parts = urlsplit(target.url)
            usable = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
            )
        except (TypeError, ValueError, AttributeError):
            usable = False
        if not usable:
            raise ValueError(f"answered a target of {target.connection.id} whose `url` is no http or https address")
    return found


def _exclusions(answer: Any) -> tuple[Exclusion, ...]:
    found: tuple[Exclusion, ...] = _many(Exclusion)(answer)
    for exclusion in found:
        if exclusion.until is not None:
            _seconds(exclusion.until)
    return found


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "intercept": _one(bool),
    "upgrade": _one(bool),
    "identify": _one(ModelCall),
    "resolve": _targets,
    "exclude": _exclusions,
    "order": _many(Target),
    "admit": _one(Awaitable),
    "bound": _one(str),
    "restate": _one(Restatement),
    "classify": _one(Verdict),
    "repair": _one(bytes),
    "wait": _seconds,
    "timers": _many(Timer),
    "reset": _many(Cleared),
}


def checked(hook: str, answer: Any) -> Any:
    """The answer as the hook's readers want it (sequences as tuples). Raises TypeError with what was expected."""
    check = _CHECKS.get(hook)
    return answer if answer is None or check is None else check(answer)


def checked_headers(headers: Mapping[Any, Any]) -> Mapping[str, str]:
    """What a `prepare` made of the headers. Raises TypeError or ValueError when it cannot go on a wire."""
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(
                f"set the header {_shown(name)} to {_shown(value)}; expected text for both, `del` to delete"
            )
        if not _NAME.fullmatch(name):
            raise ValueError(f"set the header {_shown(name)}, which is no name for a header")
        if _FORBIDDEN_IN_VALUE.search(value):
            raise ValueError(f"set the header {_shown(name)} to a value with a line break or NUL in it")
    return headers


def _shown(value: Any) -> str:
    """Type and no content: what a plugin holds may be a secret."""
    return repr(value) if isinstance(value, str) and _NAME.fullmatch(value) else type(value).__name__
