"""Gemini `generateContent`: a stream is a row of partial answers, without an end marker."""

from __future__ import annotations

from typing import Any

from omniroute_addon.testing.script import Reply, json_reply

from ._parts import ToolCall, Usage, sse, stream_of, words

_Part = dict[str, Any]


def gemini(
    text: str = "Hello there, friend.",
    *,
    stream: bool = True,
    model: str = "gemini-2.5-flash",
    reasoning: str = "",
    tool_call: ToolCall | None = None,
    usage: Usage = Usage(),  # noqa: B008 (frozen)
) -> Reply:
    """An answer of `:generateContent`, or of `:streamGenerateContent?alt=sse`. `reasoning` becomes thought parts."""
    calls = [{"functionCall": {"name": tool_call.name, "args": tool_call.arguments}}] if tool_call else []
    if not stream:
        parts = [*_thoughts([reasoning] if reasoning else []), *_texts([text] if text else []), *calls]
        return json_reply(_answer(model, parts, "STOP", usage))
    pieces = [*_thoughts(words(reasoning)), *_texts(words(text)), *calls]
    whole = [_answer(model, [piece], None, None) for piece in pieces[:-1]]
    return stream_of(sse(answer) for answer in [*whole, _answer(model, pieces[-1:], "STOP", usage)])


def gemini_error(status: int, message: str, code: str | None, headers: dict[str, str]) -> Reply:
    return json_reply(_error(status, message, code), status=status, headers=headers)


def gemini_stream_error(message: str, code: str | None, after: int, text: str) -> Reply:
    spoken = [sse(_answer("gemini-2.5-flash", part, None, None)) for part in _singles(words(text)[:after])]
    return stream_of([*spoken, sse(_error(429, message, code))])


def _error(status: int, message: str, code: str | None) -> dict[str, Any]:
    usual = {
        400: "INVALID_ARGUMENT",
        401: "UNAUTHENTICATED",
        403: "PERMISSION_DENIED",
        404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED",
        503: "UNAVAILABLE",
    }.get(status, "INTERNAL")
    return {"error": {"code": status, "message": message, "status": code or usual}}


def _thoughts(texts: list[str]) -> list[_Part]:
    return [{"text": text, "thought": True} for text in texts]


def _texts(texts: list[str]) -> list[_Part]:
    return [{"text": text} for text in texts]


def _singles(texts: list[str]) -> list[list[_Part]]:
    return [[part] for part in _texts(texts)]


def _answer(model: str, parts: list[_Part], finish: str | None, usage: Usage | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    answer: dict[str, Any] = {"candidates": [candidate], "modelVersion": model, "responseId": "gem_01"}
    if usage:
        answer["usageMetadata"] = {
            "promptTokenCount": usage.input,
            "cachedContentTokenCount": usage.cached,
            "candidatesTokenCount": usage.output - usage.reasoning,
            "thoughtsTokenCount": usage.reasoning,
            "totalTokenCount": usage.input + usage.output,
        }
    return answer
