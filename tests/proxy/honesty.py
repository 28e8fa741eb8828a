"""What an honest answer looks like to a client, whatever happened upstream. For tests of faults.

Honest is: the whole answer of one attempt; or the beginning of one, up to a frame's end, then one error in the client's
dialect and the end; or a cut that the client's HTTP library notices; or one error status with a readable body. Never a hang,
two heads, a mixture of two attempts, or a part of an answer that looks like all of it.
"""

from __future__ import annotations

import json
from typing import Any

from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.script import Reply

TERMINAL = (
    b'"finish_reason":"stop"',
    b'"type":"response.completed"',
    b'"type":"message_stop"',
    b'"finishReason":"STOP"',
)
"""Frames after which the answer is complete, whatever is cut off behind them (`ST-30`)."""


class OfferHttp2:
    """An addon that lets every upstream choose HTTP/2; mitmproxy itself offers it only when the client speaks it."""

    def server_connected(self, data: ServerConnectionHookData) -> None:
        data.server.alpn_offers = (b"h2", b"http/1.1")


def bytes_of(reply: Reply) -> bytes:
    """The body that a reply sends."""
    return b"".join(step for step in reply.steps if isinstance(step, bytes))


def frames(body: bytes) -> list[bytes]:
    """The events of a stream, each with its blank line; what is left of an unfinished one comes last."""
    return [part + b"\n\n" for part in body.split(b"\n\n")[:-1]] + [part for part in body.split(b"\n\n")[-1:] if part]


def payload(frame: bytes) -> Any:
    """The JSON of a frame; None for one without, such as `[DONE]`. Raises ValueError for broken JSON."""
    data = b"".join(line[5:].strip() for line in frame.splitlines() if line.startswith(b"data:"))
    return None if data in (b"", b"[DONE]") else json.loads(data)


def is_error(frame: bytes) -> bool:
    """The frame says an error, in whichever dialect."""
    said = payload(frame)
    return isinstance(said, dict) and ("error" in said or said.get("type") in ("error", "response.failed"))


def wrong(seen: Exchange, *answers: Reply) -> str:
    """What is dishonest about an exchange, in words; empty for an honest one. `answers`: all that could have come through."""
    if len(seen.heads) != 1 or seen.stray:
        return f"{len(seen.heads)} heads, {len(seen.stray)} stray bytes, then {seen.end}"
    if seen.status != 200:
        return _wrong_error(seen)
    if seen.end != "complete":
        return "" if seen.end in ("closed", "reset", "rst_stream") else f"ended as {seen.end}"
    if any(seen.body == bytes_of(answer) for answer in answers):
        return ""
    if "event-stream" not in (seen.header("content-type") or ""):
        return f"a body of nobody: {seen.body[-80:]!r}"
    return min((_wrong_stream(seen.body, bytes_of(answer)) for answer in answers), key=len)


def _wrong_error(seen: Exchange) -> str:
    if seen.end != "complete" or seen.status < 400:
        return f"{seen.status} ended as {seen.end}"
    try:
        return "" if "error" in seen.json() else f"{seen.status} without an error: {seen.body[:80]!r}"
    except ValueError:
        return f"{seen.status} with an unreadable body: {seen.body[:80]!r}"


def _wrong_stream(body: bytes, answer: bytes) -> str:
    if answer.startswith(body):
        return "" if any(mark in body for mark in TERMINAL) else f"cut off and ended as if whole: {body[-80:]!r}"
    parts = frames(body)
    errors = [n for n, part in enumerate(parts) if is_error(part)]
    if len(errors) != 1:
        return f"{len(errors)} errors behind a part of an answer: {body[-200:]!r}"
    before, behind = b"".join(parts[: errors[0]]), parts[errors[0] + 1 :]
    if not (answer.startswith(before) and (not before or answer[: len(before)].endswith(b"\n\n"))):
        return f"not the beginning of the answer: {before[-80:]!r}"
    return "" if behind in ([], [b"data: [DONE]\n\n"]) else f"more behind the error: {behind!r}"
