"""An event stream, read for its verdict: is there an error event, was there output, did it come to its end?

Deliberately forgiving: providers put bare JSON between frames, forget blank lines and cut frames anywhere. The frame
parser of `dialects` relays bytes; this one only ever reads what was kept of an attempt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from .error_fields import is_error

MAX_EVENTS: Final = 2000
_FIELDS: Final = ("data:", "event:", "id:", "retry:", ":")
_LAST_TYPES: Final = frozenset({"message_stop", "response.completed", "response.incomplete", "response.done"})


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFacts:
    """What a stream says about its attempt."""

    document: Any = None
    """The first error event, else the last event that says how the answer ended."""
    fragment: str = ""
    """The data of an error event that is no JSON: cut off, or plain words."""
    error: bool = False
    output: bool = False
    """Words or tool calls of the model were seen before that event."""
    ended: bool = False
    """A terminal event was seen."""
    events: int = 0


def read_stream(text: str) -> StreamFacts:
    """The facts of a stream's text, as far as it was kept. The first error event decides."""
    output = ended = False
    last: Any = None
    count = 0
    for name, data in _events(text):
        count += 1
        if count > MAX_EVENTS:
            break
        if data.strip() == "[DONE]":
            ended = True
            continue
        try:
            payload = json.loads(data)
        except (ValueError, RecursionError):
            if name == "error":
                return StreamFacts(fragment=data, error=True, output=output, events=count)
            continue
        if name == "error" or is_error(payload) or _failed(payload):
            return StreamFacts(document=_unwrapped(payload), error=True, output=output, events=count)
        output = output or _has_output(payload)
        if _is_last(payload):
            ended, last = True, payload
    return StreamFacts(document=last, output=output, ended=ended, events=count)


def _events(text: str) -> Iterator[tuple[str, str]]:
    """(event name, data) of every frame, and bare JSON between frames as data."""
    name = ""
    data: list[str] = []
    bare: list[str] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith(_FIELDS):
            if bare:
                yield "", "\n".join(bare)
                bare = []
            field, _, value = line.partition(":")
            if field == "data":
                data.append(value.removeprefix(" "))
            elif field == "event":
                name = value.strip()
        elif line.strip():
            bare.append(line)
        else:
            if bare:
                yield "", "\n".join(bare)
            if data:
                yield name, "\n".join(data)
            name, data, bare = "", [], []


def _unwrapped(payload: Any) -> Any:
    """The Responses API puts the error of a failed answer inside `response`."""
    if isinstance(payload, dict) and isinstance(payload.get("response"), dict) and payload["response"].get("error"):
        return {"error": payload["response"]["error"]}
    return payload


def _failed(payload: Any) -> bool:
    if not isinstance(payload, dict):
        return False
    response = payload.get("response")
    return payload.get("type") == "response.failed" or (
        isinstance(response, dict) and response.get("status") == "failed"
    )


def _is_last(payload: Any) -> bool:
    if not isinstance(payload, dict):
        return False
    if payload.get("type") in _LAST_TYPES or payload.get("done") is True:
        return True
    return any(
        isinstance(choice, dict) and (choice.get("finish_reason") or choice.get("finishReason"))
        for key in ("choices", "candidates")
        for choice in _members(payload.get(key))
    )


def _has_output(payload: Any) -> bool:
    if not isinstance(payload, dict):
        return False
    kind = payload.get("type")
    if isinstance(kind, str) and (kind == "content_block_delta" or (kind.startswith("response.") and "delta" in kind)):
        return True
    for choice in _members(payload.get("choices")):
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict) and (delta.get("content") or delta.get("tool_calls")):
            return True
    for candidate in _members(payload.get("candidates")):
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        if any(isinstance(part, dict) and (part.get("text") or part.get("functionCall")) for part in _members(parts)):
            return True
    return False


def _members(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
