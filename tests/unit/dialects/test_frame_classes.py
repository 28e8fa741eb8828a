"""The table of `ST` section 2, cell by cell, for the four dialects; and `ST-3` to `ST-9`."""

from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from omniroute_addon.dialects import FrameClass, dialect
from omniroute_addon.model import DIALECTS, DialectName

Letter = Literal["A", "B", "C", "D", "E", "H"]


def delta(**members: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members}]}


def block_delta(type: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": type, **members}}


def block_start(type: str, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": {"type": type, **members}}


def part(**members: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [members]}}]}


def item(type: str, *, how: str = "added", **members: Any) -> dict[str, Any]:
    return {"type": f"response.output_item.{how}", "output_index": 0, "item": {"type": type, **members}}


def completed(*output: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", "output": list(output)}}


CHAT: list[tuple[Letter, dict[str, Any]]] = [
    ("A", delta(content="x")),
    ("A", delta(text="x")),
    ("A", {"choices": [{"text": "x"}]}),
    ("A", delta(content=[{"type": "text", "text": "x"}])),
    ("A", delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": ""}}])),
    ("A", delta(tool_calls=[{"function": {"arguments": "{"}}])),
    ("A", delta(function_call={"name": "f"})),
    ("A", delta(refusal="no")),
    ("A", delta(audio={"data": "AA"})),
    ("A", delta(audio={"transcript": "x"})),
    ("A", delta(images=[{"image_url": {"url": "data:"}}])),
    ("A", delta(content="x", reasoning="y")),
    ("A", {"choices": [{"message": {"content": "x"}}]}),
    ("A", {"choices": [{"delta": {}}, {"delta": {"content": "x"}}]}),
    ("A", {"choices": [{"delta": {"content": "x"}}], "error": {"message": "m"}}),
    ("B", delta(reasoning_content="x")),
    ("B", delta(reasoning="x")),
    ("B", delta(thinking="x")),
    ("B", delta(reasoning_details=[{"type": "reasoning.text", "text": "x"}])),
    ("B", delta(reasoning_details=[{"type": "reasoning.summary", "summary": "x"}])),
    ("B", delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]}])),
    ("C", delta(reasoning_content="")),
    ("C", delta(reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}])),
    ("D", delta(role="assistant")),
    ("D", delta(role="assistant", content="")),
    ("D", delta(content=None, reasoning_content=None, tool_calls=None, function_call=None, audio=None)),
    ("D", delta(tool_calls=[{"index": 0, "function": {"name": "", "arguments": ""}}, {"function": None}])),
    ("D", {"choices": [], "usage": {}}),
    ("D", {"choices": None}),
    ("D", {"choices": [{"delta": {}, "finish_reason": "stop"}]}),
    ("D", {"choices": ["x"]}),
    ("D", {"choices": [], "error": {"message": "m", "code": 502}}),
    ("E", {"error": {"message": "m"}}),
    ("E", {"code": 1305, "message": "m"}),
    ("E", {"error_type": "x", "error_message": "m"}),
]

RESPONSES: list[tuple[Letter, dict[str, Any]]] = [
    ("A", {"type": "response.output_text.delta", "delta": "x"}),
    ("A", {"type": "response.refusal.delta", "delta": "x"}),
    ("A", item("function_call", name="f")),
    ("A", item("custom_tool_call", name="f")),
    ("A", item("local_shell_call", action={})),
    ("A", item("image_generation_call", how="done", result="AA")),
    ("A", item("message", how="done", content=[{"type": "output_text", "text": "x"}])),
    ("A", {"type": "response.function_call_arguments.delta", "delta": "{"}),
    ("A", {"type": "response.function_call_arguments.done", "arguments": "{}"}),
    ("A", {"type": "response.custom_tool_call_input.done", "input": "x"}),
    ("A", {"type": "response.image_generation_call.partial_image", "partial_image_b64": "AA"}),
    ("A", {"type": "response.audio.delta", "delta": "AA"}),
    ("A", completed({"type": "message", "content": [{"type": "output_text", "text": "x"}]})),
    ("A", completed({"type": "message", "content": [{"type": "refusal", "refusal": "x"}]})),
    ("A", completed({"type": "reasoning"}, {"type": "function_call", "name": "f", "arguments": "{}"})),
    ("A", item("compaction", encrypted_content="x")),
    ("B", {"type": "response.reasoning_text.delta", "delta": "x"}),
    ("B", {"type": "response.reasoning_summary_text.delta", "delta": "x"}),
    ("C", item("reasoning", encrypted_content="x")),
    ("C", item("reasoning", how="done", encrypted_content="x")),
    ("C", {"type": "response.reasoning_summary_part.added"}),
    ("C", {"type": "response.reasoning_text.delta", "delta": ""}),
    ("C", completed({"type": "reasoning", "encrypted_content": "x"})),
    ("D", item("compaction")),
    ("D", item("message", content=[])),
    ("D", item("message", content=None)),
    ("D", item("web_search_call", action={})),
    ("D", {"type": "response.output_item.added"}),
    ("D", {"type": "response.output_text.delta", "delta": ""}),
    ("D", {"type": "response.function_call_arguments.delta", "delta": ""}),
    ("D", {"type": "response.created", "response": {}}),
    ("D", {"type": "response.in_progress", "response": {}}),
    ("D", {"type": "response.queued", "response": {}}),
    ("D", completed()),
    ("D", {"type": "response.completed"}),
    ("D", {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x"}}}),
    ("E", {"type": "error", "code": "server_error", "message": "m"}),
    ("E", {"type": "error", "error": {"message": "m"}}),
]

ANTHROPIC: list[tuple[Letter, dict[str, Any]]] = [
    ("A", block_delta("text_delta", text="x")),
    ("A", block_delta("input_json_delta", partial_json="{")),
    ("A", block_delta("compaction_delta", content="x")),
    ("A", block_start("tool_use", name="f", input={})),
    ("A", block_start("server_tool_use", name="f")),
    ("A", block_start("text", text="x")),
    ("B", block_delta("thinking_delta", thinking="x")),
    ("C", block_delta("thinking_delta", thinking="")),
    ("C", block_delta("thinking_delta", thinking="", estimated_tokens=50)),
    ("C", block_delta("signature_delta", signature="x")),
    ("C", block_start("thinking", thinking="")),
    ("C", block_start("redacted_thinking", data="x")),
    ("D", block_start("text", text="")),
    ("D", block_start("tool_use")),
    ("D", block_delta("text_delta", text="")),
    ("D", block_delta("input_json_delta", partial_json="")),
    ("D", {"type": "content_block_delta", "delta": None}),
    ("D", {"type": "message_start", "message": {"content": []}}),
    ("D", {"type": "content_block_stop", "index": 0}),
    ("D", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ("D", {"type": "message_stop"}),
    ("D", {"type": "vertex_event"}),
    ("E", {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}),
]

GEMINI: list[tuple[Letter, dict[str, Any]]] = [
    ("A", part(text="x")),
    ("A", part(text="x", thought=False)),
    ("A", part(text="x", thoughtSignature="s")),
    ("A", part(functionCall={"name": "f", "args": {}})),
    ("A", part(executableCode={"code": "x"})),
    ("A", part(codeExecutionResult={"outcome": "OK"})),
    ("A", part(inlineData={"mimeType": "image/png", "data": "AA"})),
    ("A", {"response": part(text="x")}),
    ("A", {"candidates": [{"content": {"parts": [{"text": "y", "thought": True}, {"text": "x"}]}}]}),
    ("B", part(text="x", thought=True)),
    ("C", part(thoughtSignature="s")),
    ("C", part(text="", thoughtSignature="s")),
    ("D", part(text="")),
    ("D", part(functionCall={})),
    ("D", {"candidates": [{"content": {"parts": []}}]}),
    ("D", {"candidates": [{"content": None, "finishReason": "STOP"}]}),
    ("D", {"usageMetadata": {"totalTokenCount": 1}}),
    ("E", {"error": {"code": 503, "message": "m", "status": "UNAVAILABLE"}}),
]

TABLE: list[tuple[DialectName, Letter, dict[str, Any]]] = [
    (name, letter, payload)
    for name, rows in zip(DIALECTS, (CHAT, RESPONSES, ANTHROPIC, GEMINI), strict=True)
    for letter, payload in rows
]


@pytest.mark.parametrize(
    ("name", "letter", "payload"), TABLE, ids=[f"{n}-{c}-{i}" for i, (n, c, _) in enumerate(TABLE)]
)
def test_every_frame_has_exactly_one_class(name: DialectName, letter: Letter, payload: dict[str, Any]) -> None:
    frame = dialect(name).classify(b"data: " + json.dumps(payload).encode() + b"\n\n")
    assert frame.cls.value == letter
    assert (letter == "E") <= (frame.error is not None)


@pytest.mark.parametrize(
    ("name", "letter", "payload"), TABLE, ids=[f"{n}-{c}-{i}" for i, (n, c, _) in enumerate(TABLE)]
)
def test_what_counts_as_plain_is_output_without_error_or_end(
    name: DialectName, letter: Letter, payload: dict[str, Any]
) -> None:
    raw = b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"
    frame = dialect(name).classify(raw)
    if dialect(name).is_plain(raw):
        assert not frame.terminal and frame.error is None and not frame.tools and frame.finish is None


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("raw", "letter"),
    [
        (b": OPENROUTER PROCESSING\n\n", "H"),
        (b"\n\n", "H"),
        (b"event: ping\ndata: {}\n\n", "H"),
        (b'event: x\ndata: {"type": "KeepAlive"}\n\n', "H"),
        (b'data: {"type":"heartbeat"}\n\n', "H"),
        (b"event: message\n\n", "H"),
        (b"data:\n\n", "H"),
        (b"data: [DONE]\n\n", "H"),
        (b"<html>\n\n", "H"),
        (b"{nonsense\n\n", "H"),
        (b"data: plain text\n\n", "A"),
        (b'data: {"cut": \n\n', "A"),
        (b"data: \xff\n\n", "A"),
        (b"data: 5\n\n", "D"),
        (b"data: []\n\n", "D"),
        (b"data: null\n\n", "D"),
        (b'event: error\ndata: {"message": "m"}\n\n', "E"),
        (b"event: error\ndata: it broke\n\n", "E"),
        (b"event: error\n\n", "E"),
        (b'{\n "error": {"code": 503, "message": "m"}\n}\n\n', "E"),
        (b'data: [{"error": {"code": 429, "message": "m"}}]\n\n', "E"),
    ],
)
def test_st_3_st_5_frames_that_are_alike_in_all_dialects(name: DialectName, raw: bytes, letter: Letter) -> None:
    assert dialect(name).classify(raw).cls.value == letter


@pytest.mark.parametrize(
    ("name", "payload", "finish"),
    [
        ("openai-chat", {"choices": [{"delta": {}, "finish_reason": "stop"}]}, "stop"),
        ("openai-chat", {"choices": [{"delta": {}, "finish_reason": None}]}, None),
        ("openai-responses", completed(), "completed"),
        ("openai-responses", {"type": "response.failed", "response": {"error": {"code": "x"}}}, "failed"),
        (
            "openai-responses",
            {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
            "max_output_tokens",
        ),
        ("anthropic-messages", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, "end_turn"),
        ("anthropic-messages", {"type": "message_delta", "delta": {"stop_reason": None}}, None),
        ("gemini", {"candidates": [{"finishReason": "STOP"}]}, "STOP"),
        ("gemini", {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]}, None),
        ("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}, "SAFETY"),
    ],
)
def test_terminal_markers_carry_the_finish_reason(name: DialectName, payload: Any, finish: str | None) -> None:
    frame = dialect(name).classify(b"data: " + json.dumps(payload).encode() + b"\n\n")
    assert (frame.terminal, frame.finish) == (finish is not None, finish)


def test_terminal_markers_without_a_reason() -> None:
    assert dialect("anthropic-messages").classify(b'data: {"type":"message_stop"}\n\n').terminal
    assert dialect("openai-chat").classify(b"data: [DONE]\n\n").terminal
    assert not dialect("openai-responses").classify(b"data: [DONE]\n\n").terminal
    assert dialect("openai-responses").classify(b'data: {"type":"error","message":"m"}\n\n').terminal


def test_a_chunk_that_ends_with_an_error_is_one() -> None:
    frame = dialect("openai-chat").classify(b'data: {"choices":[{"delta":{},"finish_reason":"error"}]}\n\n')
    assert frame.error is not None and frame.terminal and frame.cls is FrameClass.LIFECYCLE


def test_visible_text_is_counted_in_utf_8_bytes() -> None:
    """ST-80"""
    for name, payload in [
        ("openai-chat", delta(content="é")),
        ("openai-responses", {"type": "response.output_text.delta", "delta": "é"}),
        ("anthropic-messages", block_delta("text_delta", text="é")),
        ("gemini", part(text="é")),
    ]:
        frame = dialect(name).classify(b"data: " + json.dumps(payload).encode() + b"\n\n")  # type: ignore[arg-type]
        assert frame.text_bytes == 2
