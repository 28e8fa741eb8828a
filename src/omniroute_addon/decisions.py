"""What a watch decides: the answer is good, or it is not, and then what it was. Pure values and how they are made."""

from __future__ import annotations

from dataclasses import dataclass

from .content_coding import decode_leniently
from .dialects import BodyProblem, StreamFault
from .exchange import RawAnswer
from .model import Answer, Phase
from .wire import Headers, as_mapping

JUDGED_BYTES = 64 * 1024
"""How much of a body is ever looked at by rules."""
WHOLE_BYTES = 1 << 26
"""How much of a good answer's decoded body is looked at."""
EMPTY_BODY = BodyProblem(
    kind="empty",
    fault=StreamFault(status=502, code="empty", message="the provider answered 200 without a body"),
)


@dataclass(frozen=True, slots=True)
class Commit:
    """The answer is good: release its head and these bytes, pass the rest on through `relay`."""

    held: bytes = b""


@dataclass(frozen=True, slots=True)
class Fail:
    """The answer is no good."""

    answer: Answer
    raw: RawAnswer | None = None
    """The answer as bytes, where there is one that a client could be given."""
    cancel: bool = True
    """The upstream may still be sending."""


Decision = Commit | Fail | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """An answer as far as it has come."""

    status: int
    headers: Headers
    body: bytes
    """As received."""
    coding: str
    ended: bool
    """As HTTP should."""

    def text(self, limit: int = JUDGED_BYTES) -> bytes:
        """The body without its coding, as far as that can be taken off."""
        return decode_leniently(self.body, self.coding, limit=limit)[:limit]


def error_event(seen: Seen, fault: StreamFault) -> Fail:
    """An error inside a 200 stream is an HTTP error of the status that it implies (`ST-34`)."""
    answer = Answer(status=seen.status, headers=as_mapping(seen.headers), body=seen.text(), stream=True, phase="stream")
    return Fail(answer, _raw(seen, fault), cancel=not seen.ended)


def bad_turn(seen: Seen, problem: BodyProblem, *, phase: Phase) -> Fail:
    """An answer with status 200 that is no success (`A10`, `A16`, `A18`)."""
    if problem.kind != "error":
        fault = problem.fault
        return own_fault(problem.kind, fault.message, phase=phase, status=fault.status, ended=seen.ended)
    answer = Answer(status=seen.status, headers=as_mapping(seen.headers), body=seen.text(), phase=phase)
    return Fail(answer, _raw(seen, problem.fault), cancel=False)


def failed_status(seen: Seen, *, partial: bool) -> Fail:
    """An error status with its body; `partial`: more of it would come."""
    fields = as_mapping(seen.headers)
    stream = "event-stream" in fields.get("content-type", "")
    answer = Answer(status=seen.status, headers=fields, body=seen.text(), stream=stream)
    raw = RawAnswer(status=seen.status, headers=seen.headers, body=seen.body, partial=partial)
    return Fail(answer, raw, cancel=not seen.ended)


def own_fault(fault: str, text: str, *, phase: Phase, status: int, ended: bool) -> Fail:
    """Something that nobody said, but that we found: a deadline, an empty turn."""
    return Fail(Answer(status=status, body=text.encode(), phase=phase, fault=fault), cancel=not ended)


def _raw(seen: Seen, fault: StreamFault) -> RawAnswer:
    """The error found inside a 200, with the answer's own facts (request ids, limits) and one JSON body."""
    dropped = (b"content-type", b"content-length", b"content-encoding", b"transfer-encoding", b"cache-control")
    kept = ((k, v) for k, v in seen.headers if k.lower() not in dropped)
    return RawAnswer(status=fault.status, headers=(*kept, (b"content-type", b"application/json")), body=fault.body)
