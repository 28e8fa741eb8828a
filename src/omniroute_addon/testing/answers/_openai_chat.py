"""OpenAI Chat Completions, and the error body that both OpenAI dialects share."""

from __future__ import annotations

from typing import Any

from omniroute_addon.testing.script import Reply, json_reply

from ._parts import CREATED, ToolCall, Usage, halves, sse, stream_of, words


def openai_chat(
    text: str = "Hello there, friend.",
    *,
    stream: bool = True,
    model: str = "gpt-5.4",
    reasoning: str = "",
    tool_call: ToolCall | None = None,
    usage: Usage = Usage(),  # noqa: B008 (frozen)
) -> Reply:
    """An answer of `/v1/chat/completions`. `reasoning` goes into `reasoning_content`, as several providers do."""
    finish = "tool_calls" if tool_call else "stop"
    if stream:
        return stream_of(_events(text, model, reasoning, tool_call, finish, usage))
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if tool_call:
        message["tool_calls"] = [_tool_call(tool_call, tool_call.arguments_json)]
    choice = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
    return json_reply(
        {
            "id": "chatcmpl-01",
            "object": "chat.completion",
            "created": CREATED,
            "model": model,
            "choices": [choice],
            "usage": _usage(usage),
        }
    )


def openai_error(status: int, message: str, code: str | None, headers: dict[str, str]) -> Reply:
    return json_reply({"error": _error(status, message, code)}, status=status, headers=headers)


def openai_stream_error(message: str, code: str | None, after: int, text: str) -> Reply:
    start = [_chunk("gpt-5.4", {"role": "assistant", "content": ""})]
    spoken = [_chunk("gpt-5.4", {"content": word}) for word in words(text)[:after]]
    return stream_of([*start, *spoken, sse({"error": _error(429, message, code)}), sse("[DONE]")])


def _error(status: int, message: str, code: str | None) -> dict[str, Any]:
    usual = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}.get(status)
    kind = "invalid_request_error" if status < 429 else "server_error" if status >= 500 else "requests"
    return {"message": message, "type": kind, "param": None, "code": code or usual}


def _events(
    text: str, model: str, reasoning: str, tool_call: ToolCall | None, finish: str, usage: Usage
) -> list[bytes]:
    events = [_chunk(model, {"role": "assistant", "content": ""})]
    events += [_chunk(model, {"reasoning_content": word}) for word in words(reasoning)]
    events += [_chunk(model, {"content": word}) for word in words(text)]
    if tool_call:
        first, second = halves(tool_call.arguments_json)
        events.append(_chunk(model, {"tool_calls": [{"index": 0, **_tool_call(tool_call, first)}]}))
        events.append(_chunk(model, {"tool_calls": [{"index": 0, "function": {"arguments": second}}]}))
    events.append(_chunk(model, {}, finish=finish))
    events.append(_chunk(model, None, usage=_usage(usage)))
    events.append(sse("[DONE]"))
    return events


def _chunk(
    model: str, delta: dict[str, Any] | None, *, finish: str | None = None, usage: dict[str, Any] | None = None
) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    chunk = {
        "id": "chatcmpl-01",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
        "choices": choices,
        "usage": usage,
    }
    return sse(chunk)


def _tool_call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
