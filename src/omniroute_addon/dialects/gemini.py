"""Gemini's `generateContent` and `streamGenerateContent`, on the Gemini API and on Vertex.

The model stands in the path, the method says whether the answer streams. Without `alt=sse` a stream is one JSON array.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from . import json_body, signed_reasoning
from .base import Dialect
from .client_errors import body_names, data, dump
from .faults import Json
from .frames import BodyProblem, CallFacts, ClientError, Frame, FrameClass, Framing, ToolPiece
from .turn import Turn, judge_turn

# …/models/M:method, …/tunedModels/M:method, …/endpoints/M:method
_CALL_PATH = re.compile(
    r"(?P<head>.*/(?:models|tunedModels|endpoints)/)(?P<model>[^/?]+):(?P<method>\w+)(?P<query>\?.*)?\Z"
)
_STREAM_METHOD = "streamGenerateContent"
_PRODUCTS = ("executableCode", "codeExecutionResult", "inlineData", "fileData")
_NO_REASON = "FINISH_REASON_UNSPECIFIED"

_STATUS_NAMES: Mapping[int, str] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class Gemini(Dialect):
    """`POST …/models/M:generateContent`, `:streamGenerateContent`."""

    name = "gemini"
    may_be_array = True
    long_terminal = re.compile(rb'"finishReason"\s*:\s*"(\w+)"')
    overflow_phrase = "The input token count exceeds the maximum number of tokens allowed"

    def rename_model(self, *, path: str, body: bytes, model: str) -> tuple[str, bytes]:
        match = _CALL_PATH.match(path)
        if match is None:
            raise ValueError("the request path names no model that could be replaced")
        return f"{match['head']}{quote(model, safe='')}:{match['method']}{match['query'] or ''}", body

    def _strip_reasoning(self, call: Json) -> bool:
        return signed_reasoning.from_gemini(call)

    def _facts(self, path: str, call: json_body.Members) -> CallFacts:
        match = _CALL_PATH.match(path)
        tools = call["tools"].value if "tools" in call else None
        return CallFacts(
            model=unquote(match["model"]) if match else "",
            stream=match is not None and match["method"] == _STREAM_METHOD,
            tools=sum(_declarations(tool) for tool in tools) if isinstance(tools, list) else 0,
            history_items=json_body.size(call, "contents"),
        )

    def is_plain(self, data: bytes) -> bool:
        return (
            data.startswith(b"data:")
            and data.endswith((b"\n\n", b"\r\n\r\n"))
            and data.count(b'"parts":') == data.count(b"data:")
            and data.find(b'"finishReason"') < 0
            and data.find(b'"blockReason"') < 0
            and data.find(b'"functionCall"') < 0
            and data.find(b'"error') < 0
        )

    def _classify_payload(self, payload: Json, type: str) -> Frame:
        return _frame(_unwrapped(payload), type or "chunk")

    def _whole_answer(self, payload: Json) -> Frame | None:
        payload = _unwrapped(payload)
        if not any(name in payload for name in ("candidates", "promptFeedback", "usageMetadata")):
            return None
        frame = _frame(payload, "generateContent")
        return frame if frame.terminal else replace(frame, terminal=True)

    def _judge_list(self, payload: list[Any], text: bytes) -> BodyProblem | None:
        # A stream without `alt=sse` that was read as a whole.
        turn = Turn()
        for item in payload:
            if isinstance(item, dict):
                turn.take(self._classify_object(item, text, ""))
        return BodyProblem(kind="error", fault=turn.error) if turn.error else judge_turn(turn, self.ordinary_ends)

    def _error_body(self, error: ClientError) -> bytes:
        return dump(_error_value(error))

    def _stream_error(self, error: ClientError, framing: Framing, sequence: int | None) -> bytes:
        value = _error_value(error)
        return b",\r\n" + dump(value) + b"\r\n]" if framing == "json-array" else data(value)


def _error_value(error: ClientError) -> Json:
    """Google's error object; our stable code is the reason of an ErrorInfo, the wait a RetryInfo."""
    _, code = body_names(error)
    info: Json = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "omniroute"}
    # Google's clients read it as a map of texts.
    said = {k: v if isinstance(v, str) else json.dumps(v) for k, v in (error.diagnostics or {}).items()}
    metadata = said | ({"request_id": error.request_id} if error.request_id else {})
    if metadata:
        info["metadata"] = metadata
    details: list[Json] = [info]
    if error.retry_after_s is not None:
        delay = f"{error.retry_after_s:.3f}".rstrip("0").rstrip(".")
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{delay}s"})
    details += (dict(detail) for detail in error.details)
    default = "INTERNAL" if error.status >= 500 else "INVALID_ARGUMENT"
    status = _STATUS_NAMES.get(error.status, default)
    return {"error": {"code": error.status, "message": error.message, "status": status, "details": details}}


def _declarations(tool: Any) -> int:
    """Functions that one tool entry declares; 1 for a built-in tool."""
    if not isinstance(tool, dict):
        return 0
    functions = tool.get("functionDeclarations", tool.get("function_declarations"))
    return len(functions) if isinstance(functions, list) else 1


def _unwrapped(payload: Json) -> Json:
    """Code Assist puts the answer into `response`."""
    inner = payload.get("response")
    return inner if isinstance(inner, dict) else payload


def _frame(payload: Json, type: str) -> Frame:
    cls = FrameClass.LIFECYCLE
    text_bytes = 0
    finish: str | None = None
    tools: list[ToolPiece] = []
    groups: list[int] = []
    finished: list[int] = []
    for position, candidate in enumerate(_dicts(payload.get("candidates"))):
        index = candidate.get("index")
        group = index if isinstance(index, int) else position
        groups.append(group)
        content = candidate.get("content")
        for part in _dicts(content.get("parts") if isinstance(content, dict) else None):
            kind = _part_class(part)
            cls = min(cls, kind, key=lambda cls: cls.value)
            text = part.get("text")
            if kind is FrameClass.OUTPUT and isinstance(text, str):
                text_bytes += len(text.encode("utf-8", "surrogatepass"))
            tools += _tools(part, group)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason not in ("", _NO_REASON):
            finish = reason
            finished.append(group)
    feedback = payload.get("promptFeedback")
    blocked = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if isinstance(blocked, str) and blocked:
        finish = blocked
    return Frame(
        cls=cls,
        type=type,
        terminal=finish is not None,
        finish=finish,
        text_bytes=text_bytes,
        tools=tuple(tools),
        groups=tuple(groups),
        finished=tuple(finished),
    )


def _part_class(part: Json) -> FrameClass:
    call = part.get("functionCall")
    if (isinstance(call, dict) and call.get("name")) or any(part.get(name) for name in _PRODUCTS):
        return FrameClass.OUTPUT
    if part.get("text"):
        return FrameClass.REASONING if part.get("thought") is True else FrameClass.OUTPUT
    return FrameClass.PROGRESS if part.get("thoughtSignature") or part.get("thought") is True else FrameClass.LIFECYCLE


def _tools(part: Json, group: int) -> Iterator[ToolPiece]:
    """A call comes whole, unless it says that it will be continued; its later parts have no name."""
    call = part.get("functionCall")
    if isinstance(call, dict):
        open_ = call.get("willContinue") is True
        key = "" if open_ else str(call.get("id") or call.get("name") or "")
        yield ToolPiece(group=group, key=key, text="{" if open_ else "{}", whole=True)


def _dicts(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
