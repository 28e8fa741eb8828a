"""OpenAI Responses: items, each announced, filled and closed, with a running sequence number."""

from __future__ import annotations

from itertools import count
from typing import Any

from omniroute_addon.testing.script import Reply, json_reply

from ._parts import CREATED, ToolCall, Usage, halves, sse, stream_of, words

_Event = dict[str, Any]


def openai_responses(
    text: str = "Hello there, friend.",
    *,
    stream: bool = True,
    model: str = "gpt-5.4",
    reasoning: str = "",
    tool_call: ToolCall | None = None,
    usage: Usage = Usage(),  # noqa: B008 (frozen)
) -> Reply:
    """An answer of `/v1/responses`: a reasoning item if wanted, a message, a function call if wanted."""
    items: list[_Event] = []
    events: list[_Event] = []
    if reasoning:
        _add_reasoning(reasoning, items, events)
    if text:
        _add_message(text, items, events)
    if tool_call:
        _add_function_call(tool_call, items, events)
    whole = _response(model, "completed", items, usage)
    if not stream:
        return json_reply(whole)
    return _stream([*_opening(model), *events, {"type": "response.completed", "response": whole}])


def responses_stream_error(message: str, code: str | None, after: int, text: str) -> Reply:
    spoken: list[_Event] = []
    if after:
        _add_message("".join(words(text)[:after]), [], spoken)
        spoken = [event for event in spoken if not event["type"].endswith(".done")]
    failed = _response("gpt-5.4", "failed", [], None)
    failed["error"] = {"code": code or "rate_limit_exceeded", "message": message}
    return _stream([*_opening("gpt-5.4"), *spoken, {"type": "response.failed", "response": failed}])


def _stream(events: list[_Event]) -> Reply:
    numbers = count()
    return stream_of(sse({**event, "sequence_number": next(numbers)}, event=event["type"]) for event in events)


def _opening(model: str) -> list[_Event]:
    response = _response(model, "in_progress", [], None)
    return [{"type": f"response.{word}", "response": response} for word in ("created", "in_progress")]


def _add_reasoning(text: str, items: list[_Event], events: list[_Event]) -> None:
    place = {"item_id": "rs_01", "output_index": len(items), "summary_index": 0}
    empty = {"id": "rs_01", "type": "reasoning", "summary": []}
    part = {"type": "summary_text", "text": text}
    item = {**empty, "summary": [part]}
    events.append({"type": "response.output_item.added", "output_index": len(items), "item": empty})
    opened = {"type": "response.reasoning_summary_part.added", **place, "part": {"type": "summary_text", "text": ""}}
    events.append(opened)
    for word in words(text):
        events.append({"type": "response.reasoning_summary_text.delta", **place, "delta": word})
    events.append({"type": "response.reasoning_summary_text.done", **place, "text": text})
    events.append({"type": "response.reasoning_summary_part.done", **place, "part": part})
    events.append({"type": "response.output_item.done", "output_index": len(items), "item": item})
    items.append(item)


def _add_message(text: str, items: list[_Event], events: list[_Event]) -> None:
    place = {"item_id": "msg_01", "output_index": len(items), "content_index": 0}
    empty = {"id": "msg_01", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {**empty, "status": "completed", "content": [part]}
    events.append({"type": "response.output_item.added", "output_index": len(items), "item": empty})
    events.append({"type": "response.content_part.added", **place, "part": {**part, "text": ""}})
    for word in words(text):
        events.append({"type": "response.output_text.delta", **place, "delta": word, "logprobs": []})
    events.append({"type": "response.output_text.done", **place, "text": text, "logprobs": []})
    events.append({"type": "response.content_part.done", **place, "part": part})
    events.append({"type": "response.output_item.done", "output_index": len(items), "item": item})
    items.append(item)


def _add_function_call(call: ToolCall, items: list[_Event], events: list[_Event]) -> None:
    place = {"item_id": "fc_01", "output_index": len(items)}
    empty = {
        "id": "fc_01",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": "",
        "status": "in_progress",
    }
    item = {**empty, "arguments": call.arguments_json, "status": "completed"}
    events.append({"type": "response.output_item.added", "output_index": len(items), "item": empty})
    for piece in halves(call.arguments_json):
        events.append({"type": "response.function_call_arguments.delta", **place, "delta": piece})
    done = {"type": "response.function_call_arguments.done", **place, "name": call.name}
    events.append({**done, "arguments": call.arguments_json})
    events.append({"type": "response.output_item.done", "output_index": len(items), "item": item})
    items.append(item)


def _response(model: str, status: str, output: list[_Event], usage: Usage | None) -> _Event:
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None
        if usage is None
        else {
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        },
    }
