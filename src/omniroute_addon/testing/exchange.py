"""What a client saw of one exchange: every head, every byte, when it came and how it ended."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from .script import Headers

End = Literal["complete", "closed", "reset", "rst_stream", "go_away", "cancelled", "garbage"]
"""How an exchange ended:

* `complete`: the message ended as its framing says
* `closed`, `reset`: the connection ended before that, by FIN or by RST
* `rst_stream`, `go_away`: HTTP/2: the peer gave up this stream, or the connection
* `cancelled`: by this client
* `garbage`: what came is no HTTP
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHead:
    """One head, with the time at which it was complete."""

    status: int
    headers: Headers
    at: float
    """Seconds since the request was sent."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """Grows while the answer arrives; complete once `finished()` returns."""

    started: float = field(default_factory=time.monotonic)
    heads: list[SeenHead] = field(default_factory=list)
    """Final heads. More than one is always a fault."""
    informational: list[SeenHead] = field(default_factory=list)
    """1xx heads."""
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    """Body bytes as they arrived (unframed), with seconds since the request was sent."""
    raw: bytearray = field(default_factory=bytearray)
    """HTTP/1: everything that came over the wire for this exchange."""
    trailers: Headers = ()
    end: End | None = None
    """None while the answer is under way."""
    rst_code: int | None = None
    """HTTP/2 error code when `end` is `rst_stream`."""
    stray: bytes = b""
    """HTTP/1: bytes behind the complete message, which nobody asked for."""
    on_cancel: Callable[[], None] | None = field(default=None, repr=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    # -- what it was

    @property
    def status(self) -> int:
        """Status of the one head; 0 when none came."""
        return self.heads[0].status if self.heads else 0

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "backslashreplace")

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        """First value of a header of the head, or None."""
        headers = self.heads[0].headers if self.heads else ()
        return next((value for key, value in headers if key == name.lower()), None)

    # -- waiting for it

    async def has(self, condition: Callable[[Exchange], bool], *, within_s: float = 10.0) -> Exchange:
        """Wait until a condition holds or the exchange has ended. Raises TimeoutError."""
        async with asyncio.timeout(within_s):
            while not condition(self) and self.end is None:
                self._news.clear()
                await self._news.wait()
        return self

    async def has_head(self, *, within_s: float = 10.0) -> Exchange:
        return await self.has(lambda seen: bool(seen.heads), within_s=within_s)

    async def has_body(self, text: bytes, *, within_s: float = 10.0) -> Exchange:
        """Wait until the body so far contains `text`."""
        return await self.has(lambda seen: text in seen.body, within_s=within_s)

    async def finished(self, *, within_s: float = 10.0) -> Exchange:
        return await self.has(lambda seen: False, within_s=within_s)

    def cancel(self) -> None:
        """Go away: RST_STREAM(CANCEL) over HTTP/2, close the connection over HTTP/1."""
        if self.end is None:
            self.finish("cancelled")
            if self.on_cancel is not None:
                self.on_cancel()

    # -- for the client that fills it

    def saw_head(self, status: int, headers: Headers) -> None:
        into = self.informational if 100 <= status < 200 and status != 101 else self.heads
        into.append(SeenHead(status=status, headers=headers, at=time.monotonic() - self.started))
        self._news.set()

    def saw_data(self, data: bytes) -> None:
        if data:
            self.pieces.append((time.monotonic() - self.started, data))
            self._news.set()

    def finish(self, end: End) -> None:
        if self.end is None:
            self.end = end
            self._news.set()
