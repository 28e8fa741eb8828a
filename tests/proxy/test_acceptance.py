"""Situations that people reported with tools of this kind (`acceptance.md`), through the real proxy: the verdict's part."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from omniroute_addon import learning
from omniroute_addon.cooldown.book import ConnectionBook
from omniroute_addon.cooldown.rest import Rest
from omniroute_addon.testing.answers import ToolCall, anthropic, error, error_in_stream, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.faults import cut
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Close, Reply, json_reply
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream(tls=False) as fake:
        yield fake


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ABC":
        monkeypatch.setenv(f"KEY_{name}", f"sk-{name.lower()}")


def pool(upstream: FakeUpstream, *names: str, provider: str = "openai", **more: Any) -> dict[str, Any]:
    connections = [
        {"id": name, "provider": provider, "key": f"env:KEY_{name.upper()}", "base_url": upstream.url} for name in names
    ]
    settings = {"retry_pause_ms": 20, "retry_pause_max_ms": 40, "lifecycle_grace_ms": 200, "own_credential": "never"}
    return {"connections": connections, "settings": settings, **more}


async def ask(proxy: RunningProxy, q: Question) -> Exchange:
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file) as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


def book(proxy: RunningProxy) -> ConnectionBook:
    return ConnectionBook(proxy.master.addons.get("omniroute").engine.core.store)


def rests(proxy: RunningProxy) -> dict[str, Rest]:
    """What the connection cooldown remembers, by connection id."""
    return {key.partition("#")[0]: rest for key, rest, _ in book(proxy).rows()}


def left(proxy: RunningProxy, name: str) -> float:
    """Seconds that a connection still rests."""
    now: float = proxy.master.addons.get("omniroute").engine.core.clock.now()
    return rests(proxy)[name].until - now


async def test_a01_the_later_deadline_wins(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A01: the second 429 was in flight when the first one came; the exclusion tells the second cause."""
    slow, slower = (error("openai-chat", 429, "slow", headers={"retry-after": s}) for s in ("10", "60"))
    gate = replace(slower, before=())
    upstream.script([slow, gate], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    first = await ask(proxy, question(stream=False))
    assert first.header("retry-after") == "10"
    [(key, resting, _)] = book(proxy).rows()
    book(proxy).forget(key)  # the second request was sent before the first answer came
    second_sent = await _while_resting(proxy, key, resting)
    assert second_sent.status == 429
    assert 58 < left(proxy, "a") <= 60


async def _while_resting(proxy: RunningProxy, key: str, resting: Rest) -> Exchange:
    """Ask once; the connection begins to rest while the request is under way."""

    def late(ex: Any, *others: Any) -> Any:
        book(proxy).change(key, lambda _: resting, provider="openai")
        return judge(ex, *others)

    judge, learning.judge = learning.judge, late
    try:
        return await ask(proxy, question(stream=False))
    finally:
        learning.judge = judge


async def test_a02_a_wait_in_the_body(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A02: usage_limit_reached with resets_in_seconds; a resets_at in the past is ignored."""
    body = {
        "error": {
            "type": "usage_limit_reached",
            "message": "The usage limit has been reached",
            "plan_type": "plus",
            "resets_at": 1700000000,
            "resets_in_seconds": 13872,
        }
    }
    upstream.script(json_reply(body, status=429))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert (seen.status, seen.header("retry-after")) == (429, "13872")
    assert seen.json() == body
    assert left(proxy, "a") == pytest.approx(13872, abs=2)


async def test_a03_a_plan_limit_is_the_accounts_a_capacity_error_the_models(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A03."""
    limit = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}
    upstream.script(json_reply(limit, status=429), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    await ask(proxy, question(model="m1"))
    other = await ask(proxy, question(model="m2"))
    assert other.header("x-omniroute-connection") == "b" and other.header("x-omniroute-attempts") == "1"


async def test_a03_a_capacity_error_leaves_the_account_open(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A03, second half."""
    busy = {
        "error": {
            "message": "Selected model is at capacity. Please try a different model.",
            "code": "model_at_capacity",
        }
    }
    upstream.script([json_reply(busy, status=503)] * 3 + [openai_chat("fine")], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    await ask(proxy, question(model="m1"))
    other = await ask(proxy, question(model="m2"))
    assert other.status == 200 and other.header("x-omniroute-connection") == "a"


@pytest.mark.parametrize("status", [402, 400])
async def test_a09_out_of_credits_is_terminal_at_once(
    status: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A09."""
    text = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
    upstream.script(error("anthropic-messages", status, text, code="invalid_request_error"), key="sk-a")
    upstream.script(anthropic("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    for _ in range(3):
        assert (await ask(proxy, question("anthropic-messages"))).status == 200
    assert upstream.keys == ["sk-a", "sk-b", "sk-b", "sk-b"]
    assert rests(proxy)["a"].terminal


async def test_a10_exhaustion_inside_a_200_body(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A10, first half."""
    inside = {
        "error": {
            "message": "You exceeded your current quota",
            "type": "insufficient_quota",
            "code": "insufficient_quota",
        }
    }
    upstream.script(json_reply(inside), key="sk-a")
    answer = openai_chat("fine", stream=False)
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question(stream=False))
    assert (seen.status, seen.body, seen.header("x-omniroute-connection")) == (200, answer.body, "b")


async def test_a10_a_failed_response_inside_a_200_stream(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A10, second half: restated to 429, B serves; alone, the client gets the 429."""
    broken = error_in_stream("openai-responses", "Rate limit reached", code="rate_limit_exceeded")
    upstream.script(broken, key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert (seen.status, seen.header("x-omniroute-restated-from")) == (429, "200")


@pytest.mark.parametrize(("words", "seconds"), [("17 seconds", 17.0), ("14.036s", 14.036)])
async def test_a11_a_wait_in_the_text(
    words: str, seconds: float, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A11."""
    upstream.script(error_in_stream("openai-responses", f"Rate limit is exceeded. Try again in {words}."))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert seen.status == 429 and left(proxy, "a") == pytest.approx(seconds, abs=1)


async def test_a11_a_number_in_the_prose_of_a_success_changes_nothing(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    answer = openai_chat("Rate limit is exceeded. Try again in 17 seconds. insufficient_quota 429")
    upstream.script(answer)
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    assert (await ask(proxy, question())).status == 200
    assert rests(proxy) == {}


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


async def test_a22_an_overflow_hidden_in_a_500_is_restated(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A22: behind a translation the overflow comes as a 500 text; the client gets the phrase that makes it compact."""
    text = "litellm.APIError: prompt is too long: 210000 tokens > 200000 maximum"
    upstream.script(error("anthropic-messages", 500, text, code="api_error"))
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages"))
    assert seen.status == 400 and "prompt is too long" in seen.json()["error"]["message"]
    assert upstream.keys == ["sk-a"]


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


async def test_a29_the_errors_own_words_stay_when_it_fails_again(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    refused = error("anthropic-messages", 400, REFUSAL, code="invalid_request_error")
    upstream.script(refused)
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    seen = await ask(proxy, question("anthropic-messages", more={"messages": SIGNED}))
    assert (seen.status, seen.body, upstream.keys) == (400, refused.body, ["sk-a", "sk-a"])
