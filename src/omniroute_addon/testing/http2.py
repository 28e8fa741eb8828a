"""The fake upstream's HTTP/2 side: each stream is answered by the script, all of them at the same time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame

from .pipe import Pipe
from .play import play
from .script import Headers, Outcome, Reply

if TYPE_CHECKING:
    from .upstream import FakeUpstream


async def serve_http2(pipe: Pipe, upstream: FakeUpstream, connection: int) -> None:
    """Answer streams until the connection ends."""
    await _Connection(pipe, upstream, connection).serve()


@dataclass(slots=True)
class _Request:
    headers: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)


class _Connection:
    def __init__(self, pipe: Pipe, upstream: FakeUpstream, number: int) -> None:
        self.pipe = pipe
        self.upstream = upstream
        self.number = number
        # Outbound checks are off: what is wrong here is wrong on purpose.
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False,
                header_encoding="utf-8",
                validate_outbound_headers=False,
                normalize_outbound_headers=True,
            )
        )
        self.requests: dict[int, _Request] = {}
        self.channels: dict[int, _Channel] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.close_on_next = False

    async def serve(self) -> None:
        if self.upstream.max_concurrent_streams is not None:
            limit = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self.upstream.max_concurrent_streams}
            # Replaced as a whole: an item set here would wait for an acknowledgement before it is announced.
            self.h2.local_settings = h2.settings.Settings(client=False, initial_values=limit)
        self.h2.initiate_connection()
        self.flush()
        try:
            while data := await self.pipe.read():
                try:
                    events = self.h2.receive_data(data)
                except h2.exceptions.ProtocolError:
                    self.flush()
                    break
                for event in events:
                    self.handle(event)
                self.flush()
                if self.pipe.open.is_closing():
                    break
        finally:
            for channel in self.channels.values():
                channel.leave(None)
            if self.tasks:
                await asyncio.wait(self.tasks)
            self.pipe.close()

    def handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=int(stream), headers=list(headers)):
                if self.close_on_next:
                    self.upstream.races += 1
                    self.pipe.close()
                    return
                self.requests[stream] = _Request([(_text(name), _text(value)) for name, value in headers])
            case h2.events.DataReceived(stream_id=int(stream), data=bytes(data)):
                self.h2.acknowledge_received_data(event.flow_controlled_length or 0, stream)
                if stream in self.requests:
                    self.requests[stream].body += data
            case h2.events.StreamEnded(stream_id=int(stream)):
                if (request := self.requests.pop(stream, None)) is not None:
                    self.answer(stream, request)
            case h2.events.StreamReset(stream_id=int(stream)):
                self.requests.pop(stream, None)
                if (channel := self.channels.get(stream)) is not None:
                    channel.leave(int(event.error_code))
            case h2.events.ConnectionTerminated():
                for channel in self.channels.values():
                    channel.leave(None)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                for channel in self.channels.values():
                    channel.window.set()

    def answer(self, stream: int, raw: _Request) -> None:
        pseudo = {name: value for name, value in raw.headers if name.startswith(":")}
        request = self.upstream.receive(
            connection=self.number,
            http_version="2",
            method=pseudo.get(":method", ""),
            path=pseudo.get(":path", ""),
            authority=pseudo.get(":authority", ""),
            headers=tuple((name, value) for name, value in raw.headers if not name.startswith(":")),
            body=bytes(raw.body),
            pipe=self.pipe,
        )
        reply = self.upstream.answer(request)
        channel = self.channels[stream] = _Channel(self, stream, reply)

        async def respond() -> None:
            try:
                await play(reply, request, channel)
            except Exception as error:  # noqa: BLE001 (told to the test; the client must not wait for it)
                self.upstream.crash(error, self.pipe)
            finally:
                del self.channels[stream]
            if request.outcome == "complete" and reply.close_on_next:
                self.close_on_next = True

        # Not eager: the channel must not write while events of the same read are still being handled.
        task = asyncio.Task(respond())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def flush(self) -> None:
        self.pipe.write(self.h2.data_to_send())


class _Channel:
    """`play.Channel` over one HTTP/2 stream."""

    def __init__(self, connection: _Connection, stream: int, reply: Reply) -> None:
        self.connection = connection
        self.h2 = connection.h2
        self.stream = stream
        self.gone = asyncio.Event()
        self.window = asyncio.Event()
        self._rst_code: int | None = None
        self._announce_length = not reply.chunks and not reply.trailers and reply.framing in (None, "length")

    def leave(self, rst_code: int | None) -> None:
        self._rst_code = rst_code
        self.gone.set()
        self.window.set()

    def departure(self) -> tuple[Outcome, int | None]:
        if self._rst_code is not None:
            return "client_rst_stream", self._rst_code
        return ("client_reset" if self.connection.pipe.ending == "reset" else "client_closed"), None

    def informational(self, status: int, headers: Headers) -> None:
        self.h2.send_headers(self.stream, [(":status", str(status)), *headers])
        self.connection.flush()

    def head(self, reply: Reply) -> None:
        headers = [(":status", str(reply.status)), *reply.headers]
        if self._announce_length and not any(name.lower() == "content-length" for name, _ in reply.headers):
            headers.append(("content-length", str(reply.body_bytes + reply.length_lie)))
        if not self.gone.is_set():
            self.h2.send_headers(self.stream, headers)
            self.connection.flush()

    async def data(self, data: bytes) -> None:
        while data and not self.gone.is_set():
            room = min(self.h2.local_flow_control_window(self.stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                self.window.clear()
                await self.window.wait()
                continue
            self.h2.send_data(self.stream, data[:room])
            data = data[room:]
            self.connection.flush()
            await self.connection.pipe.drain()

    def end(self, reply: Reply) -> None:
        if self.gone.is_set():
            return
        if reply.trailers:
            self.h2.send_headers(self.stream, list(reply.trailers), end_stream=True)
        else:
            self.h2.end_stream(self.stream)
        self.connection.flush()

    def raw(self, data: bytes) -> None:
        self.connection.pipe.write(data)

    async def settle(self) -> None:
        await self.connection.pipe.drain()

    def close(self) -> None:
        self.connection.pipe.close()

    def reset(self) -> None:
        self.connection.pipe.reset()

    def reset_stream(self, code: int) -> None:
        self.h2.reset_stream(self.stream, code)
        self.connection.flush()

    def go_away(self, code: int, processed: bool) -> None:
        # h2 refuses to send anything after its own GOAWAY; a server that finishes its streams first does just that.
        last = self.stream if processed else max(0, self.stream - 2)
        self.connection.pipe.write(GoAwayFrame(0, last_stream_id=last, error_code=code).serialize())


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
