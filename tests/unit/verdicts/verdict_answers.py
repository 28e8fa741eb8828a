"""Answers for the tests of verdicts, from whatever is shortest to write."""

from __future__ import annotations

import json
from typing import Any

from omniroute_addon.model import Answer

NOW = 1_789_000_000.0


def answer(status: int, body: Any = b"", *, headers: dict[str, str] | None = None, **more: Any) -> Answer:
    """An answer whose body may be bytes, text or anything that JSON can say."""
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return Answer(status=status, headers=headers or {}, body=raw, **more)
