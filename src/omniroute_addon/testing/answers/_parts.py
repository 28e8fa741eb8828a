"""What all dialects are made of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from omniroute_addon.testing.script import Headers, Reply

CREATED = 1_790_000_000
"""Epoch seconds in answers: a fixed time, so that two runs give the same bytes."""
STREAM_HEADERS: Headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts in an answer."""

    input: int = 12
    output: int = 7
    cached: int = 0
    """Part of `input` that came from a cache."""
    reasoning: int = 0
    """Part of `output` that was reasoning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool in an answer."""

    name: str = "get_weather"
    arguments: dict[str, Any] = field(default_factory=lambda: {"city": "Zürich"})
    id: str = "call_01"

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


def words(text: str) -> list[str]:
    """The text in pieces as models send it: each word with the blanks behind it."""
    return re.findall(r"\s*\S+\s*", text)


def halves(text: str) -> tuple[str, str]:
    """Tool arguments arrive in pieces that are no JSON by themselves."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def sse(data: Any, *, event: str | None = None) -> bytes:
    """One event: `data` is text as it stands, or a value that is written as JSON."""
    text = data if isinstance(data, str) else dump(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def stream_of(events: Iterable[bytes]) -> Reply:
    return Reply(headers=STREAM_HEADERS, chunks=tuple(events))
