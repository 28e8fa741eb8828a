"""A fake LLM upstream on loopback: HTTP/1.1 or HTTP/2, TLS or plain, with every fault a test can ask for.

    async with FakeUpstream() as upstream:                                   # TLS, HTTP/1.1, real host names
        upstream.script([json_reply({}, status=429), openai_chat("hello")])  # first request, second request
        upstream.script(key="sk-b", answers=openai_chat("always"))           # by credential
        upstream.script(lambda request: …, path="/v1/messages")              # by function
        …
        assert upstream.requests[0].key == "sk-a"

See `script` for what a reply can do, `answers` and `faults` for ready ones.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from .ca import TestCA, shared_ca
from .http1 import serve_http1
from .http2 import serve_http2
from .pipe import Pipe
from .script import Answers, Headers, Received, Reply, Script

Manners = Literal["serve", "hang", "close", "reset"]


class FakeUpstream:
    """One listening port. Everything it saw is in `requests`; everything it says comes from the script."""

    def __init__(
        self,
        *,
        tls: bool = True,
        http2: bool = False,
        names: tuple[str, ...] = (),
        ca: TestCA | None = None,
        max_concurrent_streams: int | None = None,
    ) -> None:
        """`names`: host names of the certificate, `PROVIDER_HOSTS` when empty. HTTP/2 is spoken over TLS, by ALPN."""
        if http2 and not tls:
            raise ValueError("HTTP/2 needs TLS here: no client of ours speaks it with prior knowledge")
        self.tls = tls
        self.http2 = http2
        self.max_concurrent_streams = max_concurrent_streams
        self.names = names
        self.ca = ca or shared_ca()
        self.requests: list[Received] = []
        self.connections = 0
        """Connections accepted so far (TLS: whose handshake was completed)."""
        self.races = 0
        """Requests that ran into a connection being closed (`Reply.close_on_next`)."""
        self.on_accept: Manners = "serve"
        """What happens to a connection right after TCP (and TLS) are up. Change it at any time."""
        self.crashes: list[Exception] = []
        """What went wrong in the fake itself, such as an answer function that raised; leaving the block raises it."""
        self.port = 0
        self.book = Script()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._pipes: set[Pipe] = set()
        self._news = asyncio.Event()

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
        if self.crashes and error is None:
            raise self.crashes[0]

    async def start(self, port: int = 0) -> None:
        """Listen; `port` 0 takes a free one. A stopped upstream may be started again on its old port."""
        context: ssl.SSLContext | None = None
        if self.tls:
            alpn = ("h2", "http/1.1") if self.http2 else ("http/1.1",)
            context = self.ca.server_context(*self.names, alpn=alpn)
            context.sni_callback = _note_sni
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Pipe(self._accept), "127.0.0.1", port, ssl=context)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._serving:
            task.cancel()
        for pipe in self._pipes:
            if not pipe.open.is_closing():
                pipe.open.abort()
        if self._serving:
            await asyncio.wait(self._serving)
        self._pipes.clear()

    @property
    def address(self) -> tuple[str, int]:
        """Where it really listens: for `rehost` and for a direct connection."""
        return "127.0.0.1", self.port

    @property
    def url(self) -> str:
        """Base URL on loopback, for connections with a `base_url`."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """PEM file of the authority that signed its certificate."""
        return self.ca.pem_file

    # -- what it says

    def script(self, answers: Answers, *, key: str | None = None, path: str | None = None) -> None:
        """Say what to answer to requests with this credential and path (without query); None fits all.

        A `Reply` answers every request, a list is used up one by one, a function is asked each time. The line that
        was added last is looked at first. A request that nothing fits gets a 599 and is kept in `unscripted`.
        """
        self.book.add(answers, key=key, path=path)

    @property
    def unscripted(self) -> list[Received]:
        """Requests that no script answered."""
        return self.book.unscripted

    # -- what it saw

    @property
    def keys(self) -> list[str | None]:
        """The credentials of all requests, in order."""
        return [request.key for request in self.requests]

    async def received(self, count: int, *, within_s: float = 10.0) -> Received:
        """Wait until so many requests have come in; returns the last of them. Raises TimeoutError."""
        async with asyncio.timeout(within_s):
            while len(self.requests) < count:
                self._news.clear()
                await self._news.wait()
        return self.requests[count - 1]

    def receive(
        self,
        *,
        connection: int,
        http_version: Literal["1.1", "2"],
        method: str,
        path: str,
        authority: str,
        headers: Headers,
        body: bytes,
        pipe: Pipe,
    ) -> Received:
        """Record a request; called by the protocol sides."""
        tls_object = pipe.open.get_extra_info("ssl_object")
        request = Received(
            number=len(self.requests) + 1,
            connection=connection,
            http_version=http_version,
            method=method,
            path=path,
            authority=authority,
            headers=headers,
            body=body,
            sni=getattr(tls_object, "omniroute_sni", None),
        )
        self.requests.append(request)
        self._news.set()
        return request

    def answer(self, request: Received) -> Reply:
        """What the script says; called by the protocol sides."""
        return self.book.answer(request)

    def _accept(self, pipe: Pipe) -> None:
        self.connections += 1
        self._pipes.add(pipe)
        task = asyncio.get_running_loop().create_task(self._serve(pipe, self.connections))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, pipe: Pipe, number: int) -> None:
        match self.on_accept:
            case "hang":
                await pipe.gone.wait()
            case "close":
                pipe.close()
            case "reset":
                pipe.reset()
            case "serve":
                tls_object = pipe.open.get_extra_info("ssl_object")
                is_h2 = tls_object is not None and tls_object.selected_alpn_protocol() == "h2"
                try:
                    await (serve_http2 if is_h2 else serve_http1)(pipe, self, number)
                except Exception as error:  # noqa: BLE001 (told to the test; the client must not wait for it)
                    self.crash(error, pipe)

    def crash(self, error: Exception, pipe: Pipe) -> None:
        """Keep a fault of the fake itself for the end of the block, and drop the connection that met it."""
        self.crashes.append(error)
        pipe.reset()


def _note_sni(tls_object: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
    tls_object.omniroute_sni = name  # type: ignore[attr-defined]


@contextmanager
def closed_port() -> Iterator[int]:
    """A loopback port that refuses connections, and stays free of anybody else while the block runs."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound but not listening: the kernel refuses, nobody else can take it
        yield sock.getsockname()[1]


@contextmanager
def silent_port() -> Iterator[int]:
    """A loopback port that takes TCP connections and never says a word: a TLS handshake there hangs."""
    with socket.create_server(("127.0.0.1", 0)) as sock:  # the backlog accepts; nobody ever reads
        yield sock.getsockname()[1]
