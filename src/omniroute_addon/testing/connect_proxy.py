"""An upstream proxy that tunnels: for tests of `via`, of mitmproxy's upstream mode, and of what a proxy gets to see."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from .message import BadMessage, Head, MessageReader
from .pipe import Pipe


@dataclass(slots=True)
class ConnectProxy:
    """Answers CONNECT by joining the two sides; targets that are not mapped must be on loopback.

    async with ConnectProxy({"api.openai.com:443": upstream.address}) as proxy: …
    """

    names: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """`host:port` as asked for -> where it really is."""
    status: int = 200
    """What CONNECT is answered with; anything but 200 refuses."""
    asked: list[str] = field(default_factory=list)
    """Every `host:port` that was asked for."""
    heads: list[Head] = field(default_factory=list)
    """The heads of the CONNECT requests, with what they carried."""
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """For `via: http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Pipe(self._accept), "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, pipe: Pipe) -> None:
        task = asyncio.get_running_loop().create_task(self._tunnel(pipe))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tunnel(self, pipe: Pipe) -> None:
        try:
            head = await _read_head(pipe)
            if head is None or head.start[0] != "CONNECT" or self.status != 200:
                status = self.status if head is not None and head.start[0] == "CONNECT" else 405
                return pipe.write(f"HTTP/1.1 {status} Refused\r\ncontent-length: 0\r\n\r\n".encode())
            self.heads.append(head)
            self.asked.append(head.start[1])
            other = await self._dial(head.start[1])
            if other is None:
                return pipe.write(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
            pipe.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            try:
                await asyncio.wait(
                    [asyncio.ensure_future(_copy(pipe, other)), asyncio.ensure_future(_copy(other, pipe))],
                    return_when=asyncio.FIRST_COMPLETED,
                )
            finally:
                other.close()
        finally:
            pipe.close()

    async def _dial(self, name: str) -> Pipe | None:
        host, _, port = name.rpartition(":")
        address = self.names.get(name) or (host, int(port))
        if address[0] not in ("127.0.0.1", "localhost"):
            return None
        try:
            return (await asyncio.get_running_loop().create_connection(Pipe, *address))[1]
        except OSError:
            return None


async def _read_head(pipe: Pipe) -> Head | None:
    reader = MessageReader("request")
    while reader.head is None:
        data = await pipe.read()
        if not data:
            return None
        try:
            reader.feed(data)
        except BadMessage:
            return None
    pipe.unread(bytes(reader.rest))
    return reader.head


async def _copy(source: Pipe, sink: Pipe) -> None:
    while data := await source.read():
        sink.write(data)
        await sink.drain()
    if source.ending == "reset":
        sink.reset()
