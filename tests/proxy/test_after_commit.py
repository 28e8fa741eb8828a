"""What a client sees of an answer that goes wrong while it is being read: nothing is replayed, nothing looks whole."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from honesty import bytes_of, frames, is_error, payload

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import ToolCall, error_in_stream, good
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Close, Hang, Reply, Reset, ResetStream, Step
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
SETTINGS = {"own_credential": "never", "retry_pause_ms": 1, "retry_pause_max_ms": 2}
PROVIDERS: Mapping[str, str] = {"anthropic-messages": "anthropic", "gemini": "gemini"}
TEXT = "one two three four"
ENDINGS: Mapping[str, tuple[Step, ...]] = {
    "reset": (Reset(),),
    "stream reset": (ResetStream(2),),
    "close": (Close(),),
    "end without a marker": (),
}


async def two(
    open_stage: OpenStage, dialect: str, *, http2: bool = False, cooling: bool = False, **settings: Any
) -> Stage:
    """Two connections, so that a replay could happen; the first is asked first, again and again unless `cooling`."""
    config = {"settings": {**SETTINGS, **settings}}
    pair = [{"id": name, "priority": n, "disable_cooling": not cooling} for n, name in enumerate("ab")]
    return await open_stage(*pair, provider=PROVIDERS.get(dialect, "openai"), http2=http2, config=config)


def first_words(answer: Reply, word: bytes = b"two") -> tuple[Step, ...]:
    """The answer's events up to and with the first that has the word."""
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and word in step)
    return answer.steps[: at + 1]


def steps(answer: Reply, *chunks: Step) -> Reply:
    return replace(answer, body=b"", chunks=chunks, framing="chunked")


def told(dialect: str, frame: bytes) -> tuple[Any, Any]:
    """Kind and code (or status) of the error in the client's dialect (ST-32)."""
    said = payload(frame)
    match dialect:
        case "openai-chat":
            assert said["choices"] == [{"index": 0, "delta": {}, "finish_reason": "error"}]
            return said["error"]["type"], said["error"]["code"]
        case "openai-responses":
            assert frame.startswith(b"event: response.failed\n") and said["response"]["status"] == "failed"
            return said["response"]["error"]["type"], said["response"]["error"]["code"]
        case "anthropic-messages":
            assert frame.startswith(b"event: error\n") and said["type"] == "error"
            return said["error"]["type"], None
        case _:
            return said["error"]["status"], said["error"]["code"]


BROKEN = {
    "openai-chat": ("server_error", "server_error"),
    "openai-responses": ("server_error", "server_error"),
    "anthropic-messages": ("api_error", None),
}


async def test_a_broken_stream_ends_with_one_error_in_the_dialect(
    dialect: DialectName, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    """ST-31 to ST-33, A15 (b): at a frame's border, then the end; recorded, and not sent again."""
    answer = good(dialect, TEXT)
    shown = first_words(answer)
    half = answer.steps[len(shown)]
    assert isinstance(half, bytes)
    s = await two(open_stage, dialect, http2=http_versions[1])
    for number, ending in enumerate(ENDINGS.values(), 1):
        # Half an event more than the client may see.
        s.upstream.script(steps(answer, *shown, half[:20], *ending))
        seen = await s.ask(question(dialect), http2=http_versions[0])
        _is_mended(dialect, seen, shown)
        assert s.upstream.keys == ["sk-a"] * number
        assert "network" in (await s.proxy.finished(number)).comment


def _is_mended(dialect: str, seen: Exchange, shown: tuple[Step, ...]) -> None:
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    parts = frames(seen.body)
    behind = parts[len(shown) :]
    assert b"".join(parts[: len(shown)]) == b"".join(step for step in shown if isinstance(step, bytes))
    assert [is_error(part) for part in behind] == ([True, False] if dialect == "openai-chat" else [True])
    if dialect in BROKEN:
        assert told(dialect, behind[0]) == BROKEN[dialect]
    else:
        assert told(dialect, behind[0])[1] >= 500
    if dialect == "openai-chat":
        assert behind[1] == b"data: [DONE]\n\n"


CUT = {
    "openai-chat": "curl/8",
    "openai-responses": "codex_exec/0.171.0",
    "anthropic-messages": "curl/8",
    "gemini": "curl/8",
}


async def test_a_broken_stream_is_cut_for_a_client_that_goes_on_only_then(
    dialect: DialectName, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    """`clients.md`, 6: HTTP/1 closes without the last chunk, HTTP/2 resets; whole frames only, and not a word of ours."""
    answer = good(dialect, TEXT)
    shown = first_words(answer)
    half = answer.steps[len(shown)]
    assert isinstance(half, bytes)
    s = await two(open_stage, dialect, http2=http_versions[1])
    asked = question(dialect)
    asked = replace(asked, headers={**asked.headers, "user-agent": CUT[dialect]})
    for number, ending in enumerate(ENDINGS.values(), 1):
        s.upstream.script(steps(answer, *shown, half[:20], *ending))
        seen = await s.ask(asked, http2=http_versions[0])
        assert (seen.status, seen.end) == (200, "rst_stream" if http_versions[0] else "closed")
        assert seen.body == b"".join(step for step in shown if isinstance(step, bytes))
        assert s.upstream.keys == ["sk-a"] * number
        assert "network" in (await s.proxy.finished(number)).comment
    # The next request of the same client is answered as ever.
    s.upstream.script(answer)
    whole = await s.ask(asked, http2=http_versions[0])
    assert (whole.status, whole.end, whole.body) == (200, "complete", bytes_of(answer))


async def test_the_upstreams_own_error_is_forwarded_to_such_a_client_too(
    dialect: DialectName, open_stage: OpenStage
) -> None:
    """ST-35."""
    answer = error_in_stream(dialect, "The engine is overloaded.", after=2)
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and b"overloaded" in step)
    s = await two(open_stage, dialect)
    s.upstream.script(steps(answer, *answer.steps[: at + 1], Close()))
    asked = question(dialect)
    seen = await s.ask(replace(asked, headers={**asked.headers, "user-agent": CUT[dialect]}))
    assert (seen.status, seen.end) == (200, "complete")
    assert seen.body == b"".join(step for step in answer.steps[: at + 1] if isinstance(step, bytes))


async def test_what_happens_behind_the_last_event_is_nobodys_failure(
    dialect: DialectName, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    """ST-30: the client has had its terminal marker."""
    answer = good(dialect, TEXT)
    s = await two(open_stage, dialect, http2=http_versions[1])
    for number, ending in enumerate(ENDINGS.values(), 1):
        s.upstream.script(steps(answer, *answer.steps, *ending))
        seen = await s.ask(question(dialect), http2=http_versions[0])
        assert (seen.status, seen.end, seen.body) == (200, "complete", bytes_of(answer))
        assert s.upstream.keys == ["sk-a"] * number
        assert (await s.proxy.finished(number)).comment == "#1 a: answered 200"


@pytest.mark.parametrize("ending", ["reset", "close", "end without a marker"])
async def test_an_error_event_behind_text_is_forwarded_unchanged(
    ending: str, dialect: DialectName, open_stage: OpenStage
) -> None:
    """ST-35: nothing of ours is added, and the connection is learnt about."""
    code = "rate_limit_error" if dialect == "anthropic-messages" else None
    answer = error_in_stream(dialect, "Rate limit is exceeded. Try again in 17 seconds.", code=code, after=2)
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and b"Rate limit" in step)
    s = await two(open_stage, dialect, cooling=True)
    s.upstream.script([steps(answer, *answer.steps[: at + 1], *ENDINGS[ending]), good(dialect)])
    seen = await s.ask(question(dialect))
    assert (seen.status, seen.end) == (200, "complete")
    assert seen.body == b"".join(step for step in answer.steps[: at + 1] if isinstance(step, bytes))
    flow = await s.proxy.finished(1)
    assert s.upstream.keys == ["sk-a"] and "rate_limit" in flow.comment
    assert flow.comment.count("\n") == 0
    await s.ask(question(dialect))
    assert s.upstream.keys == ["sk-a", "sk-b"]


async def test_a_coded_stream_is_cut_and_not_ended(
    dialect: DialectName, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    """No frame can be put behind half a gzip member: the client must see that the message is not whole."""
    answer = good(dialect, TEXT)
    plain = b"".join(step for step in first_words(answer) if isinstance(step, bytes))
    packer = zlib.compressobj(wbits=31)
    begun = packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)
    headers = (*answer.headers, ("content-encoding", "gzip"))
    s = await two(open_stage, dialect, http2=http_versions[1])
    for number, ending in enumerate(ENDINGS.values(), 1):
        s.upstream.script(replace(steps(answer, begun, *ending), headers=headers))
        seen = await s.ask(question(dialect), http2=http_versions[0])
        assert (seen.status, seen.end, seen.body) == (200, "rst_stream" if http_versions[0] else "closed", begun)
        assert s.upstream.keys == ["sk-a"] * number


async def test_a_coded_stream_that_is_whole_passes_as_it_is(
    dialect: DialectName, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    answer = good(dialect, TEXT)
    packed = gzip.compress(bytes_of(answer))
    headers = (*answer.headers, ("content-encoding", "gzip"))
    s = await two(open_stage, dialect, http2=http_versions[1])
    s.upstream.script(replace(steps(answer, packed), headers=headers))
    seen = await s.ask(question(dialect), http2=http_versions[0])
    assert (seen.status, seen.end, seen.body) == (200, "complete", packed)


TOOL = ToolCall(arguments={"city": "Zürich", "unit": "celsius"})
STOPS = (
    b'"finish_reason":"tool_calls"',
    b'"finish_reason":"stop"',
    b"response.completed",
    b"message_stop",
    b'tool_use",',
)


@pytest.mark.parametrize("ending", ["reset", "end without a marker", "a stop"])
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages"])
async def test_a18_half_a_tool_call_is_an_error_and_no_stop(
    ending: str, dialect: DialectName, open_stage: OpenStage
) -> None:
    """A18, after text went out: the client must not run a call with half its arguments. (Gemini sends calls whole.)"""
    answer = good(dialect, TEXT, tool_call=TOOL)
    half = json.dumps(TOOL.arguments_json, ensure_ascii=False)[1:-1]
    half = half[: len(half) // 2 - 2].encode()
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and half[:12] in step)
    stop: tuple[Step, ...] = ()
    if ending == "a stop":
        stop = _stop(dialect, answer)
    s = await two(open_stage, dialect)
    s.upstream.script(steps(answer, *answer.steps[: at + 1], *(stop or ENDINGS[ending])))
    seen = await s.ask(question(dialect))
    assert (seen.status, seen.end) == (200, "complete")
    assert sum(map(is_error, frames(seen.body))) == 1
    assert not any(stop in seen.body for stop in STOPS[:4])
    assert s.upstream.keys == ["sk-a"]


def _stop(dialect: str, answer: Reply) -> tuple[Step, ...]:
    """The frames that end the turn, as if the call were whole."""
    ends = {"openai-chat": b'"finish_reason":"tool_calls"', "anthropic-messages": b"message_delta"}
    mark = ends.get(dialect, b"response.completed")
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and mark in step)
    ending = answer.steps[at:]
    if dialect == "openai-responses":
        whole = payload(ending[0]) if isinstance(ending[0], bytes) else {}
        for item in whole["response"]["output"]:
            if item.get("type") == "function_call":
                item["arguments"] = item["arguments"][:8]
        return (b"event: response.completed\ndata: " + json.dumps(whole, separators=(",", ":")).encode() + b"\n\n",)
    return ending


async def test_a_client_that_reads_slowly_gets_the_same_bytes(open_stage: OpenStage) -> None:
    """Released bytes come in order however the upstream and the client are paced."""
    answer = good("openai-chat", "word " * 3000)
    s = await two(open_stage, "openai-chat", http2=True)
    s.upstream.script(replace(answer, body=bytes_of(answer), chunks=(), split_every=997, framing="chunked"))
    seen = await s.ask(question(), http2=True)
    assert (seen.end, seen.body) == ("complete", bytes_of(answer))


async def test_a_silent_stream_ends_with_an_error_and_is_cancelled(dialect: DialectName, open_stage: OpenStage) -> None:
    """ST-37, ST-38, ST-31."""
    answer = good(dialect, TEXT)
    s = await two(open_stage, dialect, idle_timeout_ms=150)
    s.upstream.script(steps(answer, *first_words(answer), Hang()))
    seen: Exchange = await s.ask(question(dialect), within_s=3)
    assert (seen.status, seen.end) == (200, "complete")
    assert sum(map(is_error, frames(seen.body))) == 1
    await s.upstream.requests[0].ended.wait()
    assert s.upstream.requests[0].cancelled and s.upstream.keys == ["sk-a"]


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic-messages", "gemini"])
async def test_silence_behind_an_error_event_adds_no_second_one(dialect: DialectName, open_stage: OpenStage) -> None:
    """ST-31, ST-35: the upstream says its error and does not end; the idle deadline ends the stream, without words."""
    answer = error_in_stream(dialect, "Rate limit is exceeded.", after=2)
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and b"Rate limit" in step)
    s = await two(open_stage, dialect, idle_timeout_ms=150)
    s.upstream.script(steps(answer, *answer.steps[: at + 1], Hang()))
    seen = await s.ask(question(dialect), within_s=3)
    assert (seen.status, seen.end) == (200, "complete")
    assert seen.body == b"".join(step for step in answer.steps[: at + 1] if isinstance(step, bytes))
