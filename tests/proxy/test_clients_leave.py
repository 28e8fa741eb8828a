"""A client that goes away: the upstream is told within a second, nothing more is asked, and it is nobody's failure.

ST-126, ST-127, ST-129, `clients.md` 7. Leaving while a stream runs, before the head, and at the last event over HTTP/1 are in
`test_failover.py`; here is everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from honesty import OfferHttp2, bytes_of

from omniroute_addon.addon import Omniroute
from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Await, Hang, Reply, Step
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
SETTINGS = {"own_credential": "never", "retries_in_place": 1, "retry_pause_ms": 1, "retry_pause_max_ms": 2}
FINE = openai_chat("one two three")


async def pair(open_stage: OpenStage, *, http2: bool = False, **settings: Any) -> Stage:
    config = {"settings": {**SETTINGS, **settings}}
    return await open_stage("a", "b", http2=http2, config=config, addons=[Omniroute(), OfferHttp2()])


def chunks(reply: Reply, *steps: Step) -> Reply:
    return replace(reply, body=b"", chunks=steps, framing="chunked")


async def leave(s: Stage, client: Client, *, stream: bool = True, when: bytes = b"", requests: int = 1) -> None:
    """Ask, wait until so many requests have come in (and the client has read `when`), and go."""
    q = question(stream=stream)
    seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
    await s.upstream.received(requests)
    if when:
        await seen.has_body(when)
    seen.cancel()


async def is_nobodys_failure(s: Stage, *, requests: int) -> None:
    """The running attempt was cancelled, no other followed, and the connection is still the first choice."""
    await asyncio.wait_for(s.upstream.requests[requests - 1].ended.wait(), 1)
    assert s.upstream.requests[requests - 1].cancelled
    await asyncio.sleep(0.05)
    assert len(s.upstream.requests) == requests
    assert s.proxy.errors == []
    s.upstream.script(FINE)
    again = await s.ask(question())
    assert (again.status, again.header("x-omniroute-connection")) == (200, "a")


@pytest.mark.parametrize("moment", ["before the head", "after the head", "in the text"])
async def test_leaving_at_any_moment_of_a_stream(
    moment: str, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    s = await pair(open_stage, http2=http_versions[1])
    replies = {
        "before the head": Reply(before=(Hang(),)),
        "after the head": chunks(FINE, Hang()),
        "in the text": chunks(FINE, *FINE.steps[:3], Hang()),
    }
    s.upstream.script(replies[moment])
    async with s.client(question(), http2=http_versions[0]) as client:
        await leave(s, client, when=b"two" if moment == "in the text" else b"")
        await is_nobodys_failure(s, requests=1)


async def test_leaving_while_a_whole_answer_is_held(http_versions: tuple[bool, bool], open_stage: OpenStage) -> None:
    whole = openai_chat(stream=False)
    s = await pair(open_stage, http2=http_versions[1])
    s.upstream.script(chunks(whole, bytes_of(whole)[:40], Hang()))
    async with s.client(question(), http2=http_versions[0]) as client:
        await leave(s, client, stream=False)
        await is_nobodys_failure(s, requests=1)


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
async def test_leaving_while_an_error_is_held_asks_nobody_else(http2: bool, open_stage: OpenStage) -> None:
    s = await pair(open_stage)
    failed = error("openai-chat", 429, "slow down")
    s.upstream.script(chunks(failed, bytes_of(failed)[:10], Hang()))
    async with s.client(question(), http2=http2) as client:
        await leave(s, client)
        await is_nobodys_failure(s, requests=1)


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
async def test_leaving_during_a_pause_before_a_try_in_place(http2: bool, open_stage: OpenStage) -> None:
    """The pause ends at once, and the try does not happen."""
    s = await pair(open_stage, retry_pause_ms=60_000, retry_pause_max_ms=60_000)
    s.upstream.script(error("openai-chat", 500, "The server had an error"))
    q = question()
    async with s.client(q, http2=http2) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await (await s.upstream.received(1)).ended.wait()
        await asyncio.sleep(0.05)
        seen.cancel()
        flow = await s.proxy.finished(1, within_s=1)
    assert flow.error is not None and len(s.upstream.requests) == 1
    assert s.proxy.errors == []


@pytest.mark.parametrize("http2", [False, True], ids=["h1", "h2"])
async def test_leaving_during_the_second_attempt_cancels_that_one(http2: bool, open_stage: OpenStage) -> None:
    s = await pair(open_stage)
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(Reply(before=(Hang(),)), key="sk-b")
    async with s.client(question(), http2=http2) as client:
        await leave(s, client, requests=2)
        await asyncio.wait_for(s.upstream.requests[1].ended.wait(), 1)
    flow = await s.proxy.finished(1)
    assert s.upstream.requests[1].cancelled and "#1 a: rate_limit" in flow.comment
    assert "b: network" not in flow.comment and s.proxy.errors == []


async def test_a_reset_of_the_clients_connection_is_leaving_too(open_stage: OpenStage) -> None:
    s = await pair(open_stage)
    s.upstream.script(chunks(FINE, *FINE.steps[:3], Hang()))
    q = question()
    async with s.client(q) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await seen.has_body(b"two")
        client.reset()
        await is_nobodys_failure(s, requests=1)


@pytest.mark.parametrize("http2", [False, True], ids=["to-h1", "to-h2"])
async def test_one_stream_of_a_client_leaves_and_the_others_go_on(http2: bool, open_stage: OpenStage) -> None:
    """HTTP/2: cancelling one stream leaves its neighbours alone, on both sides."""
    s, gate = await pair(open_stage, http2=http2), asyncio.Event()
    s.upstream.script(chunks(FINE, *FINE.steps[:3], Await(gate), *FINE.steps[3:]))
    q = question()
    async with s.client(q, http2=True) as client:
        first, second = [await client.send(q.method, q.path, headers=q.headers, body=q.body) for _ in range(2)]
        await first.has_body(b"two")
        await second.has_body(b"two")
        first.cancel()
        async with asyncio.timeout(1):
            await asyncio.wait(
                [asyncio.ensure_future(r.ended.wait()) for r in s.upstream.requests], return_when="FIRST_COMPLETED"
            )
        gate.set()
        assert (await second.finished()).body == bytes_of(FINE)
    assert sorted(request.outcome == "complete" for request in s.upstream.requests) == [False, True]
    assert s.proxy.errors == []


async def test_cancelling_right_after_the_last_event_is_a_success(
    http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    """ST-127: RST_STREAM or a closed connection behind `[DONE]`, while the upstream has not ended."""
    s = await pair(open_stage, http2=http_versions[1])
    s.upstream.script(chunks(FINE, *FINE.steps, Hang()))
    async with s.client(question(), http2=http_versions[0]) as client:
        await leave(s, client, when=b"[DONE]\n\n")
        flow = await s.proxy.finished(1)
    assert flow.error is None and flow.comment == "#1 a: answered 200"
    assert s.proxy.errors == []
