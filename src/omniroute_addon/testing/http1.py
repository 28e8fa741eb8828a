"""The fake upstream's HTTP/1 side: requests in, scripted replies out, on one connection after the other."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

from .message import BadMessage, MessageReader
from .pipe import Pipe
from .play import LOOP_TURNS, play
from .script import Headers, Outcome, Reply

if TYPE_CHECKING:
    from .upstream import FakeUpstream


async def serve_http1(pipe: Pipe, upstream: FakeUpstream, connection: int) -> None:
    """Answer requests until somebody ends the connection. A request that is no HTTP ends it at once."""
    close_on_next = False
    while True:
        reader = MessageReader(role="request")
        while not reader.done:
            data = await pipe.read()
            if not data:
                return pipe.close()
            if close_on_next:
                upstream.races += 1
                return pipe.close()
            try:
                reader.feed(data)
            except BadMessage:
                return pipe.close()
            if reader.head is not None and reader.head.get("expect") == "100-continue" and not reader.body:
                pipe.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        pipe.unread(bytes(reader.rest))
        assert reader.head is not None
        method, path, _ = reader.head.start
        request = upstream.receive(
            connection=connection,
            http_version="1.1",
            method=method,
            path=path,
            authority=reader.head.get("host") or "",
            headers=reader.head.headers,
            body=bytes(reader.body),
            pipe=pipe,
        )
        reply = upstream.answer(request)
        await play(reply, request, _Channel(pipe, reply, bodyless=method == "HEAD"))
        if request.outcome != "complete":
            return None
        if _ends_connection(reply) or (reader.head.get("connection") or "").lower() == "close":
            return pipe.close()
        close_on_next = reply.close_on_next


def _ends_connection(reply: Reply) -> bool:
    # A wrong length leaves the two ends in disagreement about where the next message starts.
    return reply.close or reply.framing == "until_eof" or reply.http_version == "1.0" or reply.length_lie != 0


class _Channel:
    """`play.Channel` over an HTTP/1 connection."""

    def __init__(self, pipe: Pipe, reply: Reply, *, bodyless: bool) -> None:
        self.pipe = pipe
        self.gone = pipe.gone
        self.bodyless = bodyless
        self.wire_every = reply.wire_every
        self.framing = reply.framing or ("chunked" if reply.chunks or reply.trailers else "length")
        self._pending = bytearray()

    def departure(self) -> tuple[Outcome, int | None]:
        return ("client_reset" if self.pipe.ending == "reset" else "client_closed"), None

    def informational(self, status: int, headers: Headers) -> None:
        self._pending += _head("1.1", status, headers)

    def head(self, reply: Reply) -> None:
        headers = list(reply.headers)
        names = {name.lower() for name, _ in headers}
        if self.framing == "chunked" and "transfer-encoding" not in names:
            headers.append(("transfer-encoding", "chunked"))
        if self.framing == "length" and "content-length" not in names:
            headers.append(("content-length", str(reply.body_bytes + reply.length_lie)))
        if reply.close:
            headers.append(("connection", "close"))
        if reply.trailers:
            headers.append(("trailer", ", ".join(name for name, _ in reply.trailers)))
        self._pending += _head(reply.http_version, reply.status, tuple(headers))

    async def data(self, data: bytes) -> None:
        if not self.bodyless:
            self._pending += b"%x\r\n%b\r\n" % (len(data), data) if self.framing == "chunked" else data
        await self.settle()

    def end(self, reply: Reply) -> None:
        if self.framing == "chunked" and not self.bodyless:
            self._pending += b"0\r\n" + _lines(reply.trailers) + b"\r\n"

    def raw(self, data: bytes) -> None:
        self._pending += data

    async def settle(self) -> None:
        step = self.wire_every or max(1, len(self._pending))
        for start in range(0, len(self._pending), step):
            self.pipe.write(bytes(self._pending[start : start + step]))
            await self.pipe.drain()
            if self.wire_every:
                for _ in range(LOOP_TURNS):
                    await asyncio.sleep(0)
        self._pending.clear()

    def close(self) -> None:
        self.pipe.close()

    def reset(self) -> None:
        self.pipe.reset()

    def reset_stream(self, code: int) -> None:
        self.pipe.reset()

    def go_away(self, code: int, processed: bool) -> None:
        """HTTP/1 has no such thing."""


def _head(version: str, status: int, headers: Headers) -> bytes:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = ""
    return f"HTTP/{version} {status} {reason}\r\n".encode() + _lines(headers) + b"\r\n"


def _lines(headers: Headers) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers).encode("latin-1")
