"""HTTP/1 messages read byte by byte, for both ends: the fake upstream's requests and the recording client's answers.

Strict on purpose and without any repair: what a lenient library would forgive is what the tests look for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .script import Headers

State = Literal["head", "length", "chunk_size", "chunk_data", "chunk_end", "trailers", "until_eof", "done"]


class BadMessage(ValueError):
    """These bytes are no HTTP/1 message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Start line and headers."""

    start: tuple[str, str, str]
    """The three words of the first line."""
    headers: Headers
    """Names in lower case."""

    def get(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(slots=True)
class MessageReader:
    """Feed bytes; look at `heads`, `body`, `trailers`, `done`. Bytes behind the message stay in `rest`."""

    role: Literal["request", "response"]
    bodyless: bool = False
    """The answer to HEAD, or to a successful CONNECT: no body whatever the headers say."""
    informational: list[Head] = field(default_factory=list)
    head: Head | None = None
    body: bytearray = field(default_factory=bytearray)
    trailers: Headers = ()
    rest: bytearray = field(default_factory=bytearray)
    state: State = "head"
    _left: int = 0

    @property
    def done(self) -> bool:
        return self.state == "done"

    def feed(self, data: bytes) -> bytes:
        """Take bytes; returns the body bytes that became known. Raises BadMessage."""
        self.rest += data
        before = len(self.body)
        while self._advance():
            pass
        return bytes(self.body[before:])

    def eof(self) -> bool:
        """The peer ended the connection; True when the message is complete with that."""
        if self.state == "until_eof":
            self.state = "done"
        return self.done

    def _advance(self) -> bool:
        match self.state:
            case "head":
                return self._read_head()
            case "length" | "chunk_data":
                return self._read_counted()
            case "chunk_size":
                return self._read_chunk_size()
            case "chunk_end":
                return self._read_chunk_end()
            case "trailers":
                return self._read_trailers()
            case "until_eof":
                self.body += self.rest
                self.rest.clear()
                return False
            case "done":
                return False

    def _line(self) -> str | None:
        end = self.rest.find(b"\r\n")
        if end < 0:
            return None
        line = self.rest[:end].decode("latin-1")
        del self.rest[: end + 2]
        return line

    def _read_head(self) -> bool:
        end = self.rest.find(b"\r\n\r\n")
        if end < 0:
            if self.rest and not self.rest[:1].isalpha():
                raise BadMessage(f"no start line: {bytes(self.rest[:40])!r}")
            return False
        first, *lines = self.rest[:end].decode("latin-1").split("\r\n")
        del self.rest[: end + 4]
        words = first.split(" ", 2)
        if len(words) == 2 and self.role == "response":
            words.append("")
        if len(words) != 3 or not (words[0] if self.role == "response" else words[2]).startswith("HTTP/1."):
            raise BadMessage(f"no start line: {first!r}")
        head = Head(start=(words[0], words[1], words[2]), headers=_headers(lines))
        if self.role == "response" and head.start[1].startswith("1") and head.start[1] != "101":
            self.informational.append(head)
            return True
        self.head = head
        self._choose_framing(head)
        return True

    def _choose_framing(self, head: Head) -> None:
        no_body = self.bodyless or (self.role == "response" and head.start[1] in ("204", "304"))
        length = head.get("content-length")
        if no_body:
            self.state = "done"
        elif "chunked" in (head.get("transfer-encoding") or ""):
            self.state = "chunk_size"
        elif length is not None:
            if not length.isdecimal():
                raise BadMessage(f"content-length: {length!r}")
            self._left = int(length)
            self.state = "length" if self._left else "done"
        else:
            self.state = "done" if self.role == "request" else "until_eof"

    def _read_counted(self) -> bool:
        taken = self.rest[: self._left]
        self.body += taken
        del self.rest[: len(taken)]
        self._left -= len(taken)
        if self._left:
            return False
        self.state = "done" if self.state == "length" else "chunk_end"
        return True

    def _read_chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        try:
            self._left = int(line.partition(";")[0], 16)
        except ValueError:
            raise BadMessage(f"chunk size: {line!r}") from None
        self.state = "chunk_data" if self._left else "trailers"
        return True

    def _read_chunk_end(self) -> bool:
        if len(self.rest) < 2:
            return False
        if self.rest[:2] != b"\r\n":
            raise BadMessage(f"chunk is longer than announced: {bytes(self.rest[:20])!r}")
        del self.rest[:2]
        self.state = "chunk_size"
        return True

    def _read_trailers(self) -> bool:
        line = self._line()
        if line is None:
            return False
        if not line:
            self.state = "done"
            return True
        self.trailers = (*self.trailers, *_headers([line]))
        return True


def _headers(lines: list[str]) -> Headers:
    pairs = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadMessage(f"header line: {line!r}")
        pairs.append((name.lower(), value.strip()))
    return tuple(pairs)
