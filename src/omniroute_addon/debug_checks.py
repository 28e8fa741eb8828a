"""mitmproxy's check of every field of every message, left out as `python -O` would.

Each head that mitmproxy reads becomes a `MessageData`, whose fields are compared with their type annotations, some
twenty look-ups into `typing` a request: a seventh of what mitmproxy's HTTP layer costs. mitmproxy itself has it only `if
__debug__`; nobody starts mitmdump with `-O`, and a script cannot switch that on any more. So the method is replaced for as
long as the addon is there, provided that it is the one we know.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mitmproxy import http

_KNOWN = (
    "for field in fields(self):",
    "val = getattr(self, field.name)",
    "check_option_type(field.name, val, field.type)",
)
_NAME = "__post_init__"


def leave_out() -> Callable[[], None] | None:
    """Returns what puts the check back; None when there is none, or another one than we know. Never raises."""
    check = vars(http.MessageData).get(_NAME)
    if check is None or not _is_known(check):
        return None

    def unchecked(self: Any) -> None:
        pass

    setattr(http.MessageData, _NAME, unchecked)

    def put_back() -> None:
        if vars(http.MessageData).get(_NAME) is unchecked:  # somebody who came after us keeps their own
            setattr(http.MessageData, _NAME, check)

    return put_back


def _is_known(check: Any) -> bool:
    """It does what it is known to do, and nothing else: signature, loop, look, check."""
    try:
        lines = [line.strip() for line in inspect.getsource(check).splitlines()]
    except (OSError, TypeError):
        return False
    body = [line for line in lines[1:] if line and not line.startswith("#")]
    return len(body) == len(_KNOWN) and all(line.endswith(known) for line, known in zip(body, _KNOWN, strict=True))
