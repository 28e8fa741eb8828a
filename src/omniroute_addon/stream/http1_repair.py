"""What mitmproxy 12.3 gets wrong in answers over HTTP/1, put right for our attempts only.

| an upstream sends | mitmproxy | we |
|---|---|---|
| `100 Continue`, `103 Early Hints` before the answer | takes it for the answer, then waits for ever | skip it |
| trailers behind a chunked body | raises inside its own state machine: the exchange hangs | pass them on like HTTP/2's |
| a head without end | reads on until memory is full | fail the attempt at `HEAD_BYTES` |

`install` puts `AttemptHttp1Client` in the place of `Http1Client`. Requests that are not ours keep their own stream ids, by
which they are told apart, and are served by mitmproxy's code alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass

import h11
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import http
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._http1 import Http1Client

from .patience import FIRST_ATTEMPT_ID

Commands = Generator[commands.Command, None, None]

HEAD_BYTES = 256 * 1024
"""Largest head of an answer. Clients stop far earlier (Node at 16 KiB, curl at 300 KiB); HTTP/2 allows 64 KiB here."""

_INFORMATIONAL = re.compile(rb"(?:\r?\n)*HTTP/1\.[01] 1(?!01)\d\d[ \r\n]")
"""A 1xx answer. 101 is none: it is final, and changes the protocol."""
_CHUNK_HEAD = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
"""Of a chunk without extensions."""
_HEAD_END = re.compile(rb"\r?\n\r?\n")


@dataclass
class EndWithTrailers(ResponseEndOfMessage):
    """The end of an answer that had trailers."""

    trailers: http.Headers


class AnswerReader(ChunkedReader):
    """A `ChunkedReader` that keeps the trailers to itself, because mitmproxy's loop raises where it sees any.

    A stream's chunks hardly ever come in pieces. One that is there whole is taken at once: h11 needs four looks and a
    validation for it, and is asked for all else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.trailers: list[tuple[bytes, bytes]] = []

    def __call__(self, buf: ReceiveBuffer) -> h11.Data | h11.EndOfMessage | None:
        if not (self._bytes_in_chunk or self._bytes_to_discard or self._reading_trailer):
            received = buf._data
            if not received:
                return None
            head = _CHUNK_HEAD.match(received)
            size = int(head[1], 16) if head else 0
            if head and size:
                end = head.end() + size
                if received[end : end + 2] == b"\r\n":
                    data = bytes(received[head.end() : end])
                    buf._extract(end + 2)
                    return h11.Data(data=data)
        event: h11.Data | h11.EndOfMessage | None = super().__call__(buf)
        if isinstance(event, h11.EndOfMessage) and event.headers:
            self.trailers = [(bytes(name), bytes(value)) for name, value in event.headers]
            return h11.EndOfMessage()
        return event

    def end(self, stream_id: int) -> ResponseEndOfMessage:
        """What mitmproxy is to report when the body has ended. The next answer on the connection has its own trailers."""
        trailers, self.trailers = self.trailers, []
        return EndWithTrailers(stream_id, http.Headers(trailers)) if trailers else ResponseEndOfMessage(stream_id)


class AttemptHttp1Client(Http1Client):
    """mitmproxy's HTTP/1 client; for a stream id of ours it reads answers as they may be."""

    @property
    def _ours(self) -> bool:
        return self.stream_id is not None and self.stream_id >= FIRST_ATTEMPT_ID

    # Both are plain functions that hand out a generator: one more generator around every event costs more than what they do.

    def read_headers(self, event: events.ConnectionEvent) -> Commands:
        if self._ours and isinstance(event, events.DataReceived):
            while _INFORMATIONAL.match(self._begun(event)) and self.buf.maybe_extract_lines() is not None:
                pass
            if len(self.buf) > HEAD_BYTES and not _HEAD_END.search(bytes(self.buf)):
                return self._refuse_head()
        return super().read_headers(event)

    def _begun(self, event: events.DataReceived) -> bytes:
        return event.data if len(self.buf) == len(event.data) else bytes(self.buf)

    def _refuse_head(self) -> Commands:
        yield commands.CloseConnection(self.conn)
        said = f"the response head is longer than {HEAD_BYTES} bytes"
        assert self.stream_id is not None
        yield ReceiveHttp(ResponseProtocolError(self.stream_id, said, ErrorCode.GENERIC_SERVER_ERROR))
        self.state = self.done

    def read_body(self, event: events.Event) -> Commands:
        if type(self.body_reader) is ChunkedReader and self._ours:  # made for this answer, and not used yet
            self.body_reader = reader = AnswerReader()
            self.ReceiveEndOfMessage = reader.end  # type: ignore[assignment]
        return super().read_body(event)
