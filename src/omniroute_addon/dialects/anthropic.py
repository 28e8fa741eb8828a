"""Anthropic messages, as Anthropic, clouds and look-alikes speak it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from . import json_body, signed_reasoning
from .base import Dialect
from .client_errors import beside, body_names, dump, event, stream_names
from .faults import Json
from .frames import CallFacts, ClientError, Frame, FrameClass, Framing, ToolPiece

_TOOL_BLOCKS = ("tool_use", "server_tool_use", "mcp_tool_use")
_THINKING_BLOCKS = ("thinking", "redacted_thinking")

# This API's own words for a status, in place of those of `spec/05` (our decision, as `ST-33` does for streams).
_BODY_TYPES: Mapping[int, str] = {
    404: "not_found_error",
    413: "request_too_large",
    504: "timeout_error",
    529: "overloaded_error",
}


class Anthropic(Dialect):
    """`POST /v1/messages`."""

    name = "anthropic-messages"
    ordinary_ends = frozenset({"end_turn", "stop_sequence"})
    long_terminal = re.compile(rb'"stop_reason"\s*:\s*"(\w+)"')
    long_heads = (
        (re.compile(rb'"type"\s*:\s*"(signature_delta|redacted_thinking|thinking)"'), FrameClass.PROGRESS),
        (re.compile(rb'"type"\s*:\s*"message_start"'), FrameClass.LIFECYCLE),
    )
    overflow_phrase = "prompt is too long"

    def _strip_reasoning(self, call: Json) -> bool:
        return signed_reasoning.from_anthropic(call)

    def _facts(self, path: str, call: json_body.Members) -> CallFacts:
        return CallFacts(
            model=json_body.string(call, "model"),
            stream=json_body.flag(call, "stream"),
            tools=json_body.size(call, "tools"),
            history_items=json_body.size(call, "messages"),
        )

    def is_plain(self, data: bytes) -> bool:
        return (
            data.startswith((b"event: content_block_delta", b"data:"))
            and data.endswith((b"\n\n", b"\r\n\r\n"))
            and data.count(b'"delta":') == data.count(b"data:")
            and data.find(b'"partial_json"') < 0
            and data.find(b'"stop_reason"') < 0
            and data.find(b'"signature') < 0
            and data.find(b'"error') < 0
        )

    def _classify_payload(self, payload: Json, type: str) -> Frame:
        index = str(payload.get("index"))
        match type:
            case "content_block_delta":
                return _delta(_object(payload, "delta"), index)
            case "content_block_start":
                return _block(_object(payload, "content_block"), index)
            case "message_delta":
                reason = _object(payload, "delta").get("stop_reason")
                finish = reason if isinstance(reason, str) and reason else None
                return Frame(cls=FrameClass.LIFECYCLE, type=type, terminal=finish is not None, finish=finish)
            case _:
                return Frame(cls=FrameClass.LIFECYCLE, type=type or "chunk", terminal=type == "message_stop")

    def _whole_answer(self, payload: Json) -> Frame | None:
        if payload.get("type") != "message" and not ("content" in payload and "stop_reason" in payload):
            return None
        content = payload.get("content")
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        classes = [_whole_block(block) for block in blocks]
        reason = payload.get("stop_reason")
        return Frame(
            cls=min(classes, default=FrameClass.LIFECYCLE, key=lambda cls: cls.value),
            type="message",
            terminal=True,
            finish=reason if isinstance(reason, str) else None,
            opened=bool(blocks),
        )

    def _error_body(self, error: ClientError) -> bytes:
        type_, code = body_names(error)
        if not error.type and error.status in _BODY_TYPES:
            type_ = _BODY_TYPES[error.status]
        elif type_ == "server_error":
            type_ = "api_error"
        value = _error_value(error, type_, code)
        return dump(value | {"request_id": error.request_id} if error.request_id else value)

    def _stream_error(self, error: ClientError, framing: Framing, sequence: int | None) -> bytes:
        type_, code = stream_names(error)
        if type_ == "server_error":
            type_ = "api_error"
        elif error.status == 403 and not error.type:
            type_ = "permission_error"
        return event("error", _error_value(error, type_, code))


def _error_value(error: ClientError, type_: str, code: str) -> Json:
    described: Json = {"type": type_, "message": error.message, **error.extra}
    if code:
        described["code"] = code
    return {"type": "error", "error": described, **beside(error)}


def _delta(delta: Json, index: str) -> Frame:
    text = delta.get("text")
    arguments = delta.get("partial_json")
    match delta.get("type"):
        case "text_delta" if isinstance(text, str) and text:
            size = len(text.encode("utf-8", "surrogatepass"))
            return Frame(cls=FrameClass.OUTPUT, type="text_delta", text_bytes=size)
        case "input_json_delta" if isinstance(arguments, str) and arguments:
            piece = ToolPiece(group=0, key=index, text=arguments)
            return Frame(cls=FrameClass.OUTPUT, type="input_json_delta", tools=(piece,))
        case "compaction_delta" if delta.get("content"):
            return Frame(cls=FrameClass.OUTPUT, type="compaction_delta")
        case "thinking_delta":
            return Frame(
                cls=FrameClass.REASONING if delta.get("thinking") else FrameClass.PROGRESS, type="thinking_delta"
            )
        case "signature_delta":
            return Frame(cls=FrameClass.PROGRESS, type="signature_delta")
        case _:
            return Frame(cls=FrameClass.LIFECYCLE, type="content_block_delta")


def _block(block: Json, index: str) -> Frame:
    kind = block.get("type")
    if kind in _THINKING_BLOCKS:
        return Frame(cls=FrameClass.PROGRESS, type="content_block_start", opened=True)
    tools: tuple[ToolPiece, ...] = ()
    if kind in _TOOL_BLOCKS:
        # Some gateways send the whole input at once; the real API opens with `{}` and sends fragments.
        given = block.get("input")
        tools = (ToolPiece(group=0, key=index, text=json.dumps(given) if given else ""),)
    called = kind in _TOOL_BLOCKS and block.get("name")
    shown = kind == "text" and block.get("text")
    cls = FrameClass.OUTPUT if called or shown else FrameClass.LIFECYCLE
    return Frame(cls=cls, type="content_block_start", opened=True, tools=tools)


def _whole_block(block: Json) -> FrameClass:
    """A block of a non-stream answer. A thinking block without text is only a signature (`A16`)."""
    match block.get("type"):
        case "thinking":
            return FrameClass.REASONING if block.get("thinking") else FrameClass.PROGRESS
        case "redacted_thinking":
            return FrameClass.PROGRESS
        case "text":
            return FrameClass.OUTPUT if block.get("text") else FrameClass.LIFECYCLE
        case _:
            return FrameClass.OUTPUT


def _object(payload: Json, name: str) -> Json:
    value = payload.get(name)
    return value if isinstance(value, dict) else {}
