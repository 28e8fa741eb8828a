"""One socket as the fakes need it: every byte visible, and both ways of ending a connection under control."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Literal, cast

Ending = Literal["closed", "reset"]


class Pipe(asyncio.Protocol):
    """A transport with a read buffer, an event for the peer's departure, and RST as a deliberate act.

    asyncio's own streams learn of a departed peer only when somebody reads; a fake that hangs on purpose must notice
    while it does nothing. `gone` is set at the peer's FIN, RST or TLS close; `ending` then says which.
    """

    def __init__(self, on_open: Callable[[Pipe], None] | None = None) -> None:
        self.transport: asyncio.Transport | None = None
        self.gone = asyncio.Event()
        self.ending: Ending | None = None
        self.sent_bytes = 0
        self._on_open = on_open
        self._buffer = bytearray()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        # Small chunks must leave as they are written: Nagle would merge them and hide the borders under test.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._readable.set()

    def eof_received(self) -> bool:
        self._depart("closed")
        # Plain TCP stays open for writing after the peer's FIN; TLS cannot, and warns when asked to.
        # (Asked while it closes already, asyncio's TLS transport raises.)
        return not self.open.is_closing() and self.open.get_extra_info("ssl_object") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._depart("reset" if isinstance(exc, OSError) else "closed")
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _depart(self, ending: Ending) -> None:
        if self.ending is None:
            self.ending = ending
        self.gone.set()
        self._readable.set()

    # -- for the fakes

    @property
    def open(self) -> asyncio.Transport:
        """The transport of a connection that was made."""
        assert self.transport is not None
        return self.transport

    async def read(self) -> bytes:
        """Everything that has arrived, waiting for at least one byte; empty once the peer is gone."""
        await self._readable.wait()
        data = bytes(self._buffer)
        self._buffer.clear()
        if not self.gone.is_set():
            self._readable.clear()
        return data

    def unread(self, data: bytes) -> None:
        """Put bytes back in front of the buffer: the start of the next message."""
        if data:
            self._buffer[:0] = data
            self._readable.set()

    def write(self, data: bytes) -> None:
        if data and not self.open.is_closing():
            self.open.write(data)
            self.sent_bytes += len(data)

    async def drain(self) -> None:
        """Wait until the peer takes more; returns at once when it is gone."""
        await self._writable.wait()

    def close(self) -> None:
        """End politely: flush, then FIN."""
        self.open.close()

    def reset(self) -> None:
        """End rudely: what is not sent yet is lost and the peer sees `ECONNRESET`."""
        sock = self.open.get_extra_info("socket")
        if sock is not None and sock.fileno() >= 0:
            # Linger on, for zero seconds: the kernel answers close() with RST instead of FIN.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.open.abort()
