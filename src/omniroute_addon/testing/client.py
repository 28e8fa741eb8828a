"""A client that records exactly what it gets: HTTP/1.1 or HTTP/2, direct, through CONNECT and TLS, or plain by proxy.

    async with Client("https://api.openai.com", proxy=proxy.url, ca_file=proxy.ca_file) as client:
        seen = await client.request("POST", "/v1/chat/completions", headers={…}, body=b"{}")
        assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)

`send` returns at once, so that a test can look at a stream while it runs and cancel it where it likes:

        stream = await client.send("POST", "/v1/chat/completions", body=b"…")
        await stream.has_body(b"first words")
        stream.cancel()
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

from .client_http1 import Http1Client
from .client_http2 import Http2Client
from .exchange import Exchange
from .message import MessageReader
from .pipe import Pipe


class TunnelRefused(ConnectionError):
    """The proxy answered CONNECT with something other than 200, or not at all."""

    def __init__(self, status: int) -> None:
        super().__init__(f"CONNECT was answered with {status}" if status else "CONNECT was not answered")
        self.status = status


class Client:
    """One connection to one origin. HTTP/1 takes requests one after the other, HTTP/2 side by side."""

    def __init__(
        self,
        origin: str,
        *,
        proxy: str | None = None,
        ca_file: Path | None = None,
        http2: bool = False,
        dial: tuple[str, int] | None = None,
    ) -> None:
        """`origin`: `https://host[:port]`, no path. `proxy`: `http://[user:password@]host:port`. `dial`: without a
        proxy, where the origin really is. Certificates are verified against `ca_file` only.
        """
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"origin {origin!r} is not http://host or https://host")
        self.origin = origin.rstrip("/")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.tls else 80)
        self.proxy = urlsplit(proxy) if proxy else None
        self.ca_file = ca_file
        self.http2 = http2
        self.dial = dial
        self.pipe: Pipe | None = None
        self.certificate: dict[str, object] = {}
        """What the other side presented, as `ssl.getpeercert` tells it; empty over plain TCP."""
        self._protocol: Http1Client | Http2Client | None = None

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def authority(self) -> str:
        return self.host if self.port == (443 if self.tls else 80) else f"{self.host}:{self.port}"

    async def connect(self) -> None:
        """Open the connection, tunnel and TLS. Raises TunnelRefused, ssl.SSLError, OSError."""
        loop = asyncio.get_running_loop()
        if self.proxy is not None:
            address = (self.proxy.hostname or "127.0.0.1", self.proxy.port or 80)
        else:
            address = self.dial or (self.host, self.port)
        _, pipe = await loop.create_connection(Pipe, *address)
        self.pipe = pipe
        if self.proxy is not None and self.tls:
            await self._tunnel(pipe)
        if self.tls:
            await self._handshake(pipe)
        alpn = self._tls_object.selected_alpn_protocol() if self.tls else None
        if self.http2 and alpn != "h2":
            raise ConnectionError(f"HTTP/2 was wanted, the other side chose {alpn!r}")
        if self.http2:
            self._protocol = Http2Client(pipe, self.authority)
        else:
            absolute = "" if self.tls or self.proxy is None else self.origin
            self._protocol = Http1Client(pipe, self.authority, target_prefix=absolute, proxy_headers=self._credentials)

    async def close(self) -> None:
        if self.pipe is not None:
            self.pipe.close()
        if self._protocol is not None:
            await self._protocol.stopped()

    def reset(self) -> None:
        """Drop the connection with RST."""
        assert self.pipe is not None
        self.pipe.reset()

    async def send(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Exchange:
        """Send a request; the exchange fills by itself. A body gets its `content-length` unless `headers` frame it."""
        assert self._protocol is not None, "not connected"
        wanted = {name.lower(): value for name, value in (headers or {}).items()}
        if body and "content-length" not in wanted and "transfer-encoding" not in wanted:
            wanted["content-length"] = str(len(body))
        return await self._protocol.send(method, path, wanted, body)

    async def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        within_s: float = 10.0,
    ) -> Exchange:
        """Send a request and wait for the end of the answer, whatever it is. Raises TimeoutError."""
        return await (await self.send(method, path, headers=headers, body=body)).finished(within_s=within_s)

    # -- what the other side said about the connection

    @property
    def went_away(self) -> int | None:
        """HTTP/2: error code of the peer's GOAWAY."""
        return self._protocol.went_away if isinstance(self._protocol, Http2Client) else None

    @property
    def max_concurrent_streams(self) -> int | None:
        """HTTP/2: the peer's limit; None for HTTP/1."""
        if not isinstance(self._protocol, Http2Client):
            return None
        return self._protocol.h2.remote_settings.max_concurrent_streams

    # -- getting there

    @property
    def _credentials(self) -> dict[str, str]:
        if self.proxy is None or self.proxy.username is None:
            return {}
        pair = f"{unquote(self.proxy.username)}:{unquote(self.proxy.password or '')}"
        return {"proxy-authorization": "Basic " + base64.b64encode(pair.encode()).decode()}

    @property
    def _tls_object(self) -> ssl.SSLObject:
        assert self.pipe is not None
        found = self.pipe.open.get_extra_info("ssl_object")
        assert isinstance(found, ssl.SSLObject)
        return found

    async def _tunnel(self, pipe: Pipe) -> None:
        lines = [f"CONNECT {self.host}:{self.port} HTTP/1.1", f"host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in self._credentials.items()]
        pipe.write("\r\n".join([*lines, "", ""]).encode())
        reader = MessageReader(role="response", bodyless=True)
        while not reader.done:
            data = await pipe.read()
            if not data:
                raise TunnelRefused(0)
            reader.feed(data)
        assert reader.head is not None
        if reader.head.start[1] != "200":
            pipe.close()
            raise TunnelRefused(int(reader.head.start[1]))

    async def _handshake(self, pipe: Pipe) -> None:
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        context.set_alpn_protocols(["h2", "http/1.1"] if self.http2 else ["http/1.1"])
        loop = asyncio.get_running_loop()
        pipe.transport = await loop.start_tls(pipe.open, pipe, context, server_hostname=self.host)
        self.certificate = dict(self._tls_object.getpeercert() or {})


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    proxy: str | None = None,
    ca_file: Path | None = None,
    http2: bool = False,
) -> Exchange:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    origin = f"{parts.scheme}://{parts.netloc}"
    async with Client(origin, proxy=proxy, ca_file=ca_file, http2=http2) as client:
        return await client.request(method, path, headers=headers, body=body)
