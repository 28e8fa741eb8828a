"""The recording client's HTTP/2 side."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from .exchange import Exchange
from .pipe import Pipe
from .script import Headers

_HOP_BY_HOP = ("connection", "host", "transfer-encoding", "keep-alive", "upgrade")


class Http2Client:
    """Any number of requests side by side on one connection."""

    def __init__(self, pipe: Pipe, authority: str) -> None:
        self.pipe = pipe
        self.authority = authority
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="latin-1"))
        self.exchanges: dict[int, Exchange] = {}
        self.went_away: int | None = None
        """Error code of the peer's GOAWAY."""
        self._window = asyncio.Event()
        self.h2.initiate_connection()
        # A test client must never be the reason for back pressure, unless a test makes it so.
        self.h2.increment_flow_control_window(2**30)
        self._flush()
        self._task = asyncio.ensure_future(self._receive())

    async def send(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Exchange:
        stream = self.h2.get_next_available_stream_id()
        pseudo = [(":method", method), (":scheme", "https"), (":authority", self.authority), (":path", path)]
        kept = [(name, value) for name, value in headers.items() if name not in _HOP_BY_HOP]
        exchange = self.exchanges[stream] = Exchange(on_cancel=lambda: self._cancel(stream))
        self.h2.send_headers(stream, pseudo + kept, end_stream=not body)
        self._flush()
        while body and exchange.end is None:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                self._window.clear()
                await self._window.wait()
                continue
            piece, body = body[:room], body[room:]
            self.h2.send_data(stream, piece, end_stream=not body)
            self._flush()
        return exchange

    async def stopped(self) -> None:
        await self._task

    def _cancel(self, stream: int) -> None:
        if self.exchanges.pop(stream, None) is not None:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.CANCEL)
            self._flush()

    def _flush(self) -> None:
        self.pipe.write(self.h2.data_to_send())

    async def _receive(self) -> None:
        ending: str | None = None
        while data := await self.pipe.read():
            try:
                events = self.h2.receive_data(data)
            except h2.exceptions.ProtocolError:
                self._flush()
                self.pipe.close()
                ending = "garbage"
                break
            for event in events:
                self._handle(event)
            self._flush()
        for exchange in self.exchanges.values():
            exchange.finish("garbage" if ending else self.pipe.ending or "closed")
        self.exchanges.clear()
        self._window.set()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._window.set()
            case h2.events.ConnectionTerminated():
                self.went_away = int(event.error_code or 0)
                # h2, here and in mitmproxy, takes no more streams' frames from a peer that said GOAWAY.
                for exchange in self.exchanges.values():
                    exchange.finish("go_away")
                self.pipe.close()
            case h2.events.DataReceived(stream_id=int(stream), data=bytes(data)):
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                if stream in self.exchanges:
                    self.exchanges[stream].saw_data(data)
            case h2.events.ResponseReceived() | h2.events.InformationalResponseReceived():
                if (stream := event.stream_id or 0) in self.exchanges:
                    pairs = _pairs(event.headers)
                    fields = tuple(pair for pair in pairs if not pair[0].startswith(":"))
                    self.exchanges[stream].saw_head(int(dict(pairs)[":status"]), fields)
            case h2.events.TrailersReceived(stream_id=int(stream)):
                if stream in self.exchanges:
                    self.exchanges[stream].trailers = _pairs(event.headers)
            case h2.events.StreamReset(stream_id=int(stream)):
                if stream in self.exchanges:
                    self.exchanges[stream].rst_code = int(event.error_code or 0)
                    self.exchanges.pop(stream).finish("rst_stream")
                self._window.set()
            case h2.events.StreamEnded(stream_id=int(stream)):
                if stream in self.exchanges:
                    self.exchanges.pop(stream).finish("complete")


def _pairs(headers: Iterable[tuple[bytes | str, bytes | str]] | None) -> Headers:
    return tuple((str(name), str(value)) for name, value in headers or [])  # text: the codec is set to decode
