"""Answers that are none, and requests that nobody can serve (`acceptance.md`), through the real proxy."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from honesty import bytes_of
from key_pool import ask, let_pass, pool, rests

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import ToolCall, anthropic, error, openai_chat, openai_responses
from omniroute_addon.testing.faults import cut
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Close, Reply, json_reply
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]


pytestmark = pytest.mark.usefixtures("keys")


EMPTY = {
    "no choices": {"id": "x", "object": "chat.completion", "model": "m", "choices": []},
    "null content": {
        "id": "x", "object": "chat.completion", "model": "m", "usage": {"completion_tokens": 0},
        "choices": [{"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "stop"}],
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", EMPTY)
async def test_a16_an_empty_answer_is_left_for_the_next(
    shape: str, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A16."""
    upstream.script(json_reply(EMPTY[shape]), key="sk-a")
    upstream.script(openai_chat("fine", stream=False), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    assert (await ask(proxy, question(stream=False))).header("x-omniroute-connection") == "b"


async def test_a16_an_empty_stream_is_left_for_the_next(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A16: only a thinking signature, then the end."""
    upstream.script(_only_a_signature(), key="sk-a")
    upstream.script(anthropic("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    assert (await ask(proxy, question("anthropic-messages"))).header("x-omniroute-connection") == "b"


async def test_a16_when_all_are_empty_the_error_is_explicit(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A16: never invented text."""
    upstream.script(json_reply(EMPTY["no choices"]))
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question(stream=False))
    assert seen.status == 502 and "empty" in seen.json()["error"]["message"].lower()
    assert upstream.keys == ["sk-a", "sk-b"]


async def test_a16_when_all_streams_are_empty_there_is_no_200(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A16"""
    upstream.script(_only_a_signature())
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages"))
    assert (seen.status, seen.json()["type"], upstream.keys) == (502, "error", ["sk-a", "sk-b"])


async def test_a16_a_preflight_without_text_is_legitimate(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """Wire shapes: max_tokens 1, content [], stop_reason max_tokens."""
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [],
        "stop_reason": "max_tokens",
        "stop_sequence": None,
        "usage": {"input_tokens": 8, "output_tokens": 1},
    }
    upstream.script(json_reply(body))
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages", stream=False, more={"max_tokens": 1}))
    assert (seen.status, seen.json(), len(upstream.requests)) == (200, body, 1)


async def test_a18_half_a_tool_call_before_commit_is_left_for_the_next(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A18, not streamed: the arguments are cut."""
    answer = openai_chat("", stream=False, tool_call=ToolCall(name="f", arguments={"city": "Berlin"}))
    body = answer.body.replace(b'\\"Berlin\\"}', b'\\"Ber')
    assert body != answer.body
    upstream.script(replace(answer, body=body), key="sk-a")
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    assert (await ask(proxy, question(stream=False))).header("x-omniroute-connection") == "b"


async def test_a18_half_a_tool_call_after_commit_is_an_error_and_no_stop(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A18: name and half the JSON, then the connection ends."""
    answer = openai_chat("", tool_call=ToolCall(name="f", arguments={"city": "Berlin"}))
    upstream.script(cut(answer, after=2, ending=Close()))
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question())
    assert '"finish_reason":"error"' in seen.text and '"finish_reason":"tool_calls"' not in seen.text
    assert len(upstream.requests) == 1


CALL = ToolCall(name="f", arguments={"city": "Berlin"})
CALLS = [
    # dialect, the answer, steps up to the name (for chat: and the first half), steps up to the end of the call
    ("openai-chat", openai_chat("", tool_call=CALL), 2, 3),
    ("anthropic-messages", anthropic("", tool_call=CALL), 3, 6),
    ("openai-responses", openai_responses("", tool_call=CALL), 3, 7),
]
MEANT = ('"finish_reason":"tool_calls"', "message_stop", '"stop_reason":"tool_use"', "response.completed")


@pytest.mark.parametrize("whole", [False, True], ids=["begun", "complete"])
@pytest.mark.parametrize(("dialect", "answer", "name", "end"), CALLS, ids=[c[0] for c in CALLS])
async def test_a18_a_call_that_went_out_is_never_asked_for_again(
    dialect: DialectName,
    answer: Reply,
    name: int,
    end: int,
    whole: bool,
    upstream: FakeUpstream,
    omniroute_proxy: StartProxy,
) -> None:
    """A18 (a) and its last clause: an error in the dialect and no stop, whether half a call was seen or a whole one"""
    upstream.script(cut(answer, after=end if whole else name, ending=Close()))
    provider = "anthropic" if dialect == "anthropic-messages" else "openai"
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider=provider))
    seen = await ask(proxy, question(dialect))
    assert len(upstream.requests) == 1 and len(seen.heads) == 1
    assert "broke off" in seen.text or '"error"' in seen.text
    assert not any(mark in seen.text for mark in MEANT)


@pytest.mark.parametrize(("dialect", "answer", "name", "end"), CALLS, ids=[c[0] for c in CALLS])
async def test_a18_a_stream_that_ends_before_its_call_begins_is_left_for_the_next(
    dialect: DialectName, answer: Reply, name: int, end: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A18, before commit"""
    upstream.script(cut(answer, after=1, ending=Close()), key="sk-a")
    upstream.script(answer, key="sk-b")
    provider = "anthropic" if dialect == "anthropic-messages" else "openai"
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider=provider))
    seen = await ask(proxy, question(dialect))
    assert (seen.body, seen.header("x-omniroute-connection")) == (bytes_of(answer), "b")


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a21_a_bad_request_is_forwarded_once_and_touches_nobody(
    status: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A21: byte-identical, no state change on three accounts."""
    text = {400: "Invalid value for 'messages[0].role'", 413: "Request Entity Too Large", 422: "Unprocessable Entity"}[
        status
    ]
    bad = error("openai-chat", status, text, code="invalid_request_error")
    upstream.script(bad)
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", "c"))
    seen = await ask(proxy, question())
    assert (seen.status, seen.body, upstream.keys) == (status, bad.body, ["sk-a"])
    assert rests(proxy) == {}


async def test_a21_throttling_words_on_a_400_cool_and_fail_over(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A21: the 400 gap (FC-66, FC-68)."""
    upstream.script(error("openai-chat", 400, "Detected high-frequency non-compliant requests from you"), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    assert (await ask(proxy, question())).header("x-omniroute-connection") == "b"
    assert set(rests(proxy)) == {"a"}


@pytest.mark.parametrize("stream", [True, False])
async def test_a22_an_overflow_reaches_the_client_in_its_own_words(
    stream: bool, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A22: no failover to models of the same size, no state."""
    text = "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."
    overflow = error("openai-chat", 400, text, code="context_length_exceeded")
    upstream.script(overflow)
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question(stream=stream))
    assert (seen.status, seen.body, upstream.keys) == (400, overflow.body, ["sk-a"])
    assert rests(proxy) == {}


@pytest.mark.parametrize("stream", [True, False])
async def test_a22_an_overflow_hidden_in_a_500_is_restated(
    stream: bool, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A22: behind a translation the overflow comes as a 500 text; the client gets the phrase that makes it compact."""
    text = "litellm.APIError: prompt is too long: 210000 tokens > 200000 maximum"
    upstream.script(error("anthropic-messages", 500, text, code="api_error"))
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages", stream=stream))
    assert seen.status == 400 and "prompt is too long" in seen.json()["error"]["message"]
    assert upstream.keys == ["sk-a"] and rests(proxy) == {}


def _only_a_signature() -> Reply:
    start = anthropic("x").steps[0]
    assert isinstance(start, bytes)
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "c2ln"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 0}},
        {"type": "message_stop"},
    ]
    frames = [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events]
    return replace(anthropic("x"), body=b"", chunks=(start, *frames))


SIGNED = [
    {"role": "user", "content": "q"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "c"}, {"type": "text", "text": "a"}]},
    {"role": "user", "content": "more"},
]  # fmt: skip
REFUSAL = "messages.1.content.0: Invalid `signature` in `thinking` block"


async def test_a29_a_refused_signature_is_stripped_and_sent_once_more(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A29: A is cooled, B refuses the history that A signed; one repair, one retry; A's own requests stay as they are."""
    limited = error("anthropic-messages", 429, "slow down", headers={"retry-after": "60"})
    refused = error("anthropic-messages", 400, REFUSAL, code="invalid_request_error")
    upstream.script(limited, key="sk-a")
    upstream.script([refused, anthropic("fine")], key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    q = question("anthropic-messages", more={"messages": SIGNED})
    seen = await ask(proxy, q)
    assert (seen.status, upstream.keys) == (200, ["sk-a", "sk-b", "sk-b"])
    first, second, repaired = (request.json() for request in upstream.requests)
    assert first == second == json.loads(q.body)
    assert repaired["messages"][1]["content"] == [{"type": "text", "text": "a"}]
    assert set(rests(proxy)) == {"a"}
    let_pass(proxy, 61)
    upstream.script(anthropic("fine"), key="sk-a")
    assert (await ask(proxy, q)).header("x-omniroute-connection") == "a"
    assert upstream.requests[-1].json() == json.loads(q.body), "A's own later request keeps what A signed"


async def test_a29_the_errors_own_words_stay_when_it_fails_again(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    refused = error("anthropic-messages", 400, REFUSAL, code="invalid_request_error")
    upstream.script(refused)
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages", more={"messages": SIGNED}))
    assert (seen.status, seen.body, upstream.keys) == (400, refused.body, ["sk-a", "sk-a"])
