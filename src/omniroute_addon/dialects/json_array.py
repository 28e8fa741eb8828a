"""A stream that is one JSON array, cut into its elements: Gemini's `streamGenerateContent` without `alt=sse`.

The same contract as `SseSplitter`: all pieces together are the input. A piece is an element together with the
separators before it; the closing bracket is a piece of its own.
"""

from __future__ import annotations

import re

from .sse import FRAME_LIMIT_BYTES, Piece

_INTERESTING = re.compile(rb'["{}\[\]]')
_STRING_END = re.compile(rb'["\\]')
_SEPARATORS = b" \t\r\n,["


class JsonArraySplitter:
    """Counts brackets outside strings; everything between two interesting bytes is skipped by the regex engine."""

    def __init__(self, limit: int = FRAME_LIMIT_BYTES) -> None:
        self._limit = limit
        self._buffer = b""
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self._long = False

    @property
    def pending(self) -> int:
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Piece]:
        buffer = self._buffer + data
        pieces: list[Piece] = []
        start, at = 0, self._scanned
        while at < len(buffer):
            match = (_STRING_END if self._in_string else _INTERESTING).search(buffer, at)
            if match is None:
                at = len(buffer)
                break
            at = match.end()
            if self._step(match.group()):
                pieces.append(Piece(buffer[start:at], self._long or at - start > self._limit))
                self._long = False
                start = at
            elif match.group() == b"\\":
                # The escaped byte may not have come yet; `_scanned` then points behind the end, past that byte.
                at += 1
        self._buffer = buffer[start:]
        self._scanned = at - start
        if self._long or len(self._buffer) > self._limit:
            self._long = True
            pieces.append(Piece(self._buffer, long=True, ends=False))
            self._scanned -= len(self._buffer)
            self._buffer = b""
        return pieces

    def rest(self) -> bytes:
        return self._buffer

    def _step(self, byte: bytes) -> bool:
        """Follow one interesting byte; say whether it ends an element or the array."""
        if byte == b'"':
            self._in_string = not self._in_string
        elif byte in (b"{", b"["):
            self._depth += 1
        elif byte in (b"}", b"]"):
            self._depth -= 1
            return self._depth <= 1
        return False


def element(raw: bytes) -> bytes:
    """The JSON text of a piece, without separators; empty for the closing bracket."""
    text = raw.lstrip(_SEPARATORS).rstrip()
    return b"" if text == b"]" else text
