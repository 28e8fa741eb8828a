"""Reading one attempt's stream: frame by frame before commit, by byte scan after it.

A reader lives in one of two modes. `feed` classifies every frame, for the decision whether the answer is good.
`relay`, once the answer goes to the client, looks at bytes only: an ordinary chunk costs a few searches, and JSON is
parsed only where a frame may be a terminal marker, an error or part of a tool call. Both keep the same account of the
turn.

From `feed` to `relay`: the caller sends what it kept, *except the last `pending` bytes*; those are the beginning of a
frame, and `relay` gives them out together with the rest of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .faults import text_fault
from .frames import BodyProblem, ClientError, Frame, FrameClass, Framing, StreamEnd, StreamFault
from .json_array import JsonArraySplitter, element
from .sse import FRAME_LIMIT_BYTES, Piece, Splitter, SseSplitter
from .turn import Turn, judge_turn

if TYPE_CHECKING:
    from .base import Dialect

_ACTIVE = (FrameClass.OUTPUT, FrameClass.REASONING, FrameClass.PROGRESS)
_OVERLAP_BYTES = 64
"""A marker inside a long frame may lie across two pieces."""
_HEAD_BYTES = 512
"""As much of a long frame says what it is."""


class StreamReader:
    """One per attempt; sans-io. Made by `Dialect.reader()`."""

    def __init__(self, dialect: Dialect, limit: int = FRAME_LIMIT_BYTES) -> None:
        self._dialect = dialect
        self._limit = limit
        self._splitter: Splitter | None = None if dialect.may_be_array else SseSplitter(limit)
        self._lead = b""
        self._turn = Turn()
        self._fast = False
        self._tail = b""
        self._long_class = FrameClass.OUTPUT
        self._last = b""
        self._held: list[bytes] = []
        self._released = False
        self._rest_read = b""
        self.framing: Framing = "sse"
        self.mid_frame = False
        """The bytes given out so far end inside a (long) frame: no frame may be put behind them (`ST-59`)."""
        self.activity = 0
        """Grows with frames of class A, B, C and with bytes of an unfinished frame that is no comment (`ST-37`)."""
        self.problem: BodyProblem | None = None
        """Set by `relay` when a terminal frame ends a turn that is no success; it and all after it are kept back."""

    # ------------------------------------------------------------ what is known

    @property
    def terminal(self) -> bool:
        """A terminal marker was read; with `problem` set, the client has not got it."""
        return self._turn.terminal

    @property
    def output(self) -> bool:
        """A frame of class A or B was read."""
        return self._turn.output

    @property
    def error(self) -> StreamFault | None:
        """The first structured error (`ST-25`, `ST-35`)."""
        return self._turn.error

    @property
    def noteworthy(self) -> bool:
        """`error` or `problem` is set."""
        return self._turn.error is not None or self.problem is not None

    @property
    def turn_problem(self) -> BodyProblem | None:
        """Why the turn is no success, once its terminal marker was read; None before that (`A16`, `A18`)."""
        return judge_turn(self._turn, self._dialect.ordinary_ends)

    @property
    def pending(self) -> int:
        """Number of bytes at the end of the input that belong to a frame that is not complete."""
        return len(self._lead) if self._splitter is None else self._splitter.pending

    # ------------------------------------------------------------ before commit

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes; return every frame that they complete (`ST-1`). Never raises.

        A frame longer than the limit yields one frame of type `long` per piece, as soon as the limit is passed
        (`ST-2`).
        """
        self._last = data
        frames = [self._read(piece) for piece in self._split(data)]
        self._settle()
        return frames

    # ------------------------------------------------------------ after commit

    def relay(self, data: bytes) -> bytes:
        """Take the next bytes; return those that may go to the client now, whole frames only. Never raises.

        An unfinished frame is held until its end or until it passes the limit; `mid_frame` is then true. A terminal
        frame of a turn that is empty or ends inside a tool call is kept back, and `problem` says why: send
        `closing(…)`, or `release()` if the endpoint is trusted (`ST-62`). A structured error passes unchanged and is
        found in `error` (`ST-35`).
        """
        self._last = data
        if self._fast and self._dialect.is_plain(data):
            self.activity += 1
            return data
        out: list[bytes] = []
        for piece in self._split(data):
            if self.output and not piece.long and self._dialect.is_plain(piece.raw):
                self.activity += 1
            else:
                frame = self._read(piece)
                if frame.terminal and not self._released and self.problem is None:
                    self.problem = self.turn_problem
            (self._held if self.problem and not self._released else out).append(piece.raw)
        self._settle()
        return b"".join(out)

    def release(self) -> bytes:
        """Give out what `relay` kept back because of `problem`, and keep nothing back from now on."""
        held, self._held = b"".join(self._held), []
        self._released = True
        self.problem = None
        return held

    def closing(self, error: ClientError) -> bytes:
        """The frames that end *this* stream with an error, in its framing, with its next number (`ST-31`, `ST-32`)."""
        return self._dialect.stream_error(error, framing=self.framing, sequence=self._dialect.next_sequence(self._last))

    # ------------------------------------------------------------ the end

    def end(self) -> StreamEnd:
        """The upstream's bytes have ended, well or not. Asking again gives the same answer."""
        rest = self._lead if self._splitter is None else self._splitter.rest()
        if self.framing == "sse" and not self.mid_frame and rest != self._rest_read:
            self._rest_read = rest
            if frame := self._dialect.classify_rest(rest):
                self._turn.take(frame)
        turn = self._turn
        problem = self.problem or (None if self._released else self.turn_problem)
        if turn.error is None and not turn.terminal:
            fault = text_fault("the provider's stream ended without its end marker", code="truncated")
            problem = BodyProblem(kind="truncated", fault=fault, finish=turn.finish)
        return StreamEnd(
            leftover=b"".join(self._held) + rest,
            terminal=turn.terminal,
            output=turn.output,
            finish=turn.finish,
            opened=turn.opened,
            error=turn.error,
            problem=problem,
            open_tool_call=turn.open_tool_call,
            complete_tool_call=turn.complete_tool_call,
            mid_frame=self.mid_frame,
        )

    # ------------------------------------------------------------ inside

    def _split(self, data: bytes) -> list[Piece]:
        if self._splitter is None:
            self._lead += data
            start = self._lead.lstrip()[:1]
            if not start and len(self._lead) <= self._limit:
                return []
            self.framing = "json-array" if start == b"[" else "sse"
            self._splitter = JsonArraySplitter(self._limit) if start == b"[" else SseSplitter(self._limit)
            data, self._lead = self._lead, b""
        return self._splitter.feed(data)

    def _read(self, piece: Piece) -> Frame:
        if piece.long:
            frame = self._read_long(piece)
        elif self.framing == "sse":
            frame = self._dialect.classify(piece.raw)
        else:
            frame = self._dialect.classify_json(element(piece.raw))
        self.mid_frame = not piece.ends
        if frame.cls in _ACTIVE:
            self.activity += 1
        self._turn.take(frame)
        return frame

    def _read_long(self, piece: Piece) -> Frame:
        """`ST-2`: a part of a long frame is output, unless its head says that it surely is none."""
        text = self._tail + piece.raw
        if not self.mid_frame:
            self._long_class = self._dialect.long_class(piece.raw[:_HEAD_BYTES])
        self._tail = b"" if piece.ends else text[-_OVERLAP_BYTES:]
        marker = self._dialect.long_terminal.search(text)
        finish = marker.group(1).decode() if marker else None
        return Frame(cls=self._long_class, type="long", terminal=finish is not None, finish=finish)

    def _settle(self) -> None:
        """After every chunk: may the next one take the short way, and did an unfinished frame grow?"""
        splitter = self._splitter
        pending = self.pending
        if pending and splitter is not None and splitter.rest()[:1] != b":":
            self.activity += 1
        self._fast = (
            self._turn.output
            and not pending
            and not self.mid_frame
            and self.framing == "sse"
            and (self.problem is None or self._released)
        )
