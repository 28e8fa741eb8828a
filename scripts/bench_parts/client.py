"""The lean client of `bench.py`: raw HTTP/1.1 over kept-alive connections, one command a line on standard input.

Commands and answers are JSON objects. `proxy` is the port of the proxy, or 0 to go straight to the upstream.

* `{"do": "load", "proxy": p, "upstream": u, "model": m, "key": k, "concurrency": c, "seconds": s}`
  -> `{"requests": n, "seconds": s, "bad": n}`
* `{"do": "each", …, "count": n}`: one after the other -> `{"first_ms": [...], "total_ms": [...], "bad": n}`
* `{"do": "streams", …, "concurrency": c}`: one stream per connection -> `{"reads": n, "seconds": s, "bad": n}`
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections import defaultdict
from time import perf_counter
from typing import Any

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_QUESTION = "Summarise the following text in one sentence. " + "All work and no play makes Jack a dull boy. " * 30


def request(command: dict[str, Any]) -> bytes:
    """The whole request on the wire; absolute form when there is a proxy."""
    model = command["model"]
    body = json.dumps(
        {
            "model": model,
            "messages": [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": _QUESTION}],
            "temperature": 0.2,
            "stream": model.startswith("stream"),
        }
    )
    host = f"127.0.0.1:{command['upstream']}"
    base = f"http://{host}" if command["proxy"] else ""
    return (
        f"POST {base}/v1/chat/completions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {command['key']}\r\n"
        f"content-type: application/json\r\naccept: */*\r\ncontent-length: {len(body)}\r\n\r\n{body}"
    ).encode()


class Client(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self) -> None:
        self.closed = False
        self._done: asyncio.Future[bool] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        self._finish(False)

    def ask(self, wire: bytes) -> asyncio.Future[bool]:
        """Send; the future is True when a whole 200 came back."""
        self._buffer = b""
        self._needed = -1  # bytes of head and body; 0 for a chunked body
        self.reads = 0
        self.first_at = 0.0
        self._done = asyncio.get_running_loop().create_future()
        if self.closed:
            self._finish(False)
        else:
            self._transport.write(wire)
        return self._done

    def data_received(self, data: bytes) -> None:
        if self._needed:
            self._buffer += data
            if self._needed < 0 and not self._read_head():
                return
        else:
            self._buffer = self._buffer[-8:] + data
        self.reads += 1
        if self._needed:
            if len(self._buffer) >= self._needed:
                self._finish(self._ok)
        elif self._buffer.endswith(b"0\r\n\r\n"):
            self._finish(self._ok)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        length = _LENGTH.search(self._buffer, 0, end)
        if not length and len(self._buffer) == end + 4:
            return False  # the first chunk counts, not the head
        self.first_at = perf_counter()
        self._needed = end + 4 + int(length[1]) if length else 0
        self._ok = self._buffer.startswith(b"HTTP/1.1 200")
        return True

    def _finish(self, good: bool) -> None:
        if self._done and not self._done.done():
            self._done.set_result(good)


class Bench:
    """Keeps connections open between windows."""

    def __init__(self) -> None:
        self._pools: defaultdict[tuple[int, int], list[Client]] = defaultdict(list)

    async def _clients(self, command: dict[str, Any]) -> list[Client]:
        count = command.get("concurrency", 1)
        port = command["proxy"] or command["upstream"]
        pool = self._pools[port, count]
        pool[:] = [client for client in pool if not client.closed]
        while len(pool) < count:
            _, client = await asyncio.get_running_loop().create_connection(Client, "127.0.0.1", port)
            pool.append(client)
        return pool

    async def load(self, command: dict[str, Any]) -> dict[str, Any]:
        wire, clients = request(command), await self._clients(command)
        started = perf_counter()
        until = started + command["seconds"]

        async def keep_asking(client: Client) -> tuple[int, int]:
            good = bad = 0
            while perf_counter() < until and not client.closed:
                if await client.ask(wire):
                    good += 1
                else:
                    bad += 1
            return good, bad

        counts = await asyncio.gather(*map(keep_asking, clients))
        seconds = perf_counter() - started
        return {"requests": sum(g for g, _ in counts), "seconds": seconds, "bad": sum(b for _, b in counts)}

    async def each(self, command: dict[str, Any]) -> dict[str, Any]:
        wire = request(command)
        first_ms: list[float] = []
        total_ms: list[float] = []
        bad = 0
        for _ in range(command["count"]):
            (client,) = await self._clients({**command, "concurrency": 1})
            started = perf_counter()
            if await client.ask(wire):
                first_ms.append((client.first_at - started) * 1000)
                total_ms.append((perf_counter() - started) * 1000)
            else:
                bad += 1
        return {"first_ms": first_ms, "total_ms": total_ms, "bad": bad}

    async def streams(self, command: dict[str, Any]) -> dict[str, Any]:
        wire, clients = request(command), await self._clients(command)
        started = perf_counter()
        good = await asyncio.gather(*(client.ask(wire) for client in clients))
        seconds = perf_counter() - started
        return {"reads": sum(client.reads for client in clients), "seconds": seconds, "bad": good.count(False)}


async def main() -> None:
    bench = Bench()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        answer = await getattr(bench, command["do"])(command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
