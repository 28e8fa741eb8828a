"""The recording client's HTTP/1 side."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from .exchange import Exchange
from .message import BadMessage, Head, MessageReader
from .pipe import Pipe


class Http1Client:
    """One request at a time on one connection."""

    def __init__(
        self, pipe: Pipe, authority: str, *, target_prefix: str = "", proxy_headers: Mapping[str, str] | None = None
    ) -> None:
        self.pipe = pipe
        self.authority = authority
        self.target_prefix = target_prefix
        self.proxy_headers = dict(proxy_headers or {}) if target_prefix else {}
        self._task: asyncio.Task[None] | None = None

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Exchange:
        if self._task is not None and not self._task.done():
            raise RuntimeError("HTTP/1 takes the next request after the answer to the last one")
        lines = [f"{method} {self.target_prefix}{path} HTTP/1.1"]
        sent = {"host": self.authority, **self.proxy_headers, **headers}
        lines += [f"{name}: {value}" for name, value in sent.items()]
        exchange = Exchange(on_cancel=self.pipe.close)
        self.pipe.write("\r\n".join([*lines, "", ""]).encode() + body)
        reader = MessageReader("response", bodyless=method == "HEAD")
        self._task = asyncio.ensure_future(self._receive(exchange, reader))
        return exchange

    async def stopped(self) -> None:
        if self._task is not None:
            await self._task

    async def _receive(self, exchange: Exchange, reader: MessageReader) -> None:
        while not reader.done:
            data = await self.pipe.read()
            if exchange.end is not None:
                return
            if not data:
                whole = self.pipe.ending == "closed" and reader.eof()
                return exchange.finish("complete" if whole else self.pipe.ending or "closed")
            exchange.raw += data
            seen = len(reader.informational), reader.head is not None
            try:
                piece = reader.feed(data)
            except BadMessage:
                self.pipe.close()
                return exchange.finish("garbage")
            for head in reader.informational[seen[0] :]:
                _saw(exchange, head)
            if reader.head is not None and not seen[1]:
                _saw(exchange, reader.head)
            exchange.saw_data(piece)
        exchange.trailers = reader.trailers
        exchange.stray = bytes(reader.rest)
        exchange.finish("complete")


def _saw(exchange: Exchange, head: Head) -> None:
    exchange.saw_head(int(head.start[1]), head.headers)
