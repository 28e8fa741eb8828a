"""The values that the dialects hand out: what a call asks for, what a frame is, how a stream ended, what went wrong.

All are frozen. `Frame.error` outranks `Frame.cls`: a frame may be a lifecycle frame by its keys and still carry a
structured error (`response.failed` has a `response` member, so `ST-4` does not call it error-only, while `ST-29`
calls it an error).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

Framing = Literal["sse", "json-array"]
"""How a stream separates its frames: an event stream, or Gemini's JSON array when `alt=sse` is absent."""

ProblemKind = Literal["error", "not_json", "truncated", "empty", "half_tool_call"]


class FrameClass(Enum):
    """The six classes of `ST` section 2; the values are the letters used there."""

    OUTPUT = "A"
    """Visible output: text, refusal, tool call, media, code, compaction."""
    REASONING = "B"
    """Reasoning text that somebody can read."""
    PROGRESS = "C"
    """Reasoning activity without readable text."""
    LIFECYCLE = "D"
    """A structured frame without any output."""
    HEARTBEAT = "H"
    """Comment, ping, keep-alive, empty data, `[DONE]`."""
    ERROR = "E"
    """An error and no output member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFacts:
    """What a request body says, as far as it has to be understood."""

    model: str
    """As the client wrote it; empty when the request names none."""
    stream: bool
    """The client wants a stream."""
    model_in_path: bool = False
    """Only the path names the model: a body that goes to another door must be given it."""
    tools: int = 0
    """Number of tools declared (Gemini: function declarations)."""
    history_items: int = 0
    """Length of `messages`, `input` or `contents`; 1 for a bare string."""
    body: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The body's top-level members, for whoever looks for more than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFault:
    """A structured error found inside a 200 answer (`ST-29`, `ST-34`)."""

    status: int
    """HTTP status that the error implies; 502 when it implies none."""
    code: str = ""
    """The error's own code, as text; empty when it has none."""
    type: str = ""
    """The error's own type; empty when it has none."""
    message: str = ""
    """The upstream's words, unredacted and unshortened."""
    body: bytes = b""
    """The error as an HTTP error body would carry it: the event's own JSON, with a nested `error` lifted to the top."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPiece:
    """A part of a tool call that one frame brings (`A18`)."""

    group: int
    """The choice it belongs to; 0 where a dialect has only one."""
    key: str
    """Identity of the call within its group."""
    text: str = ""
    """Arguments, a fragment of JSON."""
    whole: bool = False
    """`text` is the entire argument text and replaces what was collected."""
    freeform: bool = False
    """The arguments are plain text and cannot be checked for completeness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One frame of a stream, classified as a whole."""

    cls: FrameClass
    type: str = ""
    """Payload type, else event name, else `chunk`; `:` for a comment and `[DONE]` for itself. Never content."""
    terminal: bool = False
    """It is a terminal marker of its dialect."""
    error: StreamFault | None = None
    """Structured error of `ST-29`; look at this before `cls`."""
    finish: str | None = None
    """Finish reason that it states, in the dialect's own word."""
    text_bytes: int = 0
    """UTF-8 length of its visible text (`ST-80`)."""
    opened: bool = False
    """It opens a content block (`ST-64`)."""
    tools: tuple[ToolPiece, ...] = ()
    """Parts of tool calls in it."""
    groups: tuple[int, ...] = ()
    """Choices that it touches."""
    finished: tuple[int, ...] = ()
    """Choices that it finishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyProblem:
    """Why an answer with status 200, or a stream that ended, is no success."""

    kind: ProblemKind
    """`error`: a structured error; `not_json`, `truncated`: unusable; `empty`: `ST-67`; `half_tool_call`: `A18`."""
    fault: StreamFault
    """What an error answer would have said; status 502 unless the upstream's error implies another."""
    finish: str | None = None
    """Last finish reason, in the dialect's own word."""
    trustable: bool = False
    """An empty turn with an ordinary terminal (`ST-64`, `ST-65`): legitimate from a trusted endpoint (`ST-62`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """What was known when the upstream's bytes ended."""

    leftover: bytes
    """Bytes not yet given out: an unfinished last frame, and whatever `relay` kept back."""
    terminal: bool
    """A terminal marker was seen: a nominal end, otherwise a truncation."""
    output: bool
    """A frame of class A or B was seen (`ST-60`)."""
    finish: str | None
    """Last finish reason."""
    opened: bool
    """A content block was opened (`ST-64`)."""
    error: StreamFault | None
    """First structured error of the stream (`ST-25`, `ST-66`)."""
    problem: BodyProblem | None
    """`truncated`, `empty` or `half_tool_call`; None for a clean end and when `error` is set (`ST-68`)."""
    open_tool_call: bool
    """A tool call was begun and its arguments are not complete (`A18`)."""
    complete_tool_call: bool
    """At least one tool call is complete: a replay could run it twice (`A18`)."""
    mid_frame: bool
    """The client has got the beginning of a frame whose end never came: cut, do not append an error frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """An error that we produce ourselves, before it is put into a dialect's shape."""

    status: int
    message: str
    code: str = ""
    """Our stable code, `STREAM_EARLY_EOF`; empty takes the usual one for the status (`spec/05`)."""
    type: str = ""
    """Error type of the OpenAI shapes; empty derives it from `code` and `status`."""
    kind: str = ""
    """A `model.Kind` where known: `context_overflow` is worded so that an agent compacts (`A22`)."""
    retry_after_s: float | None = None
    """Seconds; written into the body only where the dialect has a place for it (Gemini's RetryInfo)."""
    request_id: str | None = None
    diagnostics: Mapping[str, Any] | None = None
    """Facts for people, already free of secrets."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the error object, where a dialect's error is free to have some (not Gemini's)."""
    details: tuple[Mapping[str, Any], ...] = ()
    """Further entries of Gemini's `details`."""
