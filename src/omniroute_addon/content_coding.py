"""Content codings, bounded: what a request body or an answer says once gzip, br, zstd or deflate are taken off.

mitmproxy's own decoder has no limit, and a body is a stranger's: a few kilobytes of zstd can hold gigabytes.
"""

from __future__ import annotations

import zlib
from typing import Any, Protocol

import brotli
import zstandard

CODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd")


class Decoder(Protocol):
    """Takes a coding off piece by piece."""

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes; raises ValueError when they are not what the coding says."""
        ...


class _Members:
    """What may be several compressed members or frames in a row (RFC 1952, RFC 8878); anything else behind one is nobody's."""

    _object: Any

    def __init__(self, limit: int) -> None:
        self._room = limit
        self._members, self._said, self._over = 0, False, False
        self._begin()

    def _begin(self) -> None:
        """A decoder for the next member."""
        raise NotImplementedError

    def _piece(self, data: bytes) -> bytes:
        """What the member says next."""
        raise NotImplementedError

    def _feed(self, data: bytes) -> bytes:
        out = bytearray()
        while data and not self._over:
            if self._object.eof:
                self._begin()
                self._said = False
                self._members += 1
            try:
                piece = self._piece(data)
            except (zlib.error, zstandard.ZstdError) as error:
                if not self._members or self._said:
                    raise ValueError(str(error)) from None
                self._over = True
                break
            self._said = self._said or bool(piece)
            self._room = _spend(self._room, len(piece))
            out += piece
            data = self._object.unused_data
        return bytes(out)


class _Zlib(_Members):
    """gzip, and deflate with or without zlib's frame: many servers leave it out, and clients take both."""

    _SLICE = 4096
    """What is behind a member is copied, so the pieces are small."""

    def __init__(self, wbits: int, limit: int) -> None:
        self._wbits, self._head = wbits, b""
        super().__init__(limit)

    def feed(self, data: bytes) -> bytes:
        out = bytearray()
        for start in range(0, len(data), self._SLICE):
            out += self._feed(self._framed(data[start : start + self._SLICE]))
        return bytes(out)

    def _framed(self, data: bytes) -> bytes:
        if self._wbits != zlib.MAX_WBITS or len(self._head) >= 2:
            return data
        before, self._head = len(self._head), self._head + data[:2]
        if before == 0 and len(data) < 2:
            return b""
        data = self._head[:before] + data
        # No text of ours begins a bare deflate stream with these two: it is not coded at all.
        if int.from_bytes(data[:2]) % 31 or data[0] & 15 != 8:
            if data[:1] in (b"{", b"["):
                raise ValueError("not coded")
            self._object = zlib.decompressobj(-zlib.MAX_WBITS)
        return data

    def _begin(self) -> None:
        self._object = zlib.decompressobj(self._wbits)

    def _piece(self, data: bytes) -> bytes:
        piece: bytes = self._object.decompress(data, self._room + 1)
        return piece


class _Brotli:
    def __init__(self, limit: int) -> None:
        self._object, self._room = brotli.Decompressor(), limit

    def feed(self, data: bytes) -> bytes:
        try:
            out: bytes = self._object.process(data, output_buffer_limit=self._room + 1)
        except brotli.error as error:
            raise ValueError(str(error)) from None
        self._room = _spend(self._room, len(out))
        return out


class _Zstd(_Members):
    """zstandard's decoder has no output limit, so it is fed in slices that cannot blow up beyond some megabytes:
    a block of 128 KiB takes at least four bytes."""

    _SLICE = 64

    def __init__(self, limit: int) -> None:
        super().__init__(limit)

    def feed(self, data: bytes) -> bytes:
        return b"".join(self._feed(data[at : at + self._SLICE]) for at in range(0, len(data), self._SLICE))

    def _begin(self) -> None:
        self._object = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj()

    def _piece(self, data: bytes) -> bytes:
        piece: bytes = self._object.decompress(data)
        return piece


class _Chain:
    """Several codings, as listed in `content-encoding`: the last one comes off first."""

    def __init__(self, decoders: list[Decoder]) -> None:
        self._decoders = decoders

    def feed(self, data: bytes) -> bytes:
        for decoder in self._decoders:
            data = decoder.feed(data)
        return data


def _spend(room: int, size: int) -> int:
    if size > room:
        raise ValueError("decoded body is too large")
    return room - size


def decoder(coding: str, *, limit: int) -> Decoder | None:
    """A decoder for a `content-encoding` value, or None for identity. ValueError for one that we do not know."""
    names = [name for name in (part.strip().lower() for part in coding.split(",")) if name not in ("", "identity")]
    if len(names) > 4:
        raise ValueError(f"{len(names)} content codings on one body")
    decoders: list[Decoder] = []
    for name in reversed(names):
        if name in ("gzip", "x-gzip"):
            decoders.append(_Zlib(16 + zlib.MAX_WBITS, limit))
        elif name == "deflate":
            decoders.append(_Zlib(zlib.MAX_WBITS, limit))
        elif name == "br":
            decoders.append(_Brotli(limit))
        elif name == "zstd":
            decoders.append(_Zstd(limit))
        else:
            raise ValueError(f"unknown content coding '{name}'; known are {', '.join(CODINGS)}")
    return _Chain(decoders) if decoders else None


def is_known(coding: str) -> bool:
    """Whether `decoder` would take this `content-encoding`."""
    try:
        decoder(coding, limit=0)
    except ValueError:
        return False
    return True


def decode(data: bytes, coding: str, *, limit: int) -> bytes:
    """The whole body without its codings. ValueError when it cannot be read or is larger than `limit` bytes."""
    chain = decoder(coding, limit=limit)
    return chain.feed(data) if chain else data


def decode_leniently(data: bytes, coding: str, *, limit: int) -> bytes:
    """As `decode`, for reading an error: what can be read of a broken or oversized body, else the raw bytes."""
    try:
        chain = decoder(coding, limit=limit)
    except ValueError:
        return data
    if chain is None:
        return data[:limit]
    out = bytearray()
    try:
        for start in range(0, len(data), 4096):
            out += chain.feed(data[start : start + 4096])
    except ValueError:
        return bytes(out[:limit]) or data[:limit]
    return bytes(out)
