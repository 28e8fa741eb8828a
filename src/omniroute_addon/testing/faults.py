"""Broken replies: small makers for single faults, and catalogues of them by name.

    upstream.script([cut(openai_chat("one two three"), after=2, ending=Reset()), openai_chat("fine")])

    @pytest.mark.parametrize("name", BEFORE_OUTPUT)
    async def test_a_fault_before_output_is_survived(name, tls_upstream):
        tls_upstream.script([BEFORE_OUTPUT[name](openai_chat("lost")), openai_chat("fine")])

A catalogue maps a name to a function that breaks a good streamed answer. Nothing in it pauses by the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from .script import Close, GoAway, Hang, Pause, Raw, Reply, Reset, ResetStream, Step


def cut(reply: Reply, *, after: int, ending: Step) -> Reply:
    """The reply's first `after` chunks, then `ending` (`Reset()`, `Close()`, `Hang()`, `ResetStream()`)."""
    return replace(reply, chunks=(*reply.steps[:after], ending), body=b"", framing=reply.framing or "chunked")


def cut_bytes(reply: Reply, *, after: int, ending: Step) -> Reply:
    """The reply's first `after` body bytes, wherever that is, then `ending`."""
    body = b"".join(step for step in reply.steps if isinstance(step, bytes))[:after]
    return replace(reply, body=b"", chunks=(body, ending) if body else (ending,), framing=reply.framing or "chunked")


def drip(reply: Reply, *, every: int, pause_s: float) -> Reply:
    """The same bytes, a few at a time with a pause between."""
    body = b"".join(step for step in reply.steps if isinstance(step, bytes))
    steps: list[Step] = []
    for start in range(0, len(body), every):
        steps += [body[start : start + every], Pause(pause_s)]
    return replace(reply, body=b"", chunks=tuple(steps))


def scattered(reply: Reply, *, every: int) -> Reply:
    """The same bytes cut every `every` bytes: inside events, inside UTF-8 characters, inside `\\r\\n`."""
    body = b"".join(step for step in reply.steps if isinstance(step, bytes))
    return replace(reply, body=body, chunks=(), split_every=every, framing=reply.framing or "chunked")


def hang_before_head() -> Reply:
    """Takes the request and says nothing."""
    return Reply(before=(Hang(),))


def hang_after_head(reply: Reply) -> Reply:
    """A head, then nothing (`A15`)."""
    return cut(reply, after=0, ending=Hang())


GARBAGE = bytes(9) + b"this is no HTTP\r\n\r\n"
"""Not a start line for HTTP/1, and a frame on the wrong stream for HTTP/2."""


def garbage(data: bytes = GARBAGE) -> Reply:
    """Bytes that are no HTTP answer, then FIN."""
    return Reply(before=(Raw(data), Close()))


def oversized_head(reply: Reply, *, header_bytes: int = 1 << 20) -> Reply:
    """A head with so many bytes of padding, in headers of 8 KiB (hpack takes half a minute for one megabyte in one)."""
    padding = tuple((f"x-padding-{start}", "p" * 8192) for start in range(0, header_bytes, 8192))
    return replace(reply, headers=(*reply.headers, *padding))


def wrong_length(reply: Reply, *, lie: int) -> Reply:
    """A whole body, `content-length` wrong by `lie` bytes; after a positive lie comes FIN while bytes are missing."""
    body = b"".join(step for step in reply.steps if isinstance(step, bytes))
    return replace(reply, body=body, chunks=(), framing="length", length_lie=lie)


Breaker = Callable[[Reply], Reply]

BEFORE_OUTPUT: Mapping[str, Breaker] = {
    "reset before head": lambda _: Reply(before=(Reset(),)),
    "close before head": lambda _: Reply(before=(Close(),)),
    "hang before head": lambda _: hang_before_head(),
    "garbage": lambda _: garbage(),
    "half a head": lambda _: Reply(before=(Raw(b"HTTP/1.1 200 OK\r\ncontent-ty"), Close())),
    "reset after head": lambda good: cut(good, after=0, ending=Reset()),
    "close after head": lambda good: cut(good, after=0, ending=Close()),
    "hang after head": hang_after_head,
    "reset after one chunk": lambda good: cut(good, after=1, ending=Reset()),
    "close after one chunk": lambda good: cut(good, after=1, ending=Close()),
    "reset in the middle of an event": lambda good: cut_bytes(good, after=40, ending=Reset()),
    "stream reset before head": lambda _: Reply(before=(ResetStream(7),)),
    "stream reset after head": lambda good: cut(good, after=0, ending=ResetStream(2)),
    "go away, not processed": lambda _: Reply(before=(GoAway(0, processed=False), Close())),
    "broken chunk size": lambda good: cut(cut(good, after=1, ending=Raw(b"zz\r\n")), after=2, ending=Close()),
    "oversized head": oversized_head,
    "rate limit": lambda _: Reply(status=429, body=b'{"error":{"message":"Rate limit reached"}}'),
}
"""Ways in which an answer fails before a useful byte of it came, by name: another connection may answer instead."""

AFTER_OUTPUT: Mapping[str, Breaker] = {
    "reset after three chunks": lambda good: cut(good, after=3, ending=Reset()),
    "close after three chunks": lambda good: cut(good, after=3, ending=Close()),
    "stream reset after three chunks": lambda good: cut(good, after=3, ending=ResetStream(2)),
    "missing last chunk": lambda good: cut(good, after=len(good.steps), ending=Close()),
    "content-length too large": lambda good: wrong_length(good, lie=10),
    "content-length too small": lambda good: wrong_length(good, lie=-10),
}
"""Ways in which an answer fails once output came: nothing may be sent again, and the client must not take it as whole."""

CATALOGUE: Mapping[str, Breaker] = {**BEFORE_OUTPUT, **AFTER_OUTPUT}
"""All of them."""
