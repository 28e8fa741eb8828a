"""Anthropic Messages: content blocks, each opened, filled and closed."""

from __future__ import annotations

from typing import Any

from omniroute_addon.testing.script import Reply, json_reply

from ._parts import ToolCall, Usage, halves, sse, stream_of, words

_Event = dict[str, Any]


def anthropic(
    text: str = "Hello there, friend.",
    *,
    stream: bool = True,
    model: str = "claude-sonnet-4-5",
    reasoning: str = "",
    tool_call: ToolCall | None = None,
    usage: Usage = Usage(),  # noqa: B008 (frozen)
) -> Reply:
    """An answer of `/v1/messages`. `reasoning` becomes a thinking block with a signature."""
    blocks: list[tuple[_Event, _Event, list[_Event]]] = []  # (as it opens, whole, deltas)
    if reasoning:
        deltas = [{"type": "thinking_delta", "thinking": word} for word in words(reasoning)]
        whole = {"type": "thinking", "thinking": reasoning, "signature": "c2lnbmF0dXJl"}
        deltas.append({"type": "signature_delta", "signature": whole["signature"]})
        blocks.append(({**whole, "thinking": "", "signature": ""}, whole, deltas))
    if text:
        block: _Event = {"type": "text", "text": text}
        blocks.append(({**block, "text": ""}, block, [{"type": "text_delta", "text": word} for word in words(text)]))
    if tool_call:
        call: _Event = {"type": "tool_use", "id": tool_call.id, "name": tool_call.name, "input": tool_call.arguments}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in halves(tool_call.arguments_json)]
        blocks.append(({**call, "input": {}}, call, pieces))
    stop_reason = "tool_use" if tool_call else "end_turn"
    if not stream:
        return json_reply(_message(model, [whole for _, whole, _ in blocks], stop_reason, usage, usage.output))
    events: list[_Event] = [*_opening(model, usage)]
    for index, (opened, _, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": opened})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": stop_reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage.output}})
    events.append({"type": "message_stop"})
    return _stream(events)


def anthropic_error(status: int, message: str, code: str | None, headers: dict[str, str]) -> Reply:
    return json_reply(_error(status, message, code), status=status, headers=headers)


def anthropic_stream_error(message: str, code: str | None, after: int, text: str) -> Reply:
    events = _opening("claude-sonnet-4-5", Usage())
    if after:
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
        for word in words(text)[:after]:
            delta = {"type": "text_delta", "text": word}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    return _stream([*events, _error(529, message, code)])


def _error(status: int, message: str, code: str | None) -> _Event:
    usual = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }.get(status, "api_error")
    return {"type": "error", "error": {"type": code or usual, "message": message}, "request_id": "req_01"}


def _stream(events: list[_Event]) -> Reply:
    return stream_of(sse(event, event=event["type"]) for event in events)


def _opening(model: str, usage: Usage) -> list[_Event]:
    return [{"type": "message_start", "message": _message(model, [], None, usage, 1)}, {"type": "ping"}]


def _message(model: str, content: list[_Event], stop_reason: str | None, usage: Usage, output: int) -> _Event:
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage.input - usage.cached,
            "cache_read_input_tokens": usage.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": output,
        },
    }
