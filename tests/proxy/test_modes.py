"""Every way into mitmproxy, and every way out of it (issue point 8)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mitmproxy import platform

from omniroute_addon.testing.answers import error, good, openai_chat
from omniroute_addon.testing.ca import shared_ca
from omniroute_addon.testing.client import Client, fetch
from omniroute_addon.testing.connect_proxy import ConnectProxy
from omniroute_addon.testing.pipe import Pipe
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Await, Reply, json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]
NEVER = {"settings": {"own_credential": "never"}}


def a_fails_b_answers(s: Stage, text: str = "from b") -> None:
    s.upstream.script(error("openai-chat", 429, "slow down", headers={"retry-after": "60"}), key="sk-a")
    s.upstream.script(openai_chat(text), key="sk-b")


# ------------------------------------------------------------ ways in


@pytest.mark.parametrize("keep_host_header", [False, True])
async def test_reverse_mode(keep_host_header: bool, open_stage: OpenStage) -> None:
    """An agent whose base URL is the proxy: no certificate, no environment variable."""
    s = await open_stage(
        "a",
        "b",
        config=NEVER,
        mode=["reverse:https://api.openai.com"],
        options={"keep_host_header": keep_host_header},
    )
    a_fails_b_answers(s)
    q = question()
    async with Client(s.proxy.url) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (seen.status, seen.header("x-omniroute-connection"), s.upstream.keys) == (200, "b", ["sk-a", "sk-b"])
    assert {r.authority for r in s.upstream.requests} == {"api.openai.com"}


async def test_reverse_mode_with_the_clients_own_credential(open_stage: OpenStage) -> None:
    s = await open_stage(mode=["reverse:https://api.openai.com"])
    s.upstream.script(openai_chat("own"))
    q = question()
    async with Client(s.proxy.url) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (seen.status, s.upstream.keys) == (200, ["sk-client"])
    assert s.upstream.requests[0].authority == "api.openai.com"


async def test_reverse_mode_passes_what_is_not_a_model_call(open_stage: OpenStage) -> None:
    s = await open_stage("a", mode=["reverse:https://api.openai.com"])
    s.upstream.script(json_reply({"data": []}))
    seen = await fetch(f"{s.proxy.url}/v1/models", headers={"authorization": "Bearer sk-client"})
    assert (seen.status, s.upstream.keys, seen.header("x-omniroute-connection")) == (200, ["sk-client"], None)


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_transparent_mode(own: bool, http2: bool, open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client dials an address; name and door come from SNI and `Host`. (The kernel's part is played by a patch.)"""
    monkeypatch.setattr(platform, "original_addr", lambda _: ("203.0.113.7", 443))
    connections = [] if own else ["a", "b"]
    async with FakeUpstream() as there:
        s = await open_stage(
            *connections, mode=["transparent"], rehost={"203.0.113.7:443": there.address}, config=None if own else NEVER
        )
        a_fails_b_answers(s)
        there.script(openai_chat("from the address"))
        q = question()
        dial = ("127.0.0.1", s.proxy.port)
        async with Client(q.origin, dial=dial, ca_file=s.proxy.ca_file, http2=http2) as client:
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
        assert seen.status == 200
        if own:
            assert (there.keys, s.upstream.keys) == (["sk-client"], [])
            assert (there.requests[0].sni, there.requests[0].authority) == (q.host, q.host)
        else:
            assert (there.keys, s.upstream.keys) == ([], ["sk-a", "sk-b"])


async def test_transparent_mode_leaves_unmanaged_hosts_closed(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "original_addr", lambda _: ("203.0.113.7", 443))
    async with FakeUpstream(names=("files.example.org",)) as there:
        s = await open_stage("a", mode=["transparent"], rehost={"203.0.113.7:443": there.address})
        there.script(json_reply({}))
        dial = ("127.0.0.1", s.proxy.port)
        # the upstream's own authority: the client would refuse a certificate of mitmproxy's
        async with Client("https://files.example.org", dial=dial, ca_file=shared_ca().pem_file) as client:
            assert (await client.request("GET", "/")).status == 200


class Socks5Client(Client):
    """Asks a SOCKS 5 proxy for the tunnel, by name."""

    async def _tunnel(self, pipe: Pipe) -> None:
        pipe.write(b"\x05\x01\x00")
        assert await pipe.read() == b"\x05\x00"
        name = self.host.encode()
        pipe.write(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + self.port.to_bytes(2, "big"))
        assert (await pipe.read()).startswith(b"\x05\x00\x00")


async def test_socks5_mode(open_stage: OpenStage) -> None:
    s = await open_stage("a", "b", config=NEVER, mode=["socks5"])
    a_fails_b_answers(s)
    q = question()
    async with Socks5Client(q.origin, proxy=s.proxy.url, ca_file=s.proxy.ca_file) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (seen.status, seen.header("x-omniroute-connection"), s.upstream.keys) == (200, "b", ["sk-a", "sk-b"])


async def test_several_modes_at_once(open_stage: OpenStage) -> None:
    """One state for all doors: what fails at one rests at the others."""
    s = await open_stage("a", "b", config=NEVER, mode=["regular", "reverse:https://api.openai.com", "socks5"])
    a_fails_b_answers(s)
    regular, reverse, socks = dict.fromkeys(s.proxy.ports)  # reverse mode listens on the same port for HTTP/3
    q = question()
    clients = [
        Client(q.origin, proxy=f"http://127.0.0.1:{regular}", ca_file=s.proxy.ca_file),
        Client(f"http://127.0.0.1:{reverse}"),
        Socks5Client(q.origin, proxy=f"http://127.0.0.1:{socks}", ca_file=s.proxy.ca_file),
    ]
    for client in clients:
        async with client:
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
            assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    assert s.upstream.keys == ["sk-a", "sk-b", "sk-b", "sk-b"]


async def test_a_model_call_over_plain_http(open_stage: OpenStage) -> None:
    """A local server's client that has `HTTP_PROXY` set, in absolute form."""
    async with FakeUpstream(tls=False) as local:
        s = await open_stage(
            "a", config={"routes": [{"connections": ["client", "a"]}]}, rehost={"localhost": local.address}
        )
        local.script(error("openai-chat", 429, "busy"))
        s.upstream.script(openai_chat("cloud"))
        q = question(key=None)
        async with Client("http://localhost:11434", proxy=s.proxy.url) as client:
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "a")
        assert local.requests[0].path == "/v1/chat/completions"
        assert s.upstream.keys == ["sk-a"]


async def test_a_replayed_flow_goes_through_the_loop(open_stage: OpenStage) -> None:
    """mitmproxy's client replay: the flow holds no credential any more, so a configured connection serves it."""
    s = await open_stage("a", "b", config=NEVER)
    a_fails_b_answers(s)
    await s.ask(question())
    flow = await s.proxy.finished(1)
    s.proxy.master.commands.call("replay.client", [flow.copy()])
    await s.proxy.finished(2)
    assert s.proxy.flows[-1].response.status_code == 200
    assert s.upstream.keys == ["sk-a", "sk-b", "sk-b"]


# ------------------------------------------------------------ ways out


async def test_upstream_mode(open_stage: OpenStage) -> None:
    """All attempts go through the proxy behind us."""
    async with ConnectProxy() as behind:
        s = await open_stage("a", "b", config=NEVER, mode=[f"upstream:{behind.url}"])
        behind.names = {"api.openai.com:443": s.upstream.address}
        a_fails_b_answers(s)
        seen = await s.ask(question())
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
        assert set(behind.asked) == {"api.openai.com:443"}


async def test_upstream_mode_sends_plain_http_in_absolute_form(open_stage: OpenStage) -> None:
    async with FakeUpstream(tls=False) as behind:  # a forward proxy gets the whole URL and no CONNECT
        entry = {"id": "a", "base_url": "http://127.0.0.1:9"}
        s = await open_stage(entry, config=NEVER, mode=[f"upstream:{behind.url}"])
        behind.script(openai_chat("by proxy"))
        q = question()
        async with Client("http://api.openai.com", proxy=s.proxy.url) as client:
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
        assert seen.status == 200
        assert behind.requests[0].path == "http://127.0.0.1:9/v1/chat/completions"
        assert behind.keys == ["sk-a"]


async def test_upstream_auth_reaches_the_proxy_of_a_plain_request(open_stage: OpenStage) -> None:
    """mitmproxy's own option keeps working beside us; what the client sent as its proxy login goes nowhere."""
    async with FakeUpstream(tls=False) as behind:
        entry = {"id": "a", "base_url": "http://127.0.0.1:9"}
        mode, options = [f"upstream:{behind.url}"], {"upstream_auth": "us:er"}
        s = await open_stage(entry, config=NEVER, mode=mode, options=options)
        behind.script(openai_chat("by proxy"))
        q = question()
        async with Client("http://api.openai.com", proxy=s.proxy.url) as client:
            headers = {**q.headers, "proxy-authorization": "Basic Y2xpZW50"}
            await client.request(q.method, q.path, headers=headers, body=q.body)
        assert behind.requests[0].header("proxy-authorization") == "Basic dXM6ZXI="


@pytest.mark.parametrize("http2", [False, True])
async def test_an_upstream_proxy_for_one_connection_only(http2: bool, open_stage: OpenStage) -> None:
    """`via`: this connection's requests, and no others, take it; the proxy never sees the credential."""
    async with ConnectProxy() as behind:
        s = await open_stage("a", {"id": "b", "via": behind.url}, config=NEVER, http2=http2)
        behind.names = {"api.openai.com:443": s.upstream.address}
        a_fails_b_answers(s)
        seen = await s.ask(question(), http2=http2)
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
        assert behind.asked == ["api.openai.com:443"]
        assert s.upstream.requests[0].connection != s.upstream.requests[1].connection
        assert "sk-" not in repr(behind.heads)


async def test_a_via_that_refuses_is_a_failed_attempt(open_stage: OpenStage) -> None:
    async with ConnectProxy(status=503) as behind:
        s = await open_stage({"id": "a", "via": behind.url}, "b", config=NEVER)
        s.upstream.script(openai_chat("direct"))
        seen = await s.ask(question())
        assert (seen.status, seen.header("x-omniroute-connection"), s.upstream.keys) == (200, "b", ["sk-b"])


async def test_via_wins_over_upstream_mode(open_stage: OpenStage) -> None:
    async with ConnectProxy() as general, ConnectProxy() as own:
        s = await open_stage({"id": "b", "via": own.url}, config=NEVER, mode=[f"upstream:{general.url}"])
        own.names = {"api.openai.com:443": s.upstream.address}
        s.upstream.script(openai_chat())
        assert (await s.ask(question())).status == 200
        assert (general.asked, own.asked) == ([], ["api.openai.com:443"])


@pytest.mark.parametrize("own", [True, False])
async def test_twelve_parallel_streams_are_all_in_flight_at_once(own: bool, open_stage: OpenStage) -> None:
    """mitmproxy alone allows five HTTP/1 connections per address and client: seven would wait for the first five."""
    s = await open_stage(*([] if own else ["a"]))
    go = asyncio.Event()
    answer = openai_chat("together")
    s.upstream.script(Reply(status=200, headers=answer.headers, chunks=(Await(go), *answer.chunks)))
    q = question()
    async with s.client(q, http2=True) as client:
        streams = [await client.send(q.method, q.path, headers=q.headers, body=q.body) for _ in range(12)]
        await s.upstream.received(12, within_s=5)
        assert len({r.connection for r in s.upstream.requests}) == 12
        go.set()
        for stream in streams:
            assert (await stream.finished()).status == 200


async def test_parallel_calls_of_one_http2_client_fail_over_independently(open_stage: OpenStage) -> None:
    s = await open_stage("a", "b", config=NEVER, http2=True)

    def odd_ones_fail(request: Any) -> Reply:
        number = int(request.json()["messages"][0]["content"])
        refused = request.key == "sk-a" and number % 2
        return error("openai-chat", 429, "slow down") if refused else openai_chat(f"n{number}")

    s.upstream.script(odd_ones_fail)
    questions: list[Question] = [question(text=str(number)) for number in range(8)]
    async with s.client(questions[0], http2=True) as client:
        streams = [await client.send(q.method, q.path, headers=q.headers, body=q.body) for q in questions]
        for number, stream in enumerate(streams):
            seen = await stream.finished()
            assert seen.status == 200
            assert f"n{number}" in seen.text


async def test_every_dialect_in_reverse_mode(dialect: Any, open_stage: OpenStage) -> None:
    q = question(dialect)
    s = await open_stage(mode=[f"reverse:https://{q.host}"])
    s.upstream.script(good(dialect))
    async with Client(s.proxy.url) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (seen.status, seen.header("x-omniroute-attempts")) == (200, "1")
    assert json.loads(s.upstream.requests[0].body) == json.loads(q.body)
