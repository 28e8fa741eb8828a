"""Codex's WebSocket at a model's door, through a real proxy (`clients.md` 9), and a provider that switches protocols."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from omniroute_addon.testing.answers import openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Raw, Reply
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "authorization": "Bearer sk-client",
    "user-agent": "codex_exec/0.171.0",
}
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
DOORS = [("api.openai.com", "/v1/responses"), ("chatgpt.com", "/backend-api/codex/responses")]


class AnyHost:
    """An upstream that takes every WebSocket."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(SWITCH)
        await reader.read(1000)
        writer.write(b"\x81\x02hi")
        await reader.read(1000)


@pytest.fixture
async def sockets() -> AsyncIterator[tuple[AnyHost, tuple[str, int]]]:
    host = AnyHost()
    server = await asyncio.start_server(host.serve, "127.0.0.1", 0)
    yield host, server.sockets[0].getsockname()[:2]
    server.close()


async def open_websocket(s: Stage, host: str, path: str) -> bytes:
    """The head of the answer and what comes behind it; over plain HTTP, so that the fake needs no certificate."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in UPGRADE.items())
    async with Client(f"http://{host}:443", proxy=s.proxy.url) as client, asyncio.timeout(5):
        assert client.pipe
        client.pipe.write(f"GET http://{host}:443{path} HTTP/1.1\r\nhost: {host}:443\r\n{fields}\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += await client.pipe.read()
        client.pipe.write(b"\x81\x82\x00\x00\x00\x00hi")
        return got + await client.pipe.read()


@pytest.mark.parametrize(("host", "path"), DOORS)
async def test_where_another_connection_could_take_over_it_is_asked_to_use_http(
    host: str, path: str, open_stage: OpenStage, sockets: tuple[AnyHost, tuple[str, int]]
) -> None:
    provider = "codex" if host == "chatgpt.com" else "openai"
    s = await open_stage("a", provider=provider, rehost={f"{host}:443": sockets[1]})
    async with Client(f"https://{host}", proxy=s.proxy.url, ca_file=s.proxy.ca_file) as client:
        seen = await client.request("GET", path, headers=UPGRADE)
    assert (seen.status, seen.json()["error"]["code"]) == (426, "websocket_not_offered")
    assert sockets[0].asked == [] and s.upstream.requests == []
    assert "asked a client to use HTTP" in "\n".join(s.proxy.log)
    assert s.proxy.errors == []


@pytest.mark.parametrize(
    ("connections", "settings", "path", "agent"),
    [
        ((), {}, "/v1/responses", "codex_exec/0.171.0"),
        (("a",), {}, "/v1/responses", "websocat"),
        (("a",), {"websocket_model_calls": "pass"}, "/v1/responses", "codex_exec/0.171.0"),
        (("a",), {"websocket_model_calls": "refuse"}, "/v1/realtime?model=gpt-realtime", "codex_exec/0.171.0"),
    ],
    ids=["own credential only", "not known to go on", "setting", "no model's door"],
)
async def test_otherwise_the_websocket_passes(
    connections: tuple[str, ...],
    settings: dict[str, str],
    path: str,
    agent: str,
    open_stage: OpenStage,
    monkeypatch: pytest.MonkeyPatch,
    sockets: tuple[AnyHost, tuple[str, int]],
) -> None:
    monkeypatch.setitem(UPGRADE, "user-agent", agent)
    s = await open_stage(*connections, config={"settings": settings}, rehost={"api.openai.com:443": sockets[1]})
    seen = await open_websocket(s, "api.openai.com", path)
    assert seen == SWITCH + b"\x81\x02hi"
    assert sockets[0].asked[0].lower().count(b"authorization: bearer sk-client") == 1


async def test_refuse_holds_for_the_clients_own_credential_too(open_stage: OpenStage) -> None:
    s = await open_stage(config={"settings": {"websocket_model_calls": "refuse"}})
    async with Client("https://api.openai.com", proxy=s.proxy.url, ca_file=s.proxy.ca_file) as client:
        assert (await client.request("GET", "/v1/responses", headers=UPGRADE)).status == 426
        # the connection goes on: the same client asks over HTTP
        s.upstream.script(openai_chat())
        q = question()
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 200


@pytest.mark.parametrize("stream", [True, False])
async def test_a_provider_that_switches_protocols_for_a_model_call_has_failed(
    stream: bool, open_stage: OpenStage
) -> None:
    """mitmproxy waits for the end of such a connection for ever, and so did the client."""
    s = await open_stage("a", "b", config={"settings": {"own_credential": "never", "retry_pause_ms": 1}})
    s.upstream.script(Reply(before=(Raw(SWITCH), Raw(b"\x81\x02hi")), chunks=(b"",)), key="sk-a")
    s.upstream.script(openai_chat("fine", stream=stream), key="sk-b")
    seen = await s.ask(question(stream=stream), within_s=5)
    assert (seen.status, seen.end, seen.header("x-omniroute-connection")) == (200, "complete", "b")
    assert s.proxy.errors == []


async def test_without_another_connection_the_client_hears_of_it(open_stage: OpenStage) -> None:
    s = await open_stage(config={"settings": {"retries_in_place": 0}})
    s.upstream.script(Reply(before=(Raw(SWITCH),), chunks=(b"",)))
    seen = await s.ask(question(), within_s=5)
    assert (seen.status, seen.json()["error"]["code"]) == (502, "upstream_unreachable")
