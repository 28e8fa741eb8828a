"""What is not ours passes byte for byte (`A30`, `clients.md` 1 to 3): compared with a bare mitmproxy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Self

import pytest

from omniroute_addon.testing.answers import openai_chat
from omniroute_addon.testing.ca import shared_ca
from omniroute_addon.testing.client import Client, TunnelRefused, fetch
from omniroute_addon.testing.message import MessageReader
from omniroute_addon.testing.proxy import RunningProxy, running_proxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.stage import stage
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]
MANAGED, UNMANAGED = "api.openai.com", "files.example.org"


@dataclass
class Wire:
    """An upstream that keeps the very bytes of each request and answers with given ones."""

    answer: bytes
    tls: bool = True
    close: bool = False
    """End the connection behind the answer."""
    got: bytearray = field(default_factory=bytearray)
    _server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        context = shared_ca().server_context(MANAGED, UNMANAGED, alpn=("http/1.1",)) if self.tls else None
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server
        self._server.close()

    @property
    def address(self) -> tuple[str, int]:
        assert self._server
        host, port = self._server.sockets[0].getsockname()
        return host, port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = MessageReader("request")
        while not request.done and (data := await reader.read(65536)):
            self.got += data
            request.feed(data)
        if request.done:
            writer.write(self.answer)
            await writer.drain()
            while not self.close and (data := await reader.read(65536)):
                self.got += data
                if b"101 Switching" in self.answer:
                    writer.write(b"echo:" + data)
        writer.close()


async def speak(proxy: RunningProxy, origin: str, sent: bytes, *, head: bool = False) -> bytes:
    """Write bytes to the origin through the proxy; returns the bytes of the answer."""
    ca_file = proxy.ca_file
    async with Client(origin, proxy=proxy.url, ca_file=ca_file) as client:
        assert client.pipe
        client.pipe.write(sent)
        reader, seen = MessageReader("response", bodyless=head), bytearray()
        while not reader.done and (data := await client.pipe.read()):
            seen += data
            reader.feed(data)
        return bytes(seen)


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", *headers, "", ""]).encode() + body


HOST = f"Host: {MANAGED}"
KEY = "AUTHORIZATION: Bearer sk-client"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-B: 1\r\nx-a: 2\r\nX-B: 3\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b'4\r\n{"a"\r\n3;ext=1\r\n:1}\r\n0\r\n\r\n'
BAD_JSON = b'{"model": "gpt-5.4", "messages": ['
HIS_400 = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 35\r\nX-Request-Id: r1\r\n\r\n"
    b'{"error":{"message":"not a JSON!"}}'
)

EXCHANGES: dict[str, tuple[bytes, bytes]] = {
    "telemetry": (
        request(
            "POST /v1/traces?b=2&a=1%20x",
            *("X-Zeta: 1", HOST, "user-Agent: Agent/1.0", KEY, "X-Zeta: 2", "Cookie: id=1", "Content-Length: 4"),
            body=b"\x00\xff{]",
        ),
        OK,
    ),
    "control headers on a side call": (request("GET /v1/me", HOST, KEY, "X-Session-Id: s", "x-omniroute-tag: t"), OK),
    "model list": (request("GET /v1/models", HOST, KEY, "Accept-Encoding: gzip, br"), OK),
    "GET of a model path": (request("GET /v1/chat/completions?limit=2", HOST, KEY), OK),
    "DELETE of a model path": (request("DELETE /v1/chat/completions", HOST, KEY), OK),
    "below a model path": (
        request("POST /v1/chat/completions/abc", HOST, KEY, "Content-Length: 2", body=b"{}"),
        OK,
    ),
    "token refresh": (
        request("POST /oauth/token", HOST, "Content-Length: 27", body=b"grant_type=refresh&token=rt"),
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 4\r\n\r\nnope",
    ),
    "rate limited side call": (
        request("GET /v1/usage", HOST, KEY),
        b"HTTP/1.1 429 Slow\r\nRetry-After: 9\r\nContent-Length: 4\r\n\r\nslow",
    ),
    "chunked request": (request("POST /v1/files", HOST, KEY, "Transfer-Encoding: chunked", body=CHUNKED), OK),
    "chunked answer": (
        request("GET /v1/files/1", HOST, "TE: trailers"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n",
    ),
    "no content": (
        request("PUT /v1/files/1", HOST, "Content-Length: 0"),
        b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
    ),
    "not modified": (
        request("GET /v1/files/1", HOST, 'If-None-Match: "x"'),
        b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 12\r\n\r\n',
    ),
    "HEAD": (request("HEAD /v1/models", HOST, KEY), b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"),
    "event stream of a side call": (
        request("GET /v1/events", HOST, KEY),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'15\r\ndata: {"error": "x"}\n\n\r\n0\r\n\r\n',
    ),
    "unreadable model call": (
        request("POST /v1/chat/completions", HOST, KEY, "Content-Length: 34", body=BAD_JSON),
        HIS_400,
    ),
    "unreadable coding of a model call": (
        request("POST /v1/responses", HOST, KEY, "Content-Encoding: gzip", "Content-Length: 4", body=b"\x1f\x8bno"),
        HIS_400,
    ),
    "model call without a body": (request("POST /v1/responses", HOST, KEY, "Content-Length: 0"), HIS_400),
    "model call that is no object": (
        request("POST /v1/responses", HOST, KEY, "Content-Length: 4", body=b"[1] "),
        HIS_400,
    ),
}


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """A pool stands ready: nothing of it may touch a side call."""
    monkeypatch.setenv("POOL_KEY", "sk-pool")
    return {
        "connections": [{"id": "pool", "provider": "openai", "key": "env:POOL_KEY"}],
        "settings": {"own_credential": "never"},
    }


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_side_call_is_the_same_bytes_as_without_us(scheme: str, config: dict[str, object]) -> None:
    """A30: method line, header order and case, framing, body and the client's own credential, both ways.

    Trailers are not among them over HTTP/1: mitmproxy itself cannot carry these.
    """
    ours = await _all_exchanges(scheme, config, addons=None)
    bare = await _all_exchanges(scheme, config, addons=[])
    for name in EXCHANGES:
        assert ours[name] == bare[name], name
    assert not any(b"sk-pool" in got for got, _ in ours.values())


async def _all_exchanges(
    scheme: str, config: dict[str, object], *, addons: list[object] | None
) -> dict[str, tuple[bytes, bytes]]:
    """What the upstream got and what the client got, by name."""
    seen = {}
    async with (
        Wire(b"", tls=scheme == "https") as upstream,
        running_proxy(config=config, rehost={MANAGED: upstream.address}, addons=addons) as proxy,
    ):
        for name, (sent, upstream.answer) in EXCHANGES.items():
            upstream.got.clear()
            if scheme == "http":  # to a proxy in absolute form
                sent = sent.replace(b" /", f" http://{MANAGED}/".encode(), 1)
            async with asyncio.timeout(5):
                answer = await speak(proxy, f"{scheme}://{MANAGED}", sent, head=name == "HEAD")
            seen[name] = bytes(upstream.got), answer
    return seen


async def test_an_answer_that_ends_with_the_connection_passes(config: dict[str, object]) -> None:
    sent = request("GET /v1/files/1/content", HOST)
    answer = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 70_000
    seen = []
    for addons in (None, []):
        async with (
            Wire(answer, close=True) as upstream,
            running_proxy(config=config, rehost={MANAGED: upstream.address}, addons=addons) as proxy,
        ):
            seen.append((await speak(proxy, f"https://{MANAGED}", sent), bytes(upstream.got)))
    assert seen[0] == seen[1]


async def test_plain_http_to_an_unmanaged_host_is_the_same_bytes(config: dict[str, object]) -> None:
    """A30: even where the path looks like a model call."""
    body = b'{"model":"gpt-5.4","messages":[],"stream":true}'
    line = f"POST http://{UNMANAGED}/v1/chat/completions"
    sent = request(line, f"Host: {UNMANAGED}", KEY, f"Content-Length: {len(body)}", body=body)
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 9\r\nContent-Length: 4\r\n\r\nslow"
    seen = []
    for addons in (None, []):
        async with (
            Wire(answer, tls=False) as upstream,
            running_proxy(config=config, rehost={UNMANAGED: upstream.address}, addons=addons) as proxy,
        ):
            seen.append((await speak(proxy, f"http://{UNMANAGED}", sent), bytes(upstream.got)))
    assert seen[0] == seen[1]
    assert seen[0][0] == answer


async def test_tls_to_an_unmanaged_host_is_not_opened(omniroute_proxy: StartProxy) -> None:
    """A30, design.md §7.3: the client sees the upstream's own certificate, and its bytes arrive as they were sent."""
    sent = request("POST /v1/chat/completions", f"hOsT: {UNMANAGED}", KEY, "Content-Length: 2", body=b"{}")
    async with Wire(OK) as upstream:
        proxy = await omniroute_proxy(rehost={UNMANAGED: upstream.address})
        async with Client(f"https://{UNMANAGED}", proxy=proxy.url, ca_file=shared_ca().pem_file) as client:
            assert client.pipe
            client.pipe.write(sent)
            got = b""
            while not got.endswith(b"ok"):
                got += await client.pipe.read()
        assert bytes(upstream.got) == sent
        assert got == OK
    assert not any(flow.request.method == "POST" for flow in proxy.flows), "the exchange was seen in the clear"


async def test_tls_to_a_managed_host_is_opened(omniroute_proxy: StartProxy) -> None:
    """The counterpart: without this the test above could not fail."""
    async with Wire(OK) as upstream:
        proxy = await omniroute_proxy(rehost={MANAGED: upstream.address})
        async with Client(f"https://{MANAGED}", proxy=proxy.url, ca_file=proxy.ca_file) as client:
            assert "mitmproxy" in str(client.certificate["issuer"])


async def test_with_intercept_all_an_unmanaged_host_is_opened_and_still_not_ours(omniroute_proxy: StartProxy) -> None:
    """`omniroute_intercept=all` is mitmproxy's own behaviour; the exchange is shown, and changed in nothing."""
    sent = request("POST /v1/chat/completions", f"hOsT: {UNMANAGED}", KEY, "Content-Length: 2", body=b"{}")
    async with Wire(OK) as upstream:
        proxy = await omniroute_proxy(rehost={UNMANAGED: upstream.address}, options={"omniroute_intercept": "all"})
        got = await speak(proxy, f"https://{UNMANAGED}", sent)
        assert (bytes(upstream.got), got) == (sent, OK)
        await proxy.finished(1)
    assert proxy.flows[-1].request.pretty_host == UNMANAGED


async def test_a_websocket_upgrade_to_a_managed_host_passes(config: dict[str, object]) -> None:
    """Issue point 8: the upgrade and both directions behind it, as in a bare mitmproxy."""
    sent = request(
        "GET /v1/realtime?model=gpt-realtime",
        *(HOST, KEY, "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    )
    answer = (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
    )
    frame = b"\x81\x82\x00\x00\x00\x00hi"
    seen = []
    for addons in (None, []):
        async with (
            Wire(answer) as upstream,
            running_proxy(config=config, rehost={MANAGED: upstream.address}, addons=addons) as proxy,
            Client(f"https://{MANAGED}", proxy=proxy.url, ca_file=proxy.ca_file) as client,
        ):
            assert client.pipe
            client.pipe.write(sent)
            got = b""
            while b"\r\n\r\n" not in got:
                got += await client.pipe.read()
            client.pipe.write(frame)
            async with asyncio.timeout(5):
                while not upstream.got.endswith(b"hi") and len(upstream.got) < len(sent) + len(frame):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            # mitmproxy masks client frames anew: their random key and payload are not comparable
            seen.append((got, bytes(upstream.got[: len(sent)]), len(upstream.got)))
    assert seen[0] == seen[1]
    assert seen[0][0] == answer


async def test_connect_to_anything_tunnels_anything(omniroute_proxy: StartProxy) -> None:
    """CONNECT to a port where no TLS and no HTTP is spoken, of a managed host even."""

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    try:
        proxy = await omniroute_proxy(rehost={f"{MANAGED}:5222": server.sockets[0].getsockname()})
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"CONNECT {MANAGED}:5222 HTTP/1.1\r\n\r\n".encode())
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x00\x01 not http \xff")
        assert await asyncio.wait_for(reader.read(100), 5) == b"\x00\x01 NOT HTTP \xff"
        writer.close()
    finally:
        server.close()


@pytest.mark.parametrize("http2", [False, True])
async def test_side_calls_over_http2_keep_their_headers(http2: bool, config: dict[str, object]) -> None:
    headers = {"x-b": "1", "authorization": "Bearer sk-client", "x-a": "2", "te": "trailers", "x-session-id": "s"}
    seen = []
    for addons in (None, []):
        async with FakeUpstream(http2=http2) as upstream:
            upstream.script(replace(openai_chat("side", stream=False), trailers=(("x-sum", "7"),) if http2 else ()))
            async with running_proxy(config=config, rehost={MANAGED: upstream.address}, addons=addons) as proxy:
                url = f"https://{MANAGED}/v1/embeddings"
                got = await fetch(
                    url, method="POST", headers=headers, body=b"{}", proxy=proxy.url, ca_file=proxy.ca_file, http2=True
                )
                asked = upstream.requests[0]
                seen.append((asked.headers, asked.path, asked.body, got.heads[0].headers, got.body, got.trailers))
    assert seen[0] == seen[1]
    assert seen[0][-1] == ((("x-sum", "7"),) if http2 else ())


async def test_a_request_to_the_proxys_own_address_is_refused(omniroute_proxy: StartProxy) -> None:
    """A30: a loop is refused with a clear error, plain and by CONNECT."""
    proxy = await omniroute_proxy()
    async with asyncio.timeout(5):
        plain = await fetch(f"{proxy.url}/v1/chat/completions", method="POST", body=b"{}", proxy=proxy.url)
        assert plain.status == 502
        assert "itself" in plain.text or "unknown" in plain.text
        direct = await fetch(f"{proxy.url}/v1/chat/completions", method="POST", body=b"{}")
        assert direct.status in (400, 502)
        with pytest.raises((TunnelRefused, OSError)):
            async with Client(f"https://127.0.0.1:{proxy.port}", proxy=proxy.url, ca_file=proxy.ca_file):
                pass
    assert len(proxy.flows) < 10


async def test_a_connection_that_leads_back_to_the_proxy_is_a_failed_attempt() -> None:
    """Loop guard: `base_url` names the proxy itself; the next connection serves."""
    async with stage({"id": "loop", "base_url": "http://127.0.0.1:1"}, "b") as s:
        core = s.proxy.config_file.read_text().replace("127.0.0.1:1", f"127.0.0.1:{s.proxy.port}")
        s.proxy.config_file.write_text(core)
        async with asyncio.timeout(5):
            while f"127.0.0.1:{s.proxy.port}" not in repr(_connections(s.proxy)):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        s.upstream.script(openai_chat("from b"), key="sk-b")
        seen = await s.ask(question())
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
        flow = await s.proxy.finished(1)
        assert "#1 loop: network" in flow.comment
        assert len(s.proxy.flows) == 1, "the request came round"


def _connections(proxy: RunningProxy) -> object:
    return proxy.master.addons.get("omniroute").engine.core.config.connections
