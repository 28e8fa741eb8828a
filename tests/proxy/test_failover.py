"""One client request, several upstream attempts: what the client sees of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from omniroute_addon.addon import Omniroute
from omniroute_addon.testing.answers import error, error_in_stream, good, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.faults import cut, hang_after_head
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Await, Hang, Pause, Reply, Reset
from omniroute_addon.testing.upstream import FakeUpstream, closed_port

StartProxy = Callable[..., Awaitable[RunningProxy]]
QUICK = {"retry_pause_ms": 20, "retry_pause_max_ms": 40, "lifecycle_grace_ms": 200}


def pool(upstream: FakeUpstream, *names: str, provider: str = "openai", **settings: Any) -> dict[str, Any]:
    """A configuration with one connection per name, key `sk-<name>`, all at the fake upstream."""
    connections = [
        {"id": name, "provider": provider, "key": f"env:KEY_{name.upper()}", "base_url": upstream.url} for name in names
    ]
    return {"connections": connections, "settings": {**QUICK, "own_credential": "never", **settings}}


UPSTREAMS = ["plain", "tls", "h2"]


@pytest.fixture
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[FakeUpstream]:
    kind = getattr(request, "param", "plain")
    async with FakeUpstream(tls=kind != "plain", http2=kind == "h2") as fake:
        yield fake


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ABCDEF":
        monkeypatch.setenv(f"KEY_{name}", f"sk-{name.lower()}")


CLIENTS = ["http1", "http2", "plain"]
"""How the client speaks; behind `plain`, HTTP/2 is offered upstream, which mitmproxy itself does not for HTTP/1."""


class OfferHttp2:
    def server_connected(self, data: ServerConnectionHookData) -> None:
        data.server.alpn_offers = (b"h2", b"http/1.1")


async def ask(proxy: RunningProxy, q: Question, speaks: str = "http1") -> Exchange:
    origin = q.origin.replace("https:", "http:") if speaks == "plain" else q.origin
    async with Client(origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=speaks == "http2") as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("speaks", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS, indirect=True)
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
async def test_a_failed_connection_is_replaced_and_the_stream_arrives_intact(
    dialect: Any, upstream: FakeUpstream, speaks: str, stream: bool, omniroute_proxy: StartProxy
) -> None:
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    answer = good(dialect, "Hello there, friend.", stream=stream)
    upstream.script(error(dialect, 429, "slow down", headers={"retry-after": "60"}), key="sk-a")
    upstream.script(answer, key="sk-b")
    addons = [Omniroute(), OfferHttp2()] if speaks == "plain" else None
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider=provider), addons=addons)
    seen = await ask(proxy, question(dialect, stream=stream), speaks)
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    assert seen.body == b"".join(s for s in answer.steps if isinstance(s, bytes))
    assert (seen.header("x-omniroute-connection"), seen.header("x-omniroute-attempts")) == ("b", "2")
    assert upstream.keys == ["sk-a", "sk-b"]
    expected = "2" if upstream.http2 and speaks != "http1" else "1.1"
    assert {request.http_version for request in upstream.requests} == {expected}


async def test_a07_overload_is_tried_in_place_and_cools_nobody(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A07: 529 twice, then 200: one clean answer, from the same account, which stays usable."""
    overloaded = error("anthropic-messages", 529, "Overloaded", code="overloaded_error")
    upstream.script([overloaded, overloaded, good("anthropic-messages"), good("anthropic-messages")], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    q = question("anthropic-messages")
    seen = await ask(proxy, q)
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    again = await ask(proxy, q)
    assert again.header("x-omniroute-connection") == "a"
    assert upstream.keys == ["sk-a"] * 4


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_a24_rotation_is_bounded_by_the_number_of_keys(
    status: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A24: five bad keys, the sixth serves."""
    upstream.script(error("openai-chat", status, "no"))
    upstream.script(openai_chat("fine"), key="sk-f")
    proxy = await omniroute_proxy(config=pool(upstream, *"abcdef"))
    seen = await ask(proxy, question())
    assert (seen.status, seen.end) == (200, "complete")
    assert upstream.keys == [f"sk-{name}" for name in "abcdef"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_a24_a_server_fault_stays_on_one_key_and_stops_after_the_budget(
    status: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A24: the fault is the provider's, so other keys at the same address are not burnt."""
    upstream.script(error("openai-chat", status, "The server had an error", code="server_error"))
    proxy = await omniroute_proxy(config=pool(upstream, *"abcdef"))
    seen = await ask(proxy, question(stream=False))
    assert seen.status == status
    assert upstream.keys == ["sk-a"] * 3


async def test_a_server_fault_moves_on_to_another_address(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    upstream.script(error("openai-chat", 500, "The server had an error"))
    async with FakeUpstream(tls=False) as other:
        other.script(openai_chat("fine"))
        config = pool(upstream, "a", "b")
        config["connections"].append({"id": "c", "provider": "openai", "key": "env:KEY_C", "base_url": other.url})
        proxy = await omniroute_proxy(config=config)
        seen = await ask(proxy, question())
        assert seen.status == 200 and seen.header("x-omniroute-connection") == "c"
        assert upstream.keys == ["sk-a"] * 3 and other.keys == ["sk-c"]


PREAMBLE = (b": one\n\n", b": two\n\n", b"event: ping\ndata: {}\n\n")


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages"])
async def test_a12_nothing_of_a_stream_that_begins_with_an_error_reaches_the_client(
    dialect: Any, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A12: head, two comments, a ping, then an error event: the next connection's stream, complete, with one head."""
    provider = "anthropic" if dialect == "anthropic-messages" else "openai"
    broken = error_in_stream(dialect, "Rate limit reached")
    upstream.script(_before(broken, PREAMBLE), key="sk-a")
    answer = good(dialect)
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider=provider))
    seen = await ask(proxy, question(dialect))
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    assert seen.body == _bytes(answer)


@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages"])
async def test_a12_with_nobody_else_the_client_gets_the_true_status(
    dialect: Any, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A12: a real HTTP status, not 200, as plain JSON."""
    provider = "anthropic" if dialect == "anthropic-messages" else "openai"
    code = "rate_limit_error" if provider == "anthropic" else "rate_limit_exceeded"
    upstream.script(_before(error_in_stream(dialect, "Rate limit reached", code=code), PREAMBLE))
    proxy = await omniroute_proxy(config=pool(upstream, "a", provider=provider))
    seen = await ask(proxy, question(dialect))
    assert (seen.status, seen.end) == (429, "complete")
    assert seen.header("content-type") == "application/json"
    assert "Rate limit reached" in seen.json()["error"]["message"]


async def test_a15_a_head_with_nothing_behind_it_is_left_for_the_next(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A15 (a), ST-22: the readiness deadline."""
    upstream.script(hang_after_head(openai_chat("lost")), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(
        config=pool(upstream, "a", "b", readiness_timeout_ms=150, readiness_max_timeout_ms=300)
    )
    seen = await ask(proxy, question())
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    await upstream.requests[0].ended.wait()
    assert upstream.requests[0].cancelled


async def test_a15_text_without_an_end_is_no_success(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A15 (b), ST-31: an error in the dialect behind the text, the failure recorded."""
    answer = openai_chat("one two three four")
    upstream.script(cut(answer, after=3, ending=Reset()))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question())
    assert (seen.status, seen.end) == (200, "complete")
    frames = [f for f in seen.body.split(b"\n\n") if f]
    assert b"\n\n".join(frames[:3]) + b"\n\n" == b"".join(s for s in answer.steps[:3] if isinstance(s, bytes))
    last = json.loads(frames[-2].removeprefix(b"data: "))
    assert last["choices"][0]["finish_reason"] == "error" and last["error"]["code"] == "server_error"
    assert frames[-1] == b"data: [DONE]"
    flow = await proxy.finished(1)
    assert "network" in flow.comment


async def test_a_hang_before_the_head_is_left_and_cancelled(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    upstream.script(Reply(before=(Hang(),)), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", head_timeout_ms=150))
    seen = await ask(proxy, question())
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    await upstream.requests[0].ended.wait()
    assert upstream.requests[0].cancelled


@pytest.mark.parametrize("upstream", ["h2"], indirect=True)
async def test_an_abandoned_http2_attempt_is_reset_and_its_connection_lives_on(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    upstream.script(hang_after_head(openai_chat("lost")), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", readiness_timeout_ms=150))
    seen = await ask(proxy, question(), "http2")
    assert seen.status == 200
    await upstream.requests[0].ended.wait()
    assert upstream.requests[0].rst_code == 8
    assert upstream.requests[1].connection == upstream.requests[0].connection


async def test_a_refused_connection_is_replaced(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    upstream.script(openai_chat("fine"))
    with closed_port() as port:
        config = pool(upstream, "a", "b")
        config["connections"][0]["base_url"] = f"http://127.0.0.1:{port}"
        proxy = await omniroute_proxy(config=config)
        seen = await ask(proxy, question())
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")


@pytest.mark.parametrize("http2", [True, False])
@pytest.mark.parametrize("upstream", UPSTREAMS, indirect=True)
async def test_a_client_that_leaves_cancels_the_upstream_and_is_nobodys_failure(
    upstream: FakeUpstream, http2: bool, omniroute_proxy: StartProxy
) -> None:
    """ST-126, ST-129."""
    slow = openai_chat("one two three")
    upstream.script([_after(slow, 2, Hang()), openai_chat("fine")], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=http2) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await seen.has_body(b"one")
        seen.cancel()
        await upstream.received(1)
        await asyncio.wait_for(upstream.requests[0].ended.wait(), 1.0)
    assert upstream.requests[0].cancelled
    again = await ask(proxy, q)
    assert again.header("x-omniroute-connection") == "a"


async def test_a_client_that_leaves_before_the_head_cancels_the_upstream(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    upstream.script(Reply(before=(Hang(),)), key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=True) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await upstream.received(1)
        seen.cancel()
        await asyncio.wait_for(upstream.requests[0].ended.wait(), 1.0)
    assert upstream.requests[0].cancelled


async def test_leaving_right_after_the_last_event_is_a_success(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """ST-127, `clients.md` 7: the connection ends in a cut, the answer was complete."""
    upstream.script(_after(openai_chat("fine"), 99, Hang()))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await seen.has_body(b"[DONE]")
        seen.cancel()
        flow = await proxy.finished(1)
    assert flow.error is None


async def test_an_upstream_that_dies_after_the_last_event_is_a_success(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """ST-30."""
    answer = openai_chat("fine")
    upstream.script(_after(answer, 99, Reset()))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question())
    assert (seen.status, seen.end, seen.body) == (200, "complete", _bytes(answer))


async def test_chunks_are_passed_on_as_they_come(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    answer = openai_chat("one two three")
    steps: list[Any] = []
    for step in answer.steps:
        steps += [step, Pause(0.05)]
    upstream.script(replace(answer, body=b"", chunks=tuple(steps)))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question())
    times = [at for at, _ in seen.pieces]
    assert len(times) >= len(answer.steps) - 1 and times[-1] - times[0] > 0.1


async def test_twelve_streams_of_one_client_run_side_by_side(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """mitmproxy's five connections per address would make them wait for each other."""
    gate = asyncio.Event()
    answer = openai_chat("fine")
    upstream.script(replace(answer, before=(Await(gate),)))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=True) as client:
        all_seen = [await client.send(q.method, q.path, headers=q.headers, body=q.body) for _ in range(12)]
        await upstream.received(12)
        gate.set()
        for seen in all_seen:
            assert (await seen.finished()).body == _bytes(answer)


@pytest.mark.parametrize("count", [12, 40])
async def test_many_streams_whose_connections_are_reset_at_once_are_all_replaced(
    count: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """mitmproxy alone loses the end of all but one of them (`stream/patience.py`)."""
    answer = openai_chat("fine")
    upstream.script(answer, key="sk-b")
    upstream.script(Reply(before=(Reset(),)), key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=True) as client:
        all_seen = [await client.send(q.method, q.path, headers=q.headers, body=q.body) for _ in range(count)]
        for seen in all_seen:
            assert (await seen.finished()).body == _bytes(answer)


async def test_a_kept_alive_connection_that_closes_under_our_hands_costs_nothing(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    answer = openai_chat("fine")
    upstream.script([replace(answer, close_on_next=True), answer], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    q = question()
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file) as client:
        first = await client.request(q.method, q.path, headers=q.headers, body=q.body)
        second = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (first.status, second.status) == (200, 200)
    assert second.header("x-omniroute-connection") == "a" and upstream.races == 1


def _bytes(reply: Reply) -> bytes:
    return b"".join(step for step in reply.steps if isinstance(step, bytes))


def _before(reply: Reply, pieces: tuple[bytes, ...]) -> Reply:
    return replace(reply, body=b"", chunks=(*pieces, *reply.steps), framing="chunked")


def _after(reply: Reply, count: int, step: Any) -> Reply:
    return replace(reply, body=b"", chunks=(*reply.steps[:count], step), framing="chunked")
