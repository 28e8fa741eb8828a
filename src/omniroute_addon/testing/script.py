"""What a fake upstream says: replies as frozen values, faults included, and the script that picks one per request.

A reply is a line of steps. Bytes are sent as one piece each; everything else is a thing that goes wrong or takes time:

    Reply(chunks=(b"data: {}\\n\\n", Pause(0.2), Reset()))           # an event, a silence, a connection reset
    Reply(before=(Hang(),))                                        # accepts the request, never answers
    Reply(status=429, headers=(("retry-after", "10"),), body=b"{}")
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Pause:
    """Say nothing for a while."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """Say nothing until the client goes away."""


@dataclass(frozen=True, slots=True)
class Await:
    """Say nothing until the test sets the event: a pause without a clock."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Reset:
    """RST the whole connection (HTTP/2: with all its streams)."""


@dataclass(frozen=True, slots=True)
class Close:
    """FIN without finishing the message."""


@dataclass(frozen=True, slots=True)
class ResetStream:
    """RST_STREAM with an HTTP/2 error code (7 is REFUSED_STREAM, 2 INTERNAL_ERROR); over HTTP/1 the same as `Reset`."""

    code: int = 2


@dataclass(frozen=True, slots=True)
class GoAway:
    """GOAWAY with an HTTP/2 error code; the stream itself goes on, for clients that listen (h2, so also mitmproxy, does
    not). Over HTTP/1 nothing happens.

    `processed=False` tells the client that this request was not looked at and may be sent again.
    """

    code: int = 0
    processed: bool = True


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes on the wire below all framing: garbage, half a chunk header, a broken frame."""

    data: bytes


Step = bytes | Pause | Hang | Await | Reset | Close | ResetStream | GoAway | Raw
Framing = Literal["length", "chunked", "until_eof"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer, honest or broken."""

    status: int = 200
    headers: Headers = (("content-type", "application/json"),)
    body: bytes = b""
    """Sent before `chunks`; cut by `split_every` or `split_at`."""
    chunks: tuple[Step, ...] = ()
    """Pieces of the body, each sent by itself, and what happens between them."""
    before: tuple[Step, ...] = ()
    """What happens before the head."""
    informational: tuple[tuple[int, Headers], ...] = ()
    """1xx answers before the head: `((100, ()), (103, (("link", "…"),)))`."""
    trailers: Headers = ()
    framing: Framing | None = None
    """HTTP/1 only. None: `length` for a plain body, `chunked` when there are `chunks` or `trailers`."""
    length_lie: int = 0
    """Added to the true `content-length`: negative announces too little, positive too much."""
    http_version: Literal["1.1", "1.0"] = "1.1"
    close: bool = False
    """Say `connection: close` and do it (HTTP/1)."""
    close_on_next: bool = False
    """Keep the connection alive, then close it in the moment when the next request arrives: the keep-alive race."""
    split_every: int | None = None
    """Cut `body` into pieces of so many bytes."""
    split_at: tuple[int, ...] = ()
    """Cut `body` at these offsets."""
    wire_every: int | None = None
    """Write the whole answer, head and framing included, in pieces of so many bytes (HTTP/1)."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Body and chunks in the order in which they are sent."""
        return (*_pieces(self.body, self.split_every, self.split_at), *self.chunks)

    @property
    def body_bytes(self) -> int:
        """Length of everything that is sent as body."""
        return len(self.body) + sum(len(step) for step in self.chunks if isinstance(step, bytes))


def _pieces(body: bytes, every: int | None, at: Sequence[int]) -> tuple[bytes, ...]:
    if not body:
        return ()
    borders = sorted({0, len(body), *at, *(range(0, len(body), every) if every else ())})
    borders = [b for b in borders if 0 <= b <= len(body)]
    return tuple(body[start:end] for start, end in pairwise(borders))


Outcome = Literal["answering", "complete", "client_closed", "client_reset", "client_rst_stream", "broken_by_script"]


@dataclass(slots=True, kw_only=True)
class Received:
    """A request as the upstream got it, and what became of the answer. Grows while the answer is under way."""

    number: int
    """From 1, over all connections of this upstream."""
    connection: int
    """From 1; two requests with the same number shared a connection."""
    http_version: Literal["1.1", "2"]
    method: str
    path: str
    """With query."""
    authority: str
    """`host` header or `:authority`."""
    headers: Headers
    """Names in lower case, in the order received, HTTP/2 pseudo headers left out."""
    body: bytes
    sni: str | None
    """Server name of the TLS handshake; None over plain TCP."""
    at: float = field(default_factory=time.monotonic)
    """`time.monotonic()` when the request was complete."""
    outcome: Outcome = "answering"
    rst_code: int | None = None
    """HTTP/2 error code of the client's RST_STREAM."""
    sent_bytes: int = 0
    """Body bytes that were handed to the socket before the end."""
    ended_at: float | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the answer is over, whoever ended it."""

    @property
    def cancelled(self) -> bool:
        """The client went away before the answer was complete."""
        return self.outcome in ("client_closed", "client_reset", "client_rst_stream")

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    @property
    def key(self) -> str | None:
        """The credential, wherever a provider may want it: header or `key=` in the query."""
        if (authorization := self.header("authorization")) is not None:
            return authorization.partition(" ")[2] or authorization
        for name in ("x-api-key", "x-goog-api-key", "api-key"):
            if (value := self.header(name)) is not None:
                return value
        return parse_qs(urlsplit(self.path).query).get("key", [None])[0]

    def json(self) -> Any:
        """The body, parsed. Raises ValueError when it is no JSON."""
        return json.loads(self.body)

    def finish(self, outcome: Outcome) -> None:
        """Note the end of the answer; only the first call counts."""
        if self.outcome == "answering":
            self.outcome = outcome
            self.ended_at = time.monotonic()
            self.ended.set()


Answers = Reply | Sequence[Reply] | Callable[[Received], Reply]
"""One reply for every request, one after the other, or a function."""


@dataclass(slots=True)
class _Line:
    key: str | None
    path: str | None
    answers: Answers
    used: int = 0

    def wants(self, request: Received) -> bool:
        if self.key is not None and request.key != self.key:
            return False
        return self.path is None or urlsplit(request.path).path == self.path

    def next(self, request: Received) -> Reply | None:
        if isinstance(self.answers, Reply):
            return self.answers
        if callable(self.answers):
            return self.answers(request)
        if self.used == len(self.answers):
            return None
        self.used += 1
        return self.answers[self.used - 1]


@dataclass(slots=True)
class Script:
    """Which reply answers which request. The most recent line that fits a request decides."""

    lines: list[_Line] = field(default_factory=list)
    unscripted: list[Received] = field(default_factory=list)
    """Requests that nothing was scripted for; they got a loud 599."""

    def add(self, answers: Answers, *, key: str | None = None, path: str | None = None) -> None:
        """Answer requests with this credential and this path (without query); None fits all."""
        self.lines.append(_Line(key, path, answers))

    def answer(self, request: Received) -> Reply:
        """The reply to a request; 599 when no line fits or its list is used up."""
        for line in reversed(self.lines):
            if line.wants(request):
                if (reply := line.next(request)) is not None:
                    return reply
                break
        self.unscripted.append(request)
        return json_reply({"error": {"message": f"nothing scripted for {request.method} {request.path}"}}, status=599)


def json_reply(value: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A whole JSON answer with `content-type: application/json` and further headers."""
    body = json.dumps(value, ensure_ascii=False).encode()
    return Reply(status=status, headers=(("content-type", "application/json"), *(headers or {}).items()), body=body)
