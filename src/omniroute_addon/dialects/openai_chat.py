"""OpenAI chat completions, as OpenAI and some hundred compatible providers speak it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

from . import json_body, openai_shapes, signed_reasoning
from .base import Dialect
from .client_errors import data, stream_names
from .faults import Json, text_fault
from .frames import CallFacts, ClientError, Frame, FrameClass, Framing, ToolPiece

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")
"""Azure's older door names the model in the path; the body then need not."""
_REASONING = ("reasoning_content", "reasoning", "thinking")


class OpenAIChat(Dialect):
    """`POST …/chat/completions`, and legacy `…/completions`."""

    name = "openai-chat"
    ordinary_ends = frozenset({"stop"})
    done_is_terminal = True
    long_terminal = re.compile(rb'"finish_reason"\s*:\s*"(\w+)"')
    overflow_phrase = "This model's maximum context length was exceeded"

    def _strip_reasoning(self, call: Json) -> bool:
        return signed_reasoning.from_chat(call)

    def _facts(self, path: str, call: json_body.Members) -> CallFacts:
        named = json_body.string(call, "model")
        deployment = None if named else _DEPLOYMENT.search(path.partition("?")[0])
        return CallFacts(
            model=unquote(deployment[1]) if deployment else named,
            model_in_path=deployment is not None,
            stream=json_body.flag(call, "stream"),
            tools=json_body.size(call, "tools") or json_body.size(call, "functions"),
            history_items=json_body.size(call, "messages") or json_body.size(call, "prompt"),
        )

    def is_plain(self, data: bytes) -> bool:
        return (
            data.startswith(b"data:")
            and data.endswith((b"\n\n", b"\r\n\r\n"))
            and data.count(b'"delta":') == data.count(b"data:")
            and data.find(b'"error') < 0
            and data.find(b"[DONE]") < 0
            and data.find(b'"tool_calls"') < 0
            and data.find(b'"function_call"') < 0
            and _unfinished(data)
        )

    def _classify_payload(self, payload: Json, type: str) -> Frame:
        return _frame(payload, type or "chunk")

    def _whole_answer(self, payload: Json) -> Frame | None:
        if "choices" not in payload and payload.get("object") != "chat.completion":
            return None
        frame = _frame(payload, "chat.completion")
        # An answer without choices has no finish reason, and still it is the whole answer.
        return frame if frame.terminal else _terminal(frame)

    def _error_body(self, error: ClientError) -> bytes:
        return openai_shapes.error_body(error)

    def _stream_error(self, error: ClientError, framing: Framing, sequence: int | None) -> bytes:
        chunk = {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
            "error": openai_shapes.error_object(error, *stream_names(error)),
        }
        return data(chunk) + b"data: [DONE]\n\n"


def _unfinished(data: bytes) -> bool:
    """Every finish reason in it is null."""
    reasons = data.count(b'"finish_reason"')
    return reasons == 0 or reasons == data.count(b'"finish_reason":null') + data.count(b'"finish_reason": null')


def _frame(payload: Json, type: str) -> Frame:
    cls = FrameClass.LIFECYCLE
    text_bytes = 0
    finish: str | None = None
    tools: list[ToolPiece] = []
    groups: list[int] = []
    finished: list[int] = []
    for position, choice in enumerate(_dicts(payload.get("choices"))):
        index = choice.get("index")
        group = index if isinstance(index, int) else position
        groups.append(group)
        content = choice.get("delta") or choice.get("message")
        delta: Json = content if isinstance(content, dict) else {}
        text = _text(delta) + _filled(choice.get("text"))
        text_bytes += len(text.encode("utf-8", "surrogatepass"))
        tools += _tools(delta, group)
        cls = _first(cls, FrameClass.OUTPUT if text or _called(delta) or _media(delta) else _reasoning(delta))
        reason = choice.get("finish_reason")
        if isinstance(reason, str) and reason:
            finish = reason
            finished.append(group)
    return Frame(
        cls=cls,
        type=type,
        terminal=finish is not None,
        error=text_fault("the provider ended the answer with an error", type="error") if finish == "error" else None,
        finish=finish,
        text_bytes=text_bytes,
        tools=tuple(tools),
        groups=tuple(groups),
        finished=tuple(finished),
    )


def _text(delta: Json) -> str:
    """Visible text: `content` as a string or as parts, `text`, `refusal`."""
    content = delta.get("content")
    parts = "".join(_filled(part.get("text")) for part in _dicts(content))
    return _filled(content) + parts + _filled(delta.get("text")) + _filled(delta.get("refusal"))


def _called(delta: Json) -> bool:
    functions = [call.get("function") for call in _dicts(delta.get("tool_calls"))] + [delta.get("function_call")]
    return any(
        isinstance(function, dict) and (function.get("name") or function.get("arguments")) for function in functions
    )


def _media(delta: Json) -> bool:
    audio = delta.get("audio")
    return bool(isinstance(audio, dict) and (audio.get("data") or audio.get("transcript"))) or bool(delta.get("images"))


def _reasoning(delta: Json) -> FrameClass:
    """B with readable text, C with a sign of reasoning, else D."""
    details = list(_dicts(delta.get("reasoning_details")))
    thoughts = [part.get("thinking") for part in _dicts(delta.get("content")) if part.get("type") == "thinking"]
    if any(_filled(delta.get(name)) for name in _REASONING) or any(thoughts):
        return FrameClass.REASONING
    if any(_filled(detail.get("text")) or _filled(detail.get("summary")) for detail in details):
        return FrameClass.REASONING
    return FrameClass.PROGRESS if delta.get("reasoning_content") == "" or details else FrameClass.LIFECYCLE


def _tools(delta: Json, group: int) -> Iterator[ToolPiece]:
    for position, call in enumerate(_dicts(delta.get("tool_calls"))):
        function = call.get("function")
        if isinstance(function, dict):
            index = call.get("index")
            key = str(index) if isinstance(index, int) else str(call.get("id") or position)
            yield ToolPiece(group=group, key=key, text=_filled(function.get("arguments")))
    function = delta.get("function_call")
    if isinstance(function, dict):
        yield ToolPiece(group=group, key="function_call", text=_filled(function.get("arguments")))


def _first(one: FrameClass, other: FrameClass) -> FrameClass:
    """`ST-6`: of several choices, the one with the most to show decides."""
    return min(one, other, key=lambda cls: cls.value)


def _terminal(frame: Frame) -> Frame:
    return replace(frame, terminal=True)


def _filled(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dicts(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
