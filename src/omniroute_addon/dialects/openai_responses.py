"""OpenAI Responses, as OpenAI, Azure and the ChatGPT backend of Codex speak it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from . import json_body, openai_shapes, signed_reasoning
from .base import Dialect
from .client_errors import event, stream_names
from .faults import Json
from .frames import CallFacts, ClientError, Frame, FrameClass, Framing, ToolPiece

_TEXT_DELTAS = ("response.output_text.delta", "response.refusal.delta")
_MEDIA = ("response.audio", "response.output_audio", "response.image_generation_call.partial_image")
_ARGUMENTS = ("function_call_arguments", "mcp_call_arguments", "custom_tool_call_input", "code_interpreter_call_code")
_DONE_MEMBER = dict(zip(_ARGUMENTS, ("arguments", "arguments", "input", "code"), strict=True))
_FREEFORM = ("custom_tool_call_input", "code_interpreter_call_code")
_CLIENT_CALLS = frozenset({"local_shell_call", "shell_call", "computer_call", "apply_patch_call"})
_TERMINAL = re.compile(r"response\.(completed|incomplete|failed|cancelled)")
_SEQUENCE = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})')
_ITEM_EVENTS = ("response.output_item.added", "response.output_item.done")


class OpenAIResponses(Dialect):
    """`POST …/responses`."""

    name = "openai-responses"
    ordinary_ends = frozenset({"completed"})
    long_terminal = re.compile(rb'"type"\s*:\s*"response\.(completed|incomplete|failed|cancelled)"')
    long_heads = (
        (re.compile(rb'"type"\s*:\s*"response\.(created|in_progress|queued)"'), FrameClass.LIFECYCLE),
        (re.compile(rb'"type"\s*:\s*"reasoning"'), FrameClass.PROGRESS),
    )
    overflow_phrase = "Your input exceeds the context window of this model"

    def _strip_reasoning(self, call: Json) -> bool:
        return signed_reasoning.from_responses(call)

    def _facts(self, path: str, call: json_body.Members) -> CallFacts:
        return CallFacts(
            model=json_body.string(call, "model"),
            stream=json_body.flag(call, "stream"),
            tools=json_body.size(call, "tools"),
            history_items=json_body.size(call, "input"),
        )

    def is_plain(self, data: bytes) -> bool:
        return (
            data.startswith((b"event: response.", b"data:"))
            and data.endswith((b"\n\n", b"\r\n\r\n"))
            and data.count(b'"delta":') == data.count(b"data:")
            and data.find(b'"error') < 0
            and data.find(b'"response"') < 0
            and data.find(b"_call") < 0
        )

    def next_sequence(self, last: bytes) -> int | None:
        numbers = _SEQUENCE.findall(last)
        return int(numbers[-1]) + 1 if numbers else None

    def _classify_payload(self, payload: Json, type: str) -> Frame:
        if match := _TERMINAL.fullmatch(type):
            response = payload.get("response")
            return _ended(response if isinstance(response, dict) else {}, type, match.group(1))
        delta = payload.get("delta")
        filled = isinstance(delta, str) and bool(delta)
        if type in _ITEM_EVENTS:
            return _item_frame(payload, type)
        for name in _ARGUMENTS:
            if type.startswith(f"response.{name}."):
                return _arguments(payload, type, name)
        if type in _TEXT_DELTAS and filled:
            size = len(str(delta).encode("utf-8", "surrogatepass"))
            return Frame(cls=FrameClass.OUTPUT, type=type, text_bytes=size)
        if type.startswith(_MEDIA) and (filled or payload.get("partial_image_b64")):
            return Frame(cls=FrameClass.OUTPUT, type=type)
        if type.startswith("response.reasoning"):
            readable = filled and type.endswith(".delta")
            return Frame(cls=FrameClass.REASONING if readable else FrameClass.PROGRESS, type=type)
        # Flat `error` events end a stream as `response.failed` does.
        return Frame(cls=FrameClass.LIFECYCLE, type=type or "chunk", terminal=type == "error")

    def _whole_answer(self, payload: Json) -> Frame | None:
        status = payload.get("status")
        if payload.get("object") != "response" and "output" not in payload:
            return None
        if status in ("queued", "in_progress"):
            return None
        return _ended(payload, "response", status if isinstance(status, str) else "completed")

    def _error_body(self, error: ClientError) -> bytes:
        return openai_shapes.error_body(error)

    def _stream_error(self, error: ClientError, framing: Framing, sequence: int | None) -> bytes:
        failed: dict[str, Any] = {"type": "response.failed"}
        # A number that we cannot know is left out: a wrong one would break a reader that checks the order.
        if sequence is not None:
            failed["sequence_number"] = sequence
        described = openai_shapes.error_object(error, *stream_names(error))
        failed["response"] = {"id": None, "status": "failed", "error": described}
        return event("response.failed", failed)


def _ended(response: Json, type: str, how: str) -> Frame:
    """A terminal frame: its `output` counts as output, `incomplete` gives its own reason."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    items = list(_items(response))
    classes = [_item_class(item) for _, item in items]
    return Frame(
        cls=min(classes, default=FrameClass.LIFECYCLE, key=lambda cls: cls.value),
        type=type,
        terminal=True,
        finish=reason if isinstance(reason, str) and reason else how,
        tools=tuple(piece for index, item in items for piece in _item_tools(item, index, whole=True)),
    )


def _items(response: Json) -> Iterator[tuple[int, Json]]:
    output = response.get("output")
    if isinstance(output, list):
        yield from ((index, item) for index, item in enumerate(output) if isinstance(item, dict))


def _item_frame(payload: Json, type: str) -> Frame:
    item = payload.get("item")
    if not isinstance(item, dict):
        return Frame(cls=FrameClass.LIFECYCLE, type=type)
    tools = tuple(_item_tools(item, payload.get("output_index"), whole=type.endswith(".done")))
    return Frame(cls=_item_class(item), type=type, tools=tools)


def _item_class(item: Json) -> FrameClass:
    kind = str(item.get("type"))
    if kind == "reasoning":
        return FrameClass.PROGRESS  # `ST-7`: encrypted or not, the item itself is never output
    if kind == "compaction":
        return FrameClass.OUTPUT if item.get("encrypted_content") else FrameClass.LIFECYCLE
    if kind in _CLIENT_CALLS or (kind.endswith("_call") and (item.get("name") or item.get("result"))):
        return FrameClass.OUTPUT
    content = item.get("content")
    parts = content if isinstance(content, list) else []
    shown = (part.get("text") or part.get("refusal") for part in parts if isinstance(part, dict))
    return FrameClass.OUTPUT if kind == "message" and any(shown) else FrameClass.LIFECYCLE


def _item_tools(item: Json, index: object, *, whole: bool) -> Iterator[ToolPiece]:
    freeform = item.get("type") == "custom_tool_call"
    if freeform or item.get("type") == "function_call":
        arguments = item.get("input" if freeform else "arguments")
        text = arguments if isinstance(arguments, str) else ""
        yield ToolPiece(group=0, key=str(index), text=text, whole=whole, freeform=freeform)


def _arguments(payload: Json, type: str, name: str) -> Frame:
    """A fragment of a call's arguments, or all of them in the `done` event."""
    done = type.endswith(".done")
    value = payload.get(
        ("input" if "input" in name else "code" if "code" in name else "arguments") if done else "delta"
    )
    text = value if isinstance(value, str) else ""
    index = str(payload.get("output_index"))
    piece = ToolPiece(group=0, key=index, text=text, whole=done, freeform=name in _FREEFORM)
    return Frame(cls=FrameClass.OUTPUT if text else FrameClass.LIFECYCLE, type=type, tools=(piece,))
