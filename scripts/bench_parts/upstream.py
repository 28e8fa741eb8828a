"""The lean upstream of `bench.py`: one process, one asyncio protocol, no parsing beyond what the answers need.

Prints its port and serves until its standard input ends. What it answers is said by the request itself:

* `authorization: Bearer limited` -> 429; `Bearer reset` -> the connection is reset
* model `stream-<chunks>-<pause in ms>` -> an event stream with that many chunks, the first one at once
* anything else -> a small chat completion
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import sys

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_STREAM = re.compile(rb'"model": ?"stream-(\d+)-(\d+)"')
_LINGER_OFF = struct.pack("ii", 1, 0)


def _answer(status: str, body: bytes, *, extra: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{extra}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


_TEXT = "The quick brown fox jumps over the lazy dog. " * 8
_COMPLETION = _answer(
    "200 OK",
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"fast","choices":[{"index":0,"message":'
    b'{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":300,'
    b'"completion_tokens":90,"total_tokens":390}}' % _TEXT.encode(),
)
_LIMITED = _answer(
    "429 Too Many Requests",
    b'{"error":{"message":"Rate limit reached for requests","type":"requests","param":null,'
    b'"code":"rate_limit_exceeded"}}',
    extra="retry-after: 1\r\n",
)
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


_FRAME = _chunk(
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fast","choices":[{"index":0,'
    b'"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
_LAST_FRAME = _chunk(
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"fast","choices":[{"index":0,'
    b'"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)
_STREAM_END = b"0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._buffer = b""
        self._streams: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for stream in self._streams:
            stream.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            head = self._buffer[:end]
            length = _LENGTH.search(head)
            total = end + 4 + (int(length[1]) if length else 0)
            if len(self._buffer) < total:
                return
            body, self._buffer = self._buffer[end + 4 : total], self._buffer[total:]
            self._serve(head, body)

    def _serve(self, head: bytes, body: bytes) -> None:
        if b"Bearer limited" in head:
            self._transport.write(_LIMITED)
        elif b"Bearer reset" in head:
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_OFF)  # close() sends RST, not FIN
            self._transport.abort()
        elif wanted := _STREAM.search(body):
            task = asyncio.get_running_loop().create_task(self._stream(int(wanted[1]), int(wanted[2]) / 1000))
            self._streams.add(task)
            task.add_done_callback(self._streams.discard)
        else:
            self._transport.write(_COMPLETION)

    async def _stream(self, chunks: int, pause: float) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._transport.write(_STREAM_HEAD)
        for number in range(1, chunks):
            self._transport.write(_FRAME)
            await asyncio.sleep(max(0.0, started + number * pause - loop.time()))
        self._transport.write(_LAST_FRAME + _STREAM_END)


async def main() -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Upstream, "127.0.0.1", 0, backlog=512) for _ in range(2)]
    print([server.sockets[0].getsockname()[1] for server in servers], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
