"""The answer that the proxy would judge, made from bytes on the wire: what `score`, `explain` and `replay` start from.

The bytes go through `watch.Watch`, which is what watches an attempt in the proxy: the frame parser, the check of whole
bodies, the decision what counts as a failure. So a rule is measured on exactly the bytes that it meets in production.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omniroute_addon.deadlines import Deadlines
from omniroute_addon.decisions import JUDGED_BYTES, Decision, Fail
from omniroute_addon.dialects import dialect as dialect_of
from omniroute_addon.model import Answer, DialectName, ModelCall
from omniroute_addon.settings import Settings
from omniroute_addon.watch import Watch

if TYPE_CHECKING:
    from omniroute_addon.packs import Packs

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_FAULTS = (
    ("timeout:head", ("timed out", "timeout", "etimedout")),
    (
        "connect_failed",
        ("refused", "enotfound", "getaddrinfo", "name resolution", "certificate", "unreachable", "connect "),
    ),
)
"""What a transport's error text says about how far the attempt came; anything else is a connection that was cut."""
_PATHS: tuple[tuple[str, DialectName], ...] = (
    ("generatecontent", "gemini"),
    ("/messages", "anthropic-messages"),
    ("rawpredict", "anthropic-messages"),
    ("/responses", "openai-responses"),
    ("/chat/completions", "openai-chat"),
)
_MARKS: tuple[tuple[bytes, DialectName], ...] = (
    (b'"type":"response.', "openai-responses"),
    (b"event: response.", "openai-responses"),
    (b"event: message_start", "anthropic-messages"),
    (b'"candidates"', "gemini"),
    (b'"usageMetadata"', "gemini"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What an attempt came to."""

    answer: Answer
    """What is judged."""
    committed: bool
    """The client had been given the beginning of it: whatever it means, this request is not tried elsewhere."""
    failed: bool
    """The proxy asks the rules about it; a success is delivered without asking."""


def answer_from_wire(
    *,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    stream: bool,
    dialect: DialectName | None,
) -> Heard:
    """Play an answer to the watch of an attempt.

    `body` is as received, with its content coding; a stream arrives event by event. Status 0 is an attempt without an
    answer, `body` then the transport's own text. `dialect` is the door's; without one (no model call) the proxy would
    pass a 2xx on unread, so it is taken as it is.
    """
    door = dialect or "openai-chat"
    call = ModelCall(provider="", dialect=door, model="", stream=stream)
    deadlines = Deadlines(call=call, settings=Settings(), started_at=0.0, call_deadline_at=0.0, alternatives=True)
    # The corpus and recorded flows are taken to come from the provider's own door (`ST-63`).
    watch = Watch(dialect=dialect_of(door), deadlines=deadlines, trusted=True)
    if status == 0:
        text = body.decode("utf-8", "replace")
        return Heard(answer=watch.broke(text, transport_fault(text)).answer, committed=False, failed=True)
    whole = Answer(status=status, headers=dict(headers), body=body[:JUDGED_BYTES], stream=stream)
    if dialect is None and status < 400:
        return Heard(answer=whole, committed=False, failed=False)
    watch.head(status, _wire(headers), 0.0)
    decision: Decision = None
    for chunk in _chunks(body, stream=stream):
        if watch.committed:
            watch.relay(chunk, 0.0)
        else:
            decision = watch.data(chunk, 0.0)
        if isinstance(decision, Fail):
            break
    if not isinstance(decision, Fail) and not watch.committed:
        decision = watch.end()
    if isinstance(decision, Fail):
        return Heard(answer=decision.answer, committed=False, failed=True)
    return _after_commit(watch, whole)


def _after_commit(watch: Watch, whole: Answer) -> Heard:
    """As `stream` reports what went wrong while the client was reading."""
    if watch.error is not None:
        body = b"data: " + watch.error.body + b"\n\n"
        answer = Answer(status=whole.status, body=body, stream=True, phase="stream")
        return Heard(answer=answer, committed=True, failed=True)
    if watch.problem is not None or (watch.streams and not watch.complete and not watch.ended):
        fault = watch.problem.kind if watch.problem else "truncated"
        text = watch.problem.fault.message if watch.problem else "the stream ended before its last event"
        answer = Answer(status=0, body=text.encode(), stream=True, phase="stream", fault=fault)
        return Heard(answer=answer, committed=True, failed=True)
    return Heard(answer=whole, committed=True, failed=False)


def transport_fault(text: str) -> str:
    """The fault that a transport's error text describes: `connect_failed`, `timeout:head` or `reset`."""
    lower = text.lower()
    return next((fault for fault, words in _FAULTS if any(word in lower for word in words)), "reset")


def dialect_of_door(packs: Packs, provider: str, path: str) -> DialectName | None:
    """The dialect of a request, as the packs say, else as its path looks; None for what is no model call."""
    known = packs.providers.get(provider)
    door = packs.match_endpoint(known, path) if known else None
    if door is not None:
        return door.dialect
    lower = path.partition("?")[0].lower()
    if lower.endswith("count_tokens"):
        return None
    return next((dialect for part, dialect in _PATHS if part in lower), None)


def dialect_of_body(body: bytes) -> DialectName:
    """The dialect that an answer seems to be in, when nothing is known about the request."""
    head = body[:4096]
    return next((dialect for mark, dialect in _MARKS if mark in head), "openai-chat")


def _wire(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.lower().encode(), value.encode("utf-8", "surrogatepass")) for name, value in headers.items())


def _chunks(body: bytes, *, stream: bool) -> Iterator[bytes]:
    """Events one by one, as a stream is sent; anything else at once."""
    start = 0
    for end in _EVENT_END.finditer(body) if stream else ():
        yield body[start : end.end()]
        start = end.end()
    if body[start:]:
        yield body[start:]
