"""When a finished turn is no success: `ST-60` to `ST-68`, `A16`, `A18`; for streams and for whole answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omniroute_addon.dialects import dialect
from omniroute_addon.dialects.frames import Frame, FrameClass, ToolPiece
from omniroute_addon.dialects.turn import ARGUMENTS_LIMIT_BYTES, Turn
from omniroute_addon.model import DIALECTS, DialectName


def chat(message: dict[str, Any], finish: str | None = "stop") -> dict[str, Any]:
    return {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def claude(*content: dict[str, Any], stop: str | None = "end_turn") -> dict[str, Any]:
    return {"type": "message", "content": list(content), "stop_reason": stop}


def response(*output: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"object": "response", "status": "completed", "error": None, "output": list(output), **members}


def gemini(*parts: dict[str, Any], finish: str = "STOP") -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}]}


TOOL = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": '{"a": '}}]}
QUOTE = "429: you exceeded your current quota, rate_limit_error, insufficient_quota"

BODIES: list[tuple[DialectName, Any, str | None, bool]] = [
    # dialect, answer, problem, trustable
    ("openai-chat", chat({"content": "x"}), None, False),
    ("openai-chat", chat({"content": QUOTE}), None, False),
    ("openai-chat", chat({"content": None, "refusal": "no"}), None, False),
    ("openai-chat", chat({"content": "", "reasoning_content": "x"}), None, False),
    ("openai-chat", {"object": "chat.completion", "choices": []}, "empty", False),
    ("openai-chat", {"choices": None, "usage": {"total_tokens": 0}}, "empty", False),
    ("openai-chat", chat({"content": None}) | {"usage": {"completion_tokens": 0}}, "empty", True),
    ("openai-chat", chat({"content": ""}, None), "empty", False),
    ("openai-chat", chat({"content": ""}, "insufficient_system_resource"), "empty", False),
    *[
        ("openai-chat", chat({"content": ""}, reason), None, False)
        for reason in ("length", "tool_calls", "content_filter")
    ],
    ("openai-chat", chat({"content": "x"}, "error"), "error", False),
    ("openai-chat", chat(TOOL, "tool_calls"), "half_tool_call", False),
    ("openai-chat", chat(TOOL, "length"), None, False),
    ("openai-chat", chat({"function_call": {"name": "f", "arguments": "{"}}, "function_call"), "half_tool_call", False),
    ("openai-chat", {"data": [{"embedding": []}], "object": "list"}, None, False),
    ("anthropic-messages", claude({"type": "text", "text": "x"}), None, False),
    ("anthropic-messages", claude({"type": "tool_use", "name": "f", "input": {}}, stop="tool_use"), None, False),
    ("anthropic-messages", claude({"type": "thinking", "thinking": "x", "signature": "s"}), None, False),
    ("anthropic-messages", claude(), "empty", True),
    ("anthropic-messages", claude(stop="stop_sequence"), "empty", True),
    ("anthropic-messages", claude({"type": "text", "text": ""}), "empty", False),
    ("anthropic-messages", claude({"type": "thinking", "thinking": "", "signature": "s"}), "empty", False),
    ("anthropic-messages", claude({"type": "redacted_thinking", "data": "s"}), "empty", False),
    ("anthropic-messages", claude(stop="max_tokens"), None, False),
    ("anthropic-messages", claude(stop="tool_use"), None, False),
    ("anthropic-messages", claude(stop="refusal"), None, False),
    ("anthropic-messages", {"content": None, "stop_reason": None}, "empty", False),
    ("anthropic-messages", {"input_tokens": 5}, None, False),
    ("openai-responses", response({"type": "message", "content": [{"type": "output_text", "text": "x"}]}), None, False),
    ("openai-responses", response({"type": "function_call", "name": "f", "arguments": "{}"}), None, False),
    ("openai-responses", response({"type": "compaction", "encrypted_content": "x"}), None, False),
    ("openai-responses", response({"type": "function_call", "name": "f", "arguments": '{"a'}), "half_tool_call", False),
    ("openai-responses", response({"type": "custom_tool_call", "name": "f", "input": '{"a'}), None, False),
    ("openai-responses", response({"type": "reasoning", "encrypted_content": "x"}), "empty", True),
    ("openai-responses", response(), "empty", True),
    (
        "openai-responses",
        response(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        None,
        False,
    ),
    ("openai-responses", response(status="in_progress"), None, False),
    ("openai-responses", response(status="queued"), None, False),
    ("openai-responses", response(status="failed", error={"code": "server_error", "message": "m"}), "error", False),
    ("openai-responses", response(status=None), "empty", True),
    ("openai-responses", {"object": "response.input_tokens", "input_tokens": 1}, None, False),
    ("gemini", gemini({"text": "x"}), None, False),
    ("gemini", gemini({"inlineData": {"data": "AA"}}), None, False),
    ("gemini", gemini({"functionCall": {"name": "f", "args": {}}}), None, False),
    ("gemini", gemini({"functionCall": {"name": "f", "willContinue": True}}), "half_tool_call", False),
    ("gemini", gemini({"thoughtSignature": "s"}), "empty", False),
    ("gemini", gemini(finish="MAX_TOKENS"), None, False),
    ("gemini", gemini(finish="SAFETY"), None, False),
    ("gemini", gemini(finish="MALFORMED_FUNCTION_CALL"), "empty", False),
    ("gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, None, False),
    ("gemini", {"usageMetadata": {"totalTokenCount": 5}}, "empty", False),
    ("gemini", {"totalTokens": 5}, None, False),
    ("gemini", [gemini({"text": "x"})], None, False),
    ("gemini", [gemini(), 5], "empty", False),
    ("gemini", [gemini({"text": "x"}), {"error": {"code": 503}}], "error", False),
]


@pytest.mark.parametrize(("name", "answer", "kind", "trustable"), BODIES, ids=range(len(BODIES)))
def test_a16_a_whole_answer_is_a_success_or_not(
    name: DialectName, answer: Any, kind: str | None, trustable: bool
) -> None:
    problem = dialect(name).judge_body(json.dumps(answer).encode())
    assert (problem.kind if problem else None) == kind
    if problem:
        assert problem.trustable is trustable
        assert kind == "error" or problem.fault.status == 502


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": {"message": "m", "code": 429}}', "error"),
        (b'{"type": "error", "error": {"type": "overloaded_error"}}', "error"),
        (b'[{"error": {"code": 429, "message": "m"}}]', "error"),
        (b'{"code": 1305, "message": "m"}', "error"),
        (b'{"success": false, "message": "m"}', "error"),
        (b"<html><body>429</body></html>", "not_json"),
        (b"\xff\xfe\xfd", "not_json"),
        (b'{"choices": {]}', "not_json"),
        (b'{"choices": [{"message": {"content": "x', "truncated"),
        (b'{"content": [{"text": "x"}', "truncated"),
        (b"", "empty"),
        (b"\n\n", "empty"),
        (b'data: {"error": {"message": "m"}}\n\ndata: [DONE]\n\n', "error"),
        (b': keep\n\ndata: {"x": 1}\n\n', "truncated"),
        (b"[]", None),
        (b"[1, 2]", None),
        (b"5", None),
        (b'{"data": []}', None),
        (b'{"a": ' + b"9" * 5000 + b"}", None),
        (b"[" * 200_000 + b"]" * 200_000, None),
    ],
)
def test_a10_bodies_that_are_judged_alike_in_all_dialects(name: DialectName, body: bytes, kind: str | None) -> None:
    problem = dialect(name).judge_body(body)
    assert (problem.kind if problem else None) == kind


def test_a_page_instead_of_json_is_kept_as_the_body_of_the_fault() -> None:
    problem = dialect("openai-chat").judge_body(b"<html>blocked</html>")
    assert problem is not None and problem.fault.body == b"<html>blocked</html>"


def test_blank_lines_before_the_json_are_no_problem() -> None:
    assert dialect("openai-chat").judge_body(b"\n\n\n" + json.dumps(chat({"content": "x"})).encode()) is None


def piece(text: str = "", key: str = "0", group: int = 0, **more: bool) -> Frame:
    return Frame(cls=FrameClass.OUTPUT, tools=(ToolPiece(group=group, key=key, text=text, **more),))


END = Frame(cls=FrameClass.LIFECYCLE, terminal=True, finish="tool_calls", finished=(0,), groups=(0,))


def after(*frames: Frame) -> Turn:
    turn = Turn()
    for frame in frames:
        turn.take(frame)
    return turn


def test_a18_a_call_without_arguments_is_open_until_the_turn_ends() -> None:
    assert after(piece()).open_tool_call and not after(piece()).complete_tool_call
    assert not after(piece(), END).open_tool_call and after(piece(), END).complete_tool_call


def test_a18_a_call_is_complete_as_soon_as_its_json_is() -> None:
    assert after(piece('{"a":'), piece(" 1}")).complete_tool_call
    assert after(piece('{"a":')).open_tool_call
    assert after(piece('{"a":'), piece('{"a": 1}', whole=True)).complete_tool_call


def test_a18_free_text_is_complete_only_when_it_is_declared_so() -> None:
    assert after(piece("x", freeform=True)).open_tool_call
    assert after(piece("{", freeform=True, whole=True)).complete_tool_call


def test_a18_only_a_finished_choice_is_judged() -> None:
    assert not after(piece('{"a":', group=1), END).half_tool_call()
    assert after(piece('{"a":', group=0), END).half_tool_call()


def test_a_turn_with_more_than_one_choice_is_empty_only_when_all_have_ended() -> None:
    two = Frame(cls=FrameClass.LIFECYCLE, groups=(0, 1))
    stop = Frame(cls=FrameClass.LIFECYCLE, terminal=True, finish="stop", groups=(0,), finished=(0,))
    other = Frame(cls=FrameClass.LIFECYCLE, terminal=True, finish="stop", groups=(1,), finished=(1,))
    assert not after(two, stop).empty()
    assert after(two, stop, other).empty()


def test_arguments_beyond_the_limit_are_taken_for_complete() -> None:
    turn = after(piece("{" * (ARGUMENTS_LIMIT_BYTES // 2)), piece("[" * ARGUMENTS_LIMIT_BYTES), END)
    assert turn.complete_tool_call and not turn.half_tool_call()


@pytest.mark.parametrize("arguments", [['{"a": 1}'], ['{"a":', " 1}"], [""]])
def test_anthropic_tool_input_comes_in_fragments(arguments: list[str]) -> None:
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "name": "f", "input": {}}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}}
        for text in arguments
    ]
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    reader = dialect("anthropic-messages").reader()
    for payload in (start, *deltas, stop):
        reader.feed(b"data: " + json.dumps(payload).encode() + b"\n\n")
    end = reader.end()
    assert end.problem is None and end.complete_tool_call and end.opened


def test_a_gateway_may_send_the_whole_tool_input_at_once() -> None:
    reader = dialect("anthropic-messages").reader()
    block = {"type": "tool_use", "name": "f", "input": {"a": 1}}
    reader.feed(
        b"data: " + json.dumps({"type": "content_block_start", "index": 0, "content_block": block}).encode() + b"\n\n"
    )
    assert reader.end().complete_tool_call


def test_gemini_calls_that_continue_end_with_an_unnamed_part() -> None:
    reader = dialect("gemini").reader()
    for part in ({"name": "f", "willContinue": True}, {"willContinue": True}, {}):
        reader.feed(b"data: " + json.dumps(gemini({"functionCall": part}, finish="")).encode() + b"\n\n")
    assert reader.end().complete_tool_call
