"""Is this answer good? Every way in which one can come, byte by byte, on a clock of our own."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.deadlines import Deadlines
from omniroute_addon.dialects import dialect
from omniroute_addon.settings import Settings
from omniroute_addon.testing.answers import good
from omniroute_addon.testing.calls import make_call
from omniroute_addon.watch import JUDGED_BYTES, Commit, Decision, Fail, Watch

SSE = (b"content-type", b"text/event-stream")
JSON = (b"content-type", b"application/json")
DIALECTS: list[Any] = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]


def sse(payload: Any, event: str = "") -> bytes:
    text = payload if isinstance(payload, bytes) else json.dumps(payload, separators=(",", ":")).encode()
    return (f"event: {event}\n".encode() if event else b"") + b"data: " + text + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"object": "chat.completion.chunk", "choices": [choice]})


def tool(arguments: str) -> bytes:
    function = {"name": "f", "arguments": arguments}
    return chunk({"tool_calls": [{"index": 0, "id": "c", "function": function}]})


DONE = sse(b"[DONE]")
ROLE, HI, STOP = chunk({"role": "assistant"}), chunk({"content": "hi"}), chunk({}, "stop") + DONE
ERROR = sse({"error": {"message": "slow down", "code": "rate_limit_exceeded"}})
PING = b": ping\n\n"


def watch(
    *,
    stream: bool = True,
    alternatives: bool = True,
    trusted: bool = False,
    speaks: Any = "openai-chat",
    **settings: Any,
) -> Watch:
    deadlines = Deadlines(
        call=make_call(stream=stream, dialect=speaks),
        settings=Settings(**settings),
        started_at=0.0,
        call_deadline_at=600.0,
        alternatives=alternatives,
    )
    return Watch(dialect=dialect(speaks), deadlines=deadlines, trusted=trusted)


def streaming(*, headers: tuple[tuple[bytes, bytes], ...] = (SSE,), **options: Any) -> Watch:
    """A watch that has seen a good head at 1."""
    found = watch(**options)
    found.head(200, headers, 1.0)
    return found


def whole(body: bytes, *, status: int = 200, headers: Any = (JSON,), **options: Any) -> Decision:
    """The decision on a body that came in one piece."""
    found = watch(**{"stream": False, **options})
    found.head(status, headers, 1.0)
    assert found.data(body, 2.0) is None
    return found.end()


def fault_of(decision: Decision) -> tuple[Any, ...]:
    assert isinstance(decision, Fail), decision
    answer = decision.answer
    return answer.fault, answer.status, answer.phase, decision.cancel


# ---------------------------------------------------------------- error status


def test_an_error_status_is_held_whole_and_judged_at_its_end() -> None:
    found = watch()
    found.head(429, (JSON, (b"Retry-After", b"7")), 1.0)
    assert found.data(b'{"error":', 2.0) is None
    assert found.data(b"{}}", 3.0) is None
    decision = found.end()
    assert isinstance(decision, Fail)
    answer, raw = decision.answer, decision.raw
    assert (answer.status, answer.body, answer.phase, answer.fault) == (429, b'{"error":{}}', "body", None)
    assert answer.headers == {"content-type": "application/json", "retry-after": "7"} and not answer.stream
    assert raw is not None
    assert (raw.status, raw.headers, raw.body, raw.partial) == (429, found.headers, b'{"error":{}}', False)
    assert not decision.cancel


@pytest.mark.parametrize(
    ("status", "mode"), [(399, "body"), (400, "error"), (599, "error"), (201, "body"), (200, "sniff")]
)
def test_an_error_is_a_status_from_400_on(status: int, mode: str) -> None:
    found = watch()
    found.head(status, (), 1.0)
    assert found.mode == mode


def test_a_coded_error_is_judged_decoded_and_kept_as_it_came() -> None:
    coded = gzip.compress(b'{"error": "x"}')
    decision = whole(coded, status=500, headers=((b"content-encoding", b"gzip"),))
    assert isinstance(decision, Fail) and decision.raw is not None
    assert (decision.answer.body, decision.raw.body) == (b'{"error": "x"}', coded)


def test_rules_see_only_the_beginning_of_a_long_error_and_the_client_all_of_it() -> None:
    body = b"x" * (JUDGED_BYTES + 10)
    decision = whole(body, status=500)
    assert isinstance(decision, Fail) and decision.raw is not None
    assert (len(decision.answer.body), decision.raw.body) == (JUDGED_BYTES, body)


def test_an_error_that_is_an_event_stream_is_told_to_be_one() -> None:
    decision = whole(ERROR, status=400, headers=(SSE,))
    assert isinstance(decision, Fail) and decision.answer.stream


def test_an_endless_error_is_judged_by_what_there_is() -> None:
    found = watch(held_body_bytes=65_536)
    found.head(500, (), 1.0)
    assert found.data(b"x" * 65_536, 2.0) is None
    decision = found.data(b"y", 3.0)
    assert isinstance(decision, Fail) and decision.raw is not None
    assert (decision.raw.partial, decision.cancel, len(decision.raw.body)) == (True, True, 65_537)
    assert found.release() == Commit(b"x" * 65_536 + b"y")
    assert found.relay(b"z", 4.0) == b"z" and found.streams and not found.complete
    found.ended = True
    assert found.complete


def test_an_error_whose_body_breaks_off_is_still_that_error() -> None:
    found = watch()
    found.head(503, (), 1.0)
    found.data(b"half", 2.0)
    decision = found.broke("reset by peer", "reset")
    assert (decision.answer.status, decision.answer.body, decision.answer.fault) == (503, b"half", None)
    assert decision.raw is not None and not decision.cancel


def test_an_errors_body_that_takes_too_long_is_judged_by_what_there_is() -> None:
    found = watch(alternatives=False)
    found.head(429, (), 1.0)
    found.data(b"half", 2.0)
    assert found.wake_at() == 16.0
    assert found.expired(15.9) is None
    decision = found.expired(16.0)
    assert isinstance(decision, Fail) and (decision.answer.status, decision.cancel) == (429, True)


# ---------------------------------------------------------------- whole bodies


GOOD = b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'
EMPTY = GOOD.replace(b'"hi"', b"null")


def test_a_good_body_is_released_whole_and_unchanged() -> None:
    assert whole(GOOD) == Commit(GOOD)


def test_a10_an_error_inside_a_200_is_a_failure_with_the_status_it_implies() -> None:
    """A10, SR-21: the answer's own facts stay, its body is the error."""
    body = b'{"error":{"message":"slow down","code":"rate_limit_exceeded"}}'
    fields = (JSON, (b"X-Request-Id", b"r1"), (b"Content-Length", b"62"), (b"Cache-Control", b"no-cache"))
    decision = whole(body, headers=(*fields, (b"content-encoding", b"identity")))
    assert fault_of(decision) == (None, 200, "body", False)
    assert isinstance(decision, Fail) and decision.raw is not None
    assert decision.answer.body == body and decision.answer.headers["x-request-id"] == "r1"
    assert (decision.raw.status, json.loads(decision.raw.body)) == (429, json.loads(body))
    assert decision.raw.headers == ((b"X-Request-Id", b"r1"), JSON)


@pytest.mark.parametrize(
    ("body", "fault"), [(EMPTY, "empty"), (b"", "empty"), (GOOD[:-9], "truncated"), (b"<html>", "not_json")]
)
def test_a16_a_body_without_an_answer_in_it_is_a_failure(body: bytes, fault: str) -> None:
    """A16."""
    assert fault_of(whole(body)) == (fault, 502, "body", False)
    assert isinstance(decision := whole(body), Fail) and decision.raw is None and decision.answer.body


def test_st_62_an_empty_turn_of_the_providers_own_door_may_be_meant() -> None:
    """ST-62: only an empty turn; an error and a cut body are failures whoever sent them."""
    assert whole(EMPTY, trusted=True) == Commit(EMPTY)
    assert isinstance(whole(b"", trusted=True), Fail)
    assert isinstance(whole(GOOD[:-9], trusted=True), Fail)
    assert isinstance(whole(b'{"error":{"message":"no"}}', trusted=True), Fail)


def test_a_coded_body_is_judged_decoded_and_released_as_it_came() -> None:
    coding = (JSON, (b"content-encoding", b"gzip"))
    assert whole(gzip.compress(GOOD), headers=coding) == Commit(gzip.compress(GOOD))
    assert fault_of(whole(gzip.compress(EMPTY), headers=coding))[0] == "empty"


@pytest.mark.parametrize("status", [204, 206, 302])
def test_other_statuses_below_400_are_not_judged(status: int) -> None:
    found = watch(stream=False)
    found.head(status, (), 1.0)
    assert found.end() == Commit(b"")


def test_a_very_large_body_goes_on_unwatched() -> None:
    found = watch(stream=False, held_body_bytes=65_536)
    found.head(200, (JSON,), 1.0)
    assert found.data(b"x" * 65_536, 2.0) is None and not found.streams
    assert found.data(b"y", 3.0) == Commit(b"x" * 65_536 + b"y")
    assert found.relay(b"z", 4.0) == b"z" and found.streams and found.rest() == b""
    assert (found.error, found.problem, found.mendable) == (None, None, False)


# ---------------------------------------------------------------- streams before commit


@given(st.lists(st.integers(1, 40), max_size=30))
def test_st_13_whatever_the_cuts_the_client_gets_every_byte_first_and_unchanged(sizes: list[int]) -> None:
    """ST-10, ST-13."""
    text = PING + ROLE + HI + chunk({"content": " there"}) + STOP
    found, out, position, committed = streaming(), b"", 0, False
    for size in [*sizes, len(text)]:
        piece, position = text[position : position + size], position + size
        if committed:
            out += found.relay(piece, 2.0)
        elif isinstance(decision := found.data(piece, 2.0), Commit):
            out, committed = out + decision.held, True
        else:
            assert decision is None
        assert out == text[: len(out)]
    assert committed and found.complete
    assert out + found.rest() == text


@pytest.mark.parametrize("name", DIALECTS)
def test_st_11_a_stream_is_ready_at_its_first_useful_frame(name: Any) -> None:
    """ST-11, ST-12 (mode `output`)."""
    text = b"".join(step for step in good(name, "Hello there").steps if isinstance(step, bytes))
    found, before = streaming(speaks=name), 0
    for position in range(len(text)):
        if found.data(text[position : position + 1], 2.0) is not None:
            before = position
            break
    assert b"Hello" in text[: before + 1] and found.committed


def test_st_11_heartbeats_and_lifecycle_are_held() -> None:
    """ST-11: nothing of it is useful."""
    found = streaming()
    assert [found.data(piece, 2.0) for piece in (PING, DONE[:5], ROLE[:9])] == [None] * 3
    assert not found.committed


@pytest.mark.parametrize("useful", [chunk({"reasoning_content": "hm"}), HI, tool("{"), sse(b"not json")])
def test_output_and_readable_reasoning_are_useful(useful: bytes) -> None:
    assert streaming().data(ROLE + useful, 2.0) == Commit(ROLE + useful)


def test_silent_reasoning_is_not_useful_by_itself() -> None:
    assert streaming().data(chunk({"reasoning_content": ""}), 2.0) is None


@pytest.mark.parametrize("frame", [ROLE, chunk({"reasoning_content": ""})])
def test_st_11_in_mode_event_any_structured_frame_is_enough(frame: bytes) -> None:
    """ST-11."""
    found = streaming(readiness_mode="event")
    assert found.data(PING, 2.0) is None
    assert found.data(frame, 2.0) == Commit(PING + frame)


def test_a12_an_error_before_anything_useful_is_a_failure_and_nothing_leaks() -> None:
    """A12, ST-29, ST-34."""
    found = streaming(headers=(SSE, (b"x-request-id", b"r1"), (b"transfer-encoding", b"chunked")))
    assert found.data(PING + PING, 2.0) is None
    assert found.data(sse({}, "ping") + ROLE, 3.0) is None
    decision = found.data(ERROR, 4.0)
    assert fault_of(decision) == (None, 200, "stream", True)
    assert isinstance(decision, Fail) and decision.raw is not None
    assert decision.answer.stream and decision.answer.body.endswith(ERROR)
    assert (decision.raw.status, decision.raw.headers) == (429, ((b"x-request-id", b"r1"), JSON))
    assert b"slow down" in decision.raw.body
    assert not found.committed


def test_an_error_right_behind_a_lifecycle_frame_in_mode_event_is_still_a_failure_when_it_came_first() -> None:
    found = streaming(readiness_mode="event")
    assert isinstance(found.data(ERROR + ROLE, 2.0), Fail)


def test_st_35_an_error_behind_output_in_one_piece_is_the_clients() -> None:
    """ST-35: committed with the output, and known to be an error."""
    found = streaming()
    assert found.data(HI + ERROR, 2.0) == Commit(HI + ERROR)
    assert found.error is not None and found.error.status == 429


def test_a_failed_stream_at_its_end_has_nothing_to_cancel() -> None:
    found = streaming()
    assert found.data(ERROR[:-2], 2.0) is None
    assert fault_of(found.end()) == (None, 200, "stream", False)


@pytest.mark.parametrize(
    ("frames", "fault"),
    [(b"", "truncated"), (PING, "truncated"), (ROLE, "truncated"), (ROLE + STOP[:-30], "truncated")],
)
def test_st_23_a_stream_that_ends_before_it_was_ready_is_a_failure(frames: bytes, fault: str) -> None:
    """ST-23, A15."""
    found = streaming()
    assert found.data(frames, 2.0) is None
    assert fault_of(found.end()) == (fault, 502, "stream", False)


def test_st_67_an_empty_turn_is_a_failure_as_soon_as_it_is_over() -> None:
    """ST-67, A16: not released by the grace of its lifecycle frames."""
    assert fault_of(streaming().data(ROLE + STOP, 2.0)) == ("empty", 502, "stream", True)


def test_st_62_an_empty_turn_of_the_providers_own_door_is_released_at_its_end() -> None:
    """ST-62, ST-70."""
    found = streaming(trusted=True)
    assert found.data(ROLE + STOP, 2.0) is None
    assert found.end() == Commit(ROLE + STOP)
    assert found.complete and found.rest() == b""


def test_a18_half_a_tool_call_in_one_piece_is_a_failure_before_commit() -> None:
    """A18 (b): never a success, trusted or not."""
    half = tool('{"a":') + chunk({}, "tool_calls") + DONE
    assert fault_of(streaming().data(half, 2.0)) == ("half_tool_call", 502, "stream", True)
    assert fault_of(streaming(trusted=True).data(half, 2.0)) == ("half_tool_call", 502, "stream", True)
    entire = tool('{"a":1}') + chunk({}, "tool_calls") + DONE
    assert streaming().data(entire, 2.0) == Commit(entire)


def test_a_last_frame_without_a_blank_line_is_held_and_judged_at_the_end() -> None:
    found = streaming()
    assert (
        found.data(
            ROLE + sse({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})[:-2], 2.0
        )
        is None
    )
    decision = found.end()
    assert decision == Commit(ROLE) and found.complete
    assert (
        ROLE + found.rest()
        == ROLE + sse({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]})[:-2]
    )


def test_a_stream_of_nothing_useful_is_released_when_it_grows_too_long_to_be_judged() -> None:
    found, frame = streaming(), b": " + b"x" * 1000 + b"\n\n"
    decisions = [found.data(frame, 2.0) for _ in range(JUDGED_BYTES // len(frame) + 1)]
    assert decisions[:-1] == [None] * (len(decisions) - 1)
    assert isinstance(decisions[-1], Commit) and len(decisions[-1].held) > JUDGED_BYTES


# ---------------------------------------------------------------- mislabelled


@pytest.mark.parametrize(
    "start",
    [b"data: ", b"event: x\ndata: ", b": hi\n\ndata: ", b"\xef\xbb\xbfdata: ", b"\r\n\r\ndata: ", b"id: 1\ndata: "],
)
def test_a_stream_under_a_wrong_label_is_watched_as_one(start: bytes) -> None:
    found = streaming(headers=(JSON,))
    text = start + ERROR[len(b"data: ") :]
    decisions = [found.data(text[i : i + 1], 2.0) for i in range(len(text))]
    assert isinstance(next(d for d in decisions if d is not None), Fail)
    assert found.mode == "stream"


def test_a10_an_error_as_bare_json_for_a_streamed_call_is_judged_as_a_body() -> None:
    """A10: Gemini's and many gateways' way."""
    found = streaming(headers=(JSON,))
    assert [found.data(bytes([c]), 2.0) for c in b'{"error":{"message":"no","code":429}}'] == [None] * 37
    assert found.mode == "body"
    assert isinstance(found.end(), Fail)


@pytest.mark.parametrize("body", [b"date", b"identity", b"evening", b"d", b"", b"  "])
def test_what_only_begins_like_a_stream_is_none(body: bytes) -> None:
    found = streaming(headers=())
    assert found.data(body, 2.0) is None
    assert isinstance(found.end(), Fail)


def test_a_json_array_is_a_stream_only_where_the_dialect_says_so() -> None:
    array = streaming(headers=(JSON,), speaks="gemini")
    array.data(b"[", 2.0)
    assert array.mode == "stream"
    other = streaming(headers=(JSON,))
    other.data(b"[", 2.0)
    assert other.mode == "body"


def test_a_coded_answer_is_not_sniffed() -> None:
    found = streaming(headers=((b"content-encoding", b"gzip"),))
    found.data(b"data: {}\n\n", 2.0)
    assert found.mode == "body"
    plain = streaming(headers=((b"content-encoding", b"gzip"),))
    plain.data(gzip.compress(GOOD), 2.0)
    assert plain.mode == "body" and plain.end() == Commit(gzip.compress(GOOD))


# ---------------------------------------------------------------- coded streams


class Coder:
    """Codes piece by piece, as a server that flushes does."""

    def __init__(self) -> None:
        self._object = zlib.compressobj(wbits=31)

    def __call__(self, text: bytes, *, last: bool = False) -> bytes:
        return self._object.compress(text) + self._object.flush(zlib.Z_FINISH if last else zlib.Z_SYNC_FLUSH)


CODED = (SSE, (b"content-encoding", b"gzip"))


def test_a_coded_stream_is_watched_decoded_and_passed_as_it_came() -> None:
    code, found = Coder(), streaming(headers=CODED)
    first, second = code(ROLE), code(HI)
    assert found.data(first, 2.0) is None
    assert found.data(second, 3.0) == Commit(first + second)
    rest = code(STOP, last=True)
    assert found.relay(rest, 4.0) == rest
    assert (found.complete, found.rest(), found.mendable) == (True, b"", False)


def test_an_error_in_a_coded_stream_is_judged_decoded() -> None:
    decision = streaming(headers=CODED).data(Coder()(PING + ERROR), 2.0)
    assert isinstance(decision, Fail) and decision.answer.body == PING + ERROR


def test_st_62_an_empty_coded_turn_that_is_meant_gets_no_plain_bytes_behind_it() -> None:
    """ST-62: what the reader kept back went out in the coded bytes already."""
    code, found = Coder(), streaming(headers=CODED, trusted=True)
    found.data(code(ROLE), 2.0)
    assert isinstance(found.expired(4.0), Commit)
    rest = code(STOP, last=True)
    assert found.relay(rest, 5.0) == rest and found.complete


def test_a_coding_that_we_cannot_read_is_passed_on_unwatched() -> None:
    found = streaming(headers=(SSE, (b"content-encoding", b"made-up")))
    assert found.mode == "plain"
    assert found.data(b"\x01\x02", 2.0) is None
    assert found.end() == Commit(b"\x01\x02")


@pytest.mark.parametrize("held", [True, False])
def test_bytes_that_are_not_what_their_coding_says_are_passed_on_unwatched(held: bool) -> None:
    found = streaming(headers=CODED)
    good_start = b"" if held else Coder()(HI)
    if not held:
        assert isinstance(found.data(good_start, 2.0), Commit)
        assert found.relay(b"\xff" * 40, 3.0) == b"\xff" * 40
    else:
        assert found.data(b"not gzip", 2.0) == Commit(b"not gzip")
    assert found.mode == "plain" and found.relay(b"more", 4.0) == b"more"


# ---------------------------------------------------------------- the connection breaks


@pytest.mark.parametrize(
    ("mode", "phase"), [("head", "head"), ("stream", "stream"), ("body", "body"), ("sniff", "body")]
)
def test_st_24_a_broken_connection_is_a_fault_of_its_phase(mode: str, phase: str) -> None:
    """ST-24."""
    found = watch(stream=mode != "body")
    if mode != "head":
        found.head(200, (SSE,) if mode == "stream" else (), 1.0)
    assert found.mode == mode
    decision = found.broke("peer said \ud800" + "x" * 600, "reset")
    assert fault_of(decision) == ("reset", 0, phase, False)
    assert decision.raw is None and len(decision.answer.body) == 500 and decision.answer.body.startswith(b"peer said ?")


# ---------------------------------------------------------------- deadlines


def test_a15_a_head_that_does_not_come_is_a_timeout() -> None:
    """A15 (a)."""
    found = watch(head_timeout_ms=5_000)
    assert found.wake_at() == 5.0
    assert found.expired(4.999) is None
    assert fault_of(found.expired(5.0)) == ("timeout:head", 0, "head", True)


def test_a15_a_stream_of_heartbeats_only_times_out() -> None:
    """A15 (a), ST-22."""
    found = streaming(readiness_timeout_ms=5_000, readiness_max_timeout_ms=7_000)
    assert found.wake_at() == 6.0
    assert found.data(PING, 3.0) is None
    assert (found.wake_at(), found.expired(7.9)) == (8.0, None)
    found.data(PING, 7.5)
    decision = found.expired(8.0)
    assert fault_of(decision) == ("timeout:readiness", 0, "stream", True)
    assert isinstance(decision, Fail) and decision.answer.body.startswith(b"STREAM_READINESS_TIMEOUT")


def test_rule_4_a_late_stream_without_alternatives_is_released_instead_of_failed() -> None:
    """`spec/README.md`, rule 4."""
    found = streaming(alternatives=False, readiness_timeout_ms=5_000)
    found.data(PING, 3.0)
    assert found.expired(8.0) == Commit(PING)
    assert found.committed and not found.complete


def test_lifecycle_frames_are_released_after_their_grace() -> None:
    found = streaming(lifecycle_grace_ms=2_000)
    found.data(ROLE, 3.0)
    found.data(ROLE, 4.0)
    assert (found.wake_at(), found.expired(4.9)) == (5.0, None)
    assert found.expired(5.0) == Commit(ROLE + ROLE)


def test_the_grace_gives_out_whole_frames_only() -> None:
    found = streaming()
    found.data(ROLE + HI[:7], 3.0)
    assert found.expired(5.0) == Commit(ROLE)
    assert found.mendable
    assert found.relay(HI[7:] + STOP, 6.0) == HI + STOP and found.complete


def test_st_38_a_committed_stream_that_falls_silent_is_stalled() -> None:
    """ST-37, ST-38: heartbeats and metadata do not count."""
    found = streaming(idle_timeout_ms=10_000)
    found.data(HI, 2.0)
    found.relay(HI, 5.0)
    assert found.wake_at() == 15.0
    for at, quiet in ((6.0, PING), (7.0, sse({"choices": [], "usage": {}}))):
        found.relay(quiet, at)
    assert found.wake_at() == 15.0
    assert fault_of(found.expired(15.0)) == ("timeout:idle", 0, "stream", True)


def test_bytes_of_an_unfinished_frame_are_activity() -> None:
    """ST-37."""
    found = streaming(idle_timeout_ms=10_000)
    found.data(HI, 2.0)
    found.relay(HI[:9], 5.0)
    assert found.wake_at() == 15.0


def test_any_byte_of_an_unwatched_answer_is_activity() -> None:
    found = watch(stream=False, idle_timeout_ms=10_000)
    found.head(200, (), 1.0)
    found.release()
    found.relay(b"x", 5.0)
    assert found.wake_at() == 15.0


def test_the_first_deadline_that_has_passed_decides() -> None:
    """ST-44."""
    found = streaming(lifecycle_grace_ms=2_000, attempt_deadline_ms=4_000)
    found.data(ROLE, 3.0)
    assert fault_of(found.expired(100.0))[0] == "timeout:attempt"


def test_st_39_the_attempts_ceiling_ends_a_stream_without_alternatives_too() -> None:
    """ST-39, ST-40."""
    found = streaming(alternatives=False, attempt_deadline_ms=4_000)
    found.data(HI, 3.0)
    assert fault_of(found.expired(4.0)) == ("timeout:attempt", 0, "stream", True)


def test_without_a_deadline_nothing_wakes() -> None:
    off = {"attempt_deadline_ms": 0, "head_timeout_ms": 0, "readiness_timeout_ms": 0}
    found = watch(alternatives=False, **off)
    assert (found.wake_at(), found.expired(1e12)) == (float("inf"), None)


# ---------------------------------------------------------------- after commit


def committed(*, trusted: bool = False, speaks: Any = "openai-chat") -> Watch:
    found = streaming(trusted=trusted, speaks=speaks)
    found.data(ROLE, 2.0)
    assert isinstance(found.expired(4.0), Commit)
    return found


def test_a16_an_empty_turn_after_commit_is_kept_back_and_named() -> None:
    """A16, ST-67."""
    found = committed()
    assert found.relay(STOP, 5.0) == b""
    assert found.problem is not None and found.problem.kind == "empty"
    assert not found.complete


def test_st_62_an_empty_turn_after_commit_may_be_meant() -> None:
    """ST-62."""
    found = committed(trusted=True)
    assert found.relay(STOP, 5.0) == STOP
    assert found.problem is None and found.complete


def test_a18_half_a_tool_call_after_commit_is_never_meant() -> None:
    """A18: the end marker is kept back, an error follows."""
    found = committed(trusted=True)
    assert found.relay(tool('{"a":'), 5.0) == tool('{"a":')
    assert found.relay(chunk({}, "tool_calls"), 6.0) == b""
    assert found.problem is not None and found.problem.kind == "half_tool_call" and not found.complete


def test_st_35_an_error_after_commit_passes_unchanged_and_is_known() -> None:
    """ST-35."""
    found = committed()
    assert found.error is None
    assert found.relay(ERROR, 5.0) == ERROR
    assert found.error is not None and found.error.code == "rate_limit_exceeded"


def test_an_error_before_commit_is_the_engines_not_the_clients() -> None:
    found = streaming()
    found.data(ERROR, 2.0)
    assert found.error is None


def test_st_30_the_end_marker_makes_an_answer_complete_whatever_comes_after() -> None:
    """ST-30, ST-127: ended or not."""
    found = committed()
    found.relay(HI, 5.0)
    assert not found.complete
    found.relay(STOP, 6.0)
    assert found.complete
    found.ended = True
    assert found.complete


def test_an_end_marker_without_its_blank_line_counts_at_the_end() -> None:
    last = chunk({}, "stop")[:-1]
    found = committed()
    found.relay(HI, 5.0)
    assert found.relay(last, 6.0) == b"" and not found.complete
    found.ended = True
    assert found.complete and found.rest() == last


def test_a15_an_end_without_an_end_marker_is_incomplete() -> None:
    """A15 (b)."""
    found = committed()
    found.relay(HI, 5.0)
    found.ended = True
    assert not found.complete


@pytest.mark.parametrize("name", DIALECTS)
def test_st_31_a_broken_stream_ends_with_an_error_in_its_dialect(name: Any) -> None:
    """ST-31, ST-32, ST-59."""
    text = b"".join(step for step in good(name, "Hello there").steps if isinstance(step, bytes))
    found = streaming(speaks=name)
    assert isinstance(found.data(text[: text.rindex(b"\n\n", 0, text.rindex(b"data:")) + 2], 2.0), Commit)
    assert found.mendable
    closing = found.closing("it broke", 503)
    assert closing.endswith(b"\n\n") and b"it broke" in closing
    assert b"error" in closing or b"response.failed" in closing


def test_st_59_a_long_frame_that_went_out_in_part_cannot_be_mended() -> None:
    """ST-59: an error frame may only stand between two whole frames."""
    found = committed()
    long = b'data: {"choices":[{"delta":{"content":"' + b"x" * 70_000
    assert found.relay(long, 5.0) == long
    assert not found.mendable
