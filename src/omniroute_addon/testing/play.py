"""Plays one reply on one channel, step by step, and notices at every step that the client is gone."""

from __future__ import annotations

import asyncio
from typing import Protocol

from .script import Await, Close, GoAway, Hang, Headers, Outcome, Pause, Raw, Received, Reply, Reset, ResetStream, Step

LOOP_TURNS = 4
"""Turns of the event loop between two pieces, so that a reader in the same loop sees them as two."""


class Channel(Protocol):
    """The way back to the client: an HTTP/1 connection or an HTTP/2 stream."""

    gone: asyncio.Event
    """Set when the client cancelled this exchange or left."""

    def departure(self) -> tuple[Outcome, int | None]: ...
    def informational(self, status: int, headers: Headers) -> None: ...
    def head(self, reply: Reply) -> None: ...
    async def data(self, data: bytes) -> None: ...
    def end(self, reply: Reply) -> None: ...
    def raw(self, data: bytes) -> None: ...
    async def settle(self) -> None: ...
    def close(self) -> None: ...
    def reset(self) -> None: ...
    def reset_stream(self, code: int) -> None: ...
    def go_away(self, code: int, processed: bool) -> None: ...


class _Gone(Exception):
    """The client is not there any more."""


class _Broken(Exception):
    """The script ended the exchange."""


async def play(reply: Reply, request: Received, channel: Channel) -> None:
    """Send the reply; the outcome is noted in `request`."""
    try:
        for step in reply.before:
            await _step(step, request, channel)
        for status, headers in reply.informational:
            channel.informational(status, headers)
        channel.head(reply)
        await channel.settle()
        for step in reply.steps:
            await _step(step, request, channel)
        channel.end(reply)
        await channel.settle()
        request.finish("complete")
    except _Broken:
        request.finish("broken_by_script")
    except _Gone:
        outcome, request.rst_code = channel.departure()
        request.finish(outcome)


async def _step(step: Step, request: Received, channel: Channel) -> None:
    if channel.gone.is_set():
        raise _Gone
    match step:
        case bytes():
            await channel.data(step)
            if not channel.gone.is_set():
                request.sent_bytes += len(step)
            for _ in range(LOOP_TURNS):
                await asyncio.sleep(0)
        case Raw(data):
            channel.raw(data)
            await channel.settle()
        case Pause(seconds):
            await _unless_gone(asyncio.Event(), channel, seconds)
        case Await(event):
            await _unless_gone(event, channel, None)
        case Hang():
            await channel.gone.wait()
            raise _Gone
        case Close():
            channel.close()
            raise _Broken
        case Reset():
            channel.reset()
            raise _Broken
        case ResetStream(code):
            channel.reset_stream(code)
            raise _Broken
        case GoAway(code, processed):
            channel.go_away(code, processed)


async def _unless_gone(event: asyncio.Event, channel: Channel, seconds: float | None) -> None:
    waiters = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(channel.gone.wait())]
    try:
        await asyncio.wait(waiters, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiters:
            waiter.cancel()
    if channel.gone.is_set():
        raise _Gone
