"""An event stream, cut into frames at any byte, in bounded memory (`ST-1`, `ST-2`).

Sans-io: bytes go in, pieces come out, and all pieces together are the bytes that went in. A frame ends at a blank
line, where a line ends with LF, CR LF or CR. A CR that is the last byte received is left undecided, because an LF may
follow that belongs to it.

A frame longer than the limit comes out in several pieces that are marked `long`: its bytes never pile up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

FRAME_LIMIT_BYTES = 64 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
# The first line end is atomic: otherwise CR LF, one line end, would match as CR and LF, two of them.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?:\r\n|\n|\r(?=[^\n]))")
_UNDECIDED_BYTES = 3  # CR LF CR may become a blank line
_BOM = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """A whole frame, or a part of one that is longer than the limit."""

    raw: bytes
    """The bytes as received, blank line included."""
    long: bool = False
    """Part of a frame that is longer than the limit."""
    ends: bool = True
    """The frame ends with this piece."""


class Splitter(Protocol):
    """Turns a stream into pieces; `"".join(pieces) + rest()` is always the input."""

    @property
    def pending(self) -> int:
        """Number of bytes received that are in no piece yet."""
        ...

    def feed(self, data: bytes) -> list[Piece]:
        """Take the next bytes; return every piece that they complete."""
        ...

    def rest(self) -> bytes:
        """The bytes of a frame that never ended."""
        ...


class SseSplitter:
    """The splitter for `text/event-stream`."""

    def __init__(self, limit: int = FRAME_LIMIT_BYTES) -> None:
        self._limit = limit
        self._buffer = b""
        self._long = False

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Piece]:
        # Only the last few old bytes can be part of a blank line that is completed now.
        searched = max(0, len(self._buffer) - _UNDECIDED_BYTES)
        buffer = self._buffer + data
        pieces: list[Piece] = []
        start = 0
        while match := _BLANK_LINE.search(buffer, searched):
            end = searched = match.end()
            long = self._long or end - start > self._limit
            pieces.append(Piece(buffer[start:end], long))
            self._long = False
            start = end
        self._buffer = buffer[start:]
        if self._long or len(self._buffer) > self._limit:
            self._long = True
            # Line ends at the very end may be half of the blank line.
            size = len(self._buffer.rstrip(b"\r\n"))
            if size:
                pieces.append(Piece(self._buffer[:size], long=True, ends=False))
                self._buffer = self._buffer[size:]
        return pieces

    def rest(self) -> bytes:
        return self._buffer


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One frame, read by the rules of the event stream format."""

    name: str = ""
    """Value of `event:`."""
    data: bytes | None = None
    """All `data:` lines joined with LF; None without any."""
    comment: bool = False
    """It has a comment line."""
    bare: bool = False
    """`data` is JSON text that stood outside any `data:` line, as Gemini sends errors."""


def parse_event(raw: bytes) -> SseEvent:
    """Read one whole frame. Never raises: an unknown field is ignored, as the format demands."""
    name = ""
    data: list[bytes] = []
    stray: list[bytes] = []
    comment = False
    for line in _LINE_END.split(raw.removeprefix(_BOM)):
        if not line:
            continue
        field, _, value = line.partition(b":")
        match field:
            case b"data":
                data.append(value.removeprefix(b" "))
            case b"event":
                name = value.decode("utf-8", "replace").strip()
            case b"":
                comment = True
            case b"id" | b"retry":
                pass
            case _:
                stray.append(line)
    if not data and stray and stray[0].lstrip().startswith((b"{", b"[")):
        return SseEvent(name, b"\n".join(stray), comment, bare=True)
    return SseEvent(name, b"\n".join(data) if data else None, comment)
