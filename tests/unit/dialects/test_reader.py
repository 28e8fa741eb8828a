"""The stream reader: before commit frame by frame, after it by byte scan, with the same account of the turn."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.dialects import ClientError, FrameClass, StreamReader, dialect
from omniroute_addon.model import DIALECTS, DialectName


def sse(*payloads: dict[str, Any] | str, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    texts = (p if isinstance(p, str) else json.dumps(p, separators=(",", ":"), ensure_ascii=False) for p in payloads)
    return "".join(f"{head}data: {text}\n\n" for text in texts).encode()


def chunk(finish: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def call(arguments: str, index: int = 0) -> dict[str, Any]:
    return chunk(tool_calls=[{"index": index, "function": {"name": "f", "arguments": arguments}}])


def text_delta(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


TRICKY = 'say "finish_reason":"stop" and data: [DONE] "error" "delta": é 漢'
CHAT = sse(chunk(role="assistant"), chunk(content="Hi"), chunk(content=TRICKY), chunk("stop"), "[DONE]")
ANTHROPIC = b"".join(
    [
        sse({"type": "message_start", "message": {"content": []}}, name="message_start"),
        sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        sse({"type": "ping"}, name="ping"),
        sse(text_delta("Hi"), name="content_block_delta"),
        sse(text_delta('{"type":"message_stop"} event: error'), name="content_block_delta"),
        sse({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, name="message_delta"),
        sse({"type": "message_stop"}, name="message_stop"),
    ]
)
RESPONSES = sse(
    {"type": "response.created", "response": {"status": "in_progress"}},
    {"type": "response.output_text.delta", "delta": "Hi", "sequence_number": 1},
    {"type": "response.output_text.delta", "delta": '"type":"response.completed"', "sequence_number": 2},
    {"type": "response.completed", "response": {"status": "completed", "output": []}, "sequence_number": 3},
)
GEMINI = sse(
    {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]},
    {"candidates": [{"content": {"parts": [{"text": '"finishReason":"STOP"'}]}}]},
    {"candidates": [{"content": {"parts": [{"text": "."}]}, "finishReason": "STOP"}]},
).replace(b"\n", b"\r\n")
GEMINI_ARRAY = (
    b'[{"candidates": [{"content": {"parts": [{"text": "H}]\\"i"}]}}]}'
    b'\n,\r\n{"candidates": [{"finishReason": "STOP"}]}\n]'
)
CHAT_ERROR = sse(chunk(content="Hi"), chunk(content=TRICKY), {"error": {"message": "m", "code": 429}})
STREAMS: list[tuple[DialectName, bytes]] = [
    ("openai-chat", CHAT),
    ("openai-chat", CHAT_ERROR),
    ("anthropic-messages", ANTHROPIC),
    ("openai-responses", RESPONSES),
    ("gemini", GEMINI),
    ("gemini", GEMINI_ARRAY),
    ("gemini", GEMINI[:60] + b"\r\n\r\n"),
]


def chunks(whole: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(whole)]
    return [whole[a:b] for a, b in pairwise(edges)]


def facts(reader: StreamReader) -> tuple[object, ...]:
    end = reader.end()
    problem = end.problem.kind if end.problem else None
    return (end.terminal, end.output, end.finish, end.opened, end.error, problem, end.open_tool_call)


@pytest.mark.parametrize(("name", "whole"), STREAMS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_any_cut_gives_the_same_frames_and_the_same_end(name: DialectName, whole: bytes, data: st.DataObject) -> None:
    """ST-1"""
    once, often = dialect(name).reader(), dialect(name).reader()
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8))
    assert [frame for part in chunks(whole, cuts) for frame in often.feed(part)] == once.feed(whole)
    assert facts(often) == facts(once)


@pytest.mark.parametrize(("name", "whole"), STREAMS)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_relay_gives_out_every_byte_and_notices_what_feed_notices(
    name: DialectName, whole: bytes, data: st.DataObject
) -> None:
    """ST-13, ST-35: the switch from `feed` to `relay` may be at any byte."""
    plain = dialect(name).reader()
    plain.feed(whole)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=8))
    commit = data.draw(st.integers(0, 9))
    reader, kept, out = dialect(name).reader(), b"", b""
    for number, part in enumerate(chunks(whole, cuts)):
        if number < commit:
            reader.feed(part)
            kept += part
            out = kept[: len(kept) - reader.pending]
        else:
            out += reader.relay(part)
            assert not reader.mid_frame
    end = reader.end()
    assert out + end.leftover == whole
    assert facts(reader) == facts(plain)


@pytest.mark.parametrize("size", [1, 5, 70, 4000])
def test_st_2_a_long_frame_is_output_and_its_end_marker_is_found(size: int) -> None:
    for name, whole, finish in [
        ("openai-chat", sse(chunk("stop", content="x" * 500)), "stop"),
        (
            "gemini",
            sse({"candidates": [{"content": {"parts": [{"text": "x" * 500}]}, "finishReason": "STOP"}]}),
            "STOP",
        ),
        ("anthropic-messages", sse({"x": "y" * 500, "delta": {"stop_reason": "end_turn"}}), "end_turn"),
        ("openai-responses", sse({"type": "response.completed", "response": {"output": "x" * 500}}), "completed"),
    ]:
        reader = StreamReader(dialect(name), limit=100)  # type: ignore[arg-type]
        out = b"".join(reader.relay(part) for part in chunks(whole, list(range(size, len(whole), size))))
        assert out == whole
        assert reader.output and reader.terminal and not reader.mid_frame
        assert reader.end().finish == finish


def test_st_2_bytes_of_a_long_frame_are_released_and_it_is_known_that_the_client_is_inside_it() -> None:
    reader = StreamReader(dialect("openai-chat"), limit=10)
    assert reader.relay(b"data: x") == b""
    assert reader.relay(b"yyyyyyyy") == b"data: xyyyyyyyy"
    assert reader.mid_frame
    assert reader.end().mid_frame
    assert reader.relay(b"\n\n") == b"\n\n"
    assert not reader.mid_frame


def test_st_7_a_long_frame_whose_head_says_what_it_is_is_no_output() -> None:
    for name, payload, cls in [
        ("openai-responses", {"type": "response.created", "response": {"instructions": "x" * 900}}, "D"),
        ("openai-responses", {"item": {"type": "reasoning", "encrypted_content": "x" * 900}}, "C"),
        ("anthropic-messages", {"delta": {"type": "signature_delta", "signature": "x" * 900}}, "C"),
        ("anthropic-messages", {"type": "message_start", "x": "x" * 900}, "D"),
    ]:
        reader = StreamReader(dialect(name), limit=600)  # type: ignore[arg-type]
        frames = [frame for part in chunks(sse(payload), [700]) for frame in reader.feed(part)]
        assert {frame.cls.value for frame in frames} == {cls}
        assert not reader.output


def test_a12_nothing_before_an_error_event_is_output() -> None:
    reader = dialect("openai-chat").reader()
    frames = reader.feed(b": OPENROUTER PROCESSING\n\n: x\n\nevent: ping\ndata: {}\n\n" + sse({"error": {"code": 429}}))
    assert [frame.cls.value for frame in frames] == ["H", "H", "H", "E"]
    assert reader.error is not None and reader.error.status == 429
    assert not reader.output and reader.activity == 0


def test_a15_text_without_an_end_marker_is_truncated() -> None:
    reader = dialect("openai-chat").reader()
    reader.feed(sse(chunk(content="Hi")) + b'data: {"choices":[{"del')
    end = reader.end()
    assert end.problem is not None and end.problem.kind == "truncated"
    assert end.leftover == b'data: {"choices":[{"del'
    assert end.output and not end.terminal


def test_an_end_marker_without_its_blank_line_counts() -> None:
    for name, rest in [
        ("openai-chat", b"data: [DONE]"),
        ("openai-chat", b"data: [DONE]\n"),
        ("anthropic-messages", b'event: message_stop\ndata: {"type":"message_stop"}'),
    ]:
        reader = dialect(name).reader()  # type: ignore[arg-type]
        reader.feed(sse(chunk(content="Hi"), text_delta("Hi")) + rest)
        end = reader.end()
        assert end.terminal and end.leftover == rest


def test_a_bare_error_at_the_end_is_found() -> None:
    """Gemini sends one outside any data line."""
    reader = dialect("gemini").reader()
    reader.feed(GEMINI[:60] + b"\r\n\r\n" + b'{\n  "error": {\n    "code": 503,\n    "status": "UNAVAILABLE"\n  }\n}\n')
    end = reader.end()
    assert end.error is not None and end.error.status == 503 and end.problem is None


@pytest.mark.parametrize("output_first", [True, False])
def test_a18_a_turn_that_ends_inside_a_tool_call_is_kept_back(output_first: bool) -> None:
    reader = dialect("openai-chat").reader()
    head = sse(chunk(content="Hi"), call('{"a": ')) if output_first else sse(call('{"a": '))
    assert reader.relay(head) == head
    tail = sse(chunk("tool_calls"), "[DONE]")
    assert reader.relay(tail) == b""
    assert reader.problem is not None and reader.problem.kind == "half_tool_call" and not reader.problem.trustable
    end = reader.end()
    assert end.problem == reader.problem and end.leftover == tail and end.open_tool_call


def test_st_67_an_empty_turn_is_kept_back_and_released_on_trust() -> None:
    reader = dialect("openai-chat").reader()
    head, tail = sse(chunk(role="assistant")), sse(chunk("stop"))
    assert reader.relay(head) == head
    assert reader.relay(tail) == b""
    assert reader.problem is not None and reader.problem.kind == "empty" and reader.problem.trustable
    assert reader.release() == tail
    done = sse("[DONE]")
    assert reader.relay(done) == done
    end = reader.end()
    assert end.problem is None and end.leftover == b""


def test_st_35_an_error_after_commit_passes_unchanged() -> None:
    reader = dialect("anthropic-messages").reader()
    reader.feed(sse(text_delta("Hi")))
    error = sse({"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, name="error")
    assert reader.relay(sse(text_delta("x")) + error).endswith(error)
    assert reader.error is not None and reader.error.status == 529
    assert reader.end().problem is None


def test_st_37_heartbeats_and_metadata_are_no_activity() -> None:
    reader = dialect("anthropic-messages").reader()
    reader.feed(sse(text_delta("Hi")))
    for data, active in [
        (sse(text_delta("x")), True),
        (b": keep-alive\n\n", False),
        (sse({"type": "ping"}, name="ping"), False),
        (sse({"type": "content_block_stop", "index": 0}), False),
        (b": half a comm", False),
        (b"ent\n\n", False),
        (b"data: {", True),
    ]:
        before = reader.activity
        reader.relay(data)
        assert (reader.activity > before) is active, data


def test_an_ordinary_chunk_after_commit_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, payload in [
        ("openai-chat", chunk(content="x")),
        ("openai-responses", {"type": "response.output_text.delta", "delta": "x"}),
        ("anthropic-messages", text_delta("x")),
        ("gemini", {"candidates": [{"content": {"parts": [{"text": "x"}]}}]}),
    ]:
        reader = dialect(name).reader()  # type: ignore[arg-type]
        reader.feed(sse(payload))
        with monkeypatch.context() as patch:
            patch.setattr("omniroute_addon.dialects.base.json.loads", lambda *_: pytest.fail("parsed"))
            assert reader.relay(sse(payload, payload)) == sse(payload, payload)
            assert reader.relay(sse(payload)[:9]) + reader.relay(sse(payload)[9:]) == sse(payload)
            with_crlf = sse(payload).replace(b"\n", b"\r\n")
            assert reader.relay(with_crlf) == with_crlf


def test_white_space_before_the_stream_decides_nothing_and_is_bounded() -> None:
    reader = StreamReader(dialect("gemini"), limit=10)
    assert reader.feed(b"  ") == [] and reader.pending == 2
    assert reader.end().leftover == b"  "
    assert reader.feed(b"\n" * 10) != []
    assert reader.framing == "sse"


def test_st_31_a_stream_is_closed_in_its_own_framing_and_order() -> None:
    error = ClientError(status=502, message="m")
    array = dialect("gemini").reader()
    head = GEMINI_ARRAY[: GEMINI_ARRAY.index(b",\r\n{")]
    array.feed(head)
    assert array.framing == "json-array"
    closed = json.loads(head + array.closing(error))
    assert closed[-1]["error"]["code"] == 502
    responses = dialect("openai-responses").reader()
    responses.feed(RESPONSES)
    assert json.loads(responses.closing(error).partition(b"data: ")[2])["sequence_number"] == 4


def test_st_2_the_first_frame_may_be_long() -> None:
    reader = StreamReader(dialect("gemini"), limit=20)
    frames = reader.feed(b'[{"candidates": [{"content": {"parts": [{"inlineData": {"data": "AAAAAAAA')
    assert [frame.cls for frame in frames] == [FrameClass.OUTPUT]
    assert reader.mid_frame and reader.output


@pytest.mark.parametrize("name", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(
    parts=st.lists(
        st.binary(max_size=60) | st.sampled_from([CHAT, GEMINI, b"\n\n", b"data: ", b"[", b'{"a":']), max_size=6
    )
)
def test_any_bytes_are_relayed_and_never_raise(name: DialectName, parts: list[bytes]) -> None:
    reader = dialect(name).reader()
    out = b"".join(reader.relay(part) for part in parts)
    assert out + reader.end().leftover == b"".join(parts)
