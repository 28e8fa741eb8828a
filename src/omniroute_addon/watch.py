"""Is this answer good? One attempt's answer, watched from its head to its end, without knowing who carries it.

Bytes go in, decisions come out; nothing is read or written here. Until the decision all bytes are kept (`ST-10`), then
they are released first and unchanged (`ST-13`). Four ways an answer can come:

* an error status: held whole (bounded), then it is a failure;
* an event stream: held until its first useful frame, then released; an error event or an end before that is a failure
  like any other (`ST-11`, `ST-29`, `ST-34`);
* a whole body for a call without stream: held whole (bounded), then judged: an error or an empty turn inside a 200 is a
  failure (`A10`, `A16`);
* a body that turns out to be very large: released and passed on unwatched.

Useful is visible output or readable reasoning. Lifecycle frames and silent reasoning (`message_start`, a role, a bare
signature) release the stream only after a short grace, in mode `output`: providers that are overloaded say so right
behind them, and the client can show nothing of them anyway. Mode `event` releases at once (`ST-11`, `ST-12`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from .content_coding import Decoder, decoder, is_known
from .deadlines import FAILURES, Deadlines, Name, Stage
from .decisions import (
    EMPTY_BODY,
    JUDGED_BYTES,
    WHOLE_BYTES,
    Commit,
    Decision,
    Fail,
    Seen,
    bad_turn,
    error_event,
    failed_status,
    own_fault,
)
from .dialects import BodyProblem, ClientError, Dialect, FrameClass, StreamFault, StreamReader
from .model import Answer, Phase
from .sort_of_answer import Sort, by_head, by_start
from .wire import Headers

Mode = Literal["head", "plain"] | Sort
_STAGES: dict[Mode, Stage] = {
    "head": "head",
    "error": "error",
    "stream": "opening",
    "sniff": "opening",
    "body": "body",
    "plain": "body",
}


@dataclass(slots=True, kw_only=True)
class Watch:
    """Watches one attempt. Times are epoch seconds; every method that may decide takes `now`."""

    dialect: Dialect
    deadlines: Deadlines
    trusted: bool = False
    """The answer comes from the provider's own door over verified TLS: an empty turn may be meant (`ST-62`, `ST-63`)."""

    status: int = 0
    headers: Headers = ()
    mode: Mode = "head"
    committed: bool = False
    sooner: bool = False
    """`wake_at` may have become earlier since it was last asked."""
    ended: bool = False
    """The upstream ended the answer as HTTP should."""
    _held: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0
    _reader: StreamReader | None = None
    _decoder: Decoder | None = None
    _coding: str = ""
    _head_at: float = 0.0
    _bytes_at: float = 0.0
    _active_at: float = 0.0
    _lifecycle_at: float | None = None

    # ------------------------------------------------------------ before the decision

    def head(self, status: int, headers: Headers, now: float) -> None:
        """The response head has come."""
        self.status, self.headers, self.sooner = status, headers, True
        self._head_at = self._bytes_at = self._active_at = now
        self.mode, self._coding = by_head(status, headers, wants_stream=self.deadlines.call.stream)
        if self.mode == "stream":
            self._open_stream()

    def data(self, chunk: bytes, now: float) -> Decision:
        """A piece of the body has come."""
        self._bytes_at = self._active_at = now
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if self.mode == "sniff":
            chunk = b"".join(self._held)
            self.mode = by_start(chunk, may_be_array=self.dialect.may_be_array, coded=bool(self._coding))
            if self.mode == "stream":
                self._open_stream()
        if self.mode == "stream":
            return self._frames(self._read(chunk), now)
        if self._held_bytes > self.deadlines.settings.held_body_bytes:
            return failed_status(self._seen(), partial=True) if self.mode == "error" else self.release()
        return None

    def end(self) -> Decision:
        """The upstream ended the answer as HTTP should."""
        self.ended = True
        if self.mode == "error":
            return failed_status(self._seen(), partial=False)
        if self.mode == "stream":
            return self._stream_ended()
        # In a coding that we cannot take off it says nothing to us; the client asked for it.
        if self.status == 200 and self.mode in ("body", "sniff") and is_known(self._coding):
            body = self._seen().text(limit=WHOLE_BYTES)
            problem = self.dialect.judge_body(body) if body else EMPTY_BODY
            if problem is not None and not self._meant(problem):
                return bad_turn(self._seen(), problem, phase="body")
        return self._commit()

    def broke(self, text: str, fault: str) -> Fail:
        """The connection failed before the decision; `text` is the transport's own message."""
        if self.mode == "error":
            return replace(failed_status(self._seen(), partial=False), cancel=False)
        phase: Phase = "body"
        if self.mode in ("head", "stream"):
            phase = "head" if self.mode == "head" else "stream"
        return Fail(
            Answer(status=0, body=text.encode("utf-8", "replace")[:500], phase=phase, fault=fault), cancel=False
        )

    # ------------------------------------------------------------ deadlines

    def wake_at(self) -> float:
        """When `expired` wants to be asked next; infinity when nothing can expire."""
        self.sooner = False
        return min(self._due().values(), default=float("inf"))

    def expired(self, now: float) -> Decision:
        """The first deadline that has passed decides; None while none has."""
        due = self._due()
        name = min(due, key=lambda key: due[key], default=None)
        if name is None or due[name] > now:
            return None
        if name == "grace" or (name == "readiness" and not self.deadlines.alternatives):
            return self._commit()
        if name == "error_body":
            return failed_status(self._seen(), partial=False)
        phase: Phase = "head" if name == "head" else "stream"
        return own_fault(f"timeout:{name}", FAILURES[name], phase=phase, status=0, ended=self.ended)

    def _due(self) -> dict[Name, float]:
        return self.deadlines.due(
            "committed" if self.committed else _STAGES[self.mode],
            head_at=self._head_at,
            active_at=self._active_at,
            bytes_at=self._bytes_at,
            lifecycle_at=self._lifecycle_at,
        )

    # ------------------------------------------------------------ after commit

    def relay(self, chunk: bytes, now: float) -> bytes:
        """What of this chunk may go to the client now: whole frames, so that a broken stream can end with a valid one."""
        reader = self._reader
        if reader is None:
            self._active_at = now
            return chunk
        before = reader.activity
        if self._decoder is None:
            out = reader.relay(chunk)
        else:
            out, text = chunk, self._read(chunk)  # coded bytes cannot be cut at frames: watched, passed as they are
            if self._reader is not None:
                reader.relay(text)
        if reader.problem is not None and self._meant(reader.problem):
            held = reader.release()
            out += held if self._decoder is None else b""
        if reader.activity != before:
            self._active_at = now
        return out

    def rest(self) -> bytes:
        """What is still held back when the stream has ended well."""
        return self._reader.end().leftover if self._reader is not None and self._decoder is None else b""

    @property
    def error(self) -> StreamFault | None:
        """A structured error that the client was given after commit (`ST-35`)."""
        return self._reader.error if self._reader is not None and self.committed else None

    @property
    def problem(self) -> BodyProblem | None:
        """The turn that the client is reading turned out to be empty or cut inside a tool call (`A16`, `A18`)."""
        return self._reader.problem if self._reader is not None else None

    @property
    def noteworthy(self) -> bool:
        """`error` or `problem` may be set: cheap, for every chunk."""
        return self._reader is not None and self._reader.noteworthy

    @property
    def streams(self) -> bool:
        """The answer goes to the client piece by piece."""
        return self.mode in ("stream", "plain")

    @property
    def complete(self) -> bool:
        """The client has seen the end of a good answer, whatever happens to the connections now (`ST-30`, `ST-127`)."""
        if self._reader is None:
            return self.ended
        if self.ended:  # the last frame counts without its blank line, too
            end = self._reader.end()
            return end.terminal and (end.problem is None or self._meant(end.problem))
        return self._reader.terminal and self._reader.problem is None

    @property
    def mendable(self) -> bool:
        """An error can be said inside the stream: it is one, it is not coded, and the client stands between two frames."""
        return self._reader is not None and self._decoder is None and not self._reader.mid_frame

    @property
    def joins(self) -> bool:
        """The answer may follow a head that has gone out: an event stream of this dialect, in plain text."""
        return self.status == 200 and self.mode == "stream" and self._reader is not None and self._decoder is None

    def closing(self, message: str, status: int = 502) -> bytes:
        """The frames that end a broken stream in the client's own dialect (`ST-31` to `ST-33`)."""
        assert self._reader is not None
        return self._reader.closing(ClientError(status=status, message=message))

    def release(self) -> Commit:
        """Give up watching: an answer that is too large to be held goes to the client as it comes."""
        self.mode = "plain"
        return self._commit()

    # ------------------------------------------------------------ inside

    def _open_stream(self) -> None:
        self._reader = self.dialect.reader()
        try:
            self._decoder = decoder(self._coding, limit=WHOLE_BYTES)  # a bomb, or very long: passed on unwatched
        except ValueError:
            self._unwatch()  # a coding that we cannot read

    def _unwatch(self) -> None:
        self.mode, self._reader, self._decoder = "plain", None, None

    def _read(self, chunk: bytes) -> bytes:
        if self._decoder is None:
            return chunk
        try:
            return self._decoder.feed(chunk)
        except ValueError:
            self._unwatch()  # not what it says it is
            return b""

    def _frames(self, text: bytes, now: float) -> Decision:
        if self._reader is None:
            return self._commit()
        useful = False
        for frame in self._reader.feed(text):
            if frame.error is not None and not useful:
                return error_event(self._seen(), frame.error)
            useful = useful or frame.cls in (FrameClass.OUTPUT, FrameClass.REASONING)
            if frame.cls in (FrameClass.PROGRESS, FrameClass.LIFECYCLE):
                useful = useful or self.deadlines.settings.readiness_mode == "event"
                if self._lifecycle_at is None:
                    self._lifecycle_at, self.sooner = now, True
        if (problem := self._reader.turn_problem) is not None and not self._meant(problem):
            return bad_turn(self._seen(), problem, phase="stream")
        return self._commit() if useful or self._held_bytes > JUDGED_BYTES else None

    def _stream_ended(self) -> Decision:
        assert self._reader is not None
        end = self._reader.end()
        if end.error is not None:
            return error_event(self._seen(), end.error)
        if end.problem is not None and not self._meant(end.problem):
            return bad_turn(self._seen(), end.problem, phase="stream")
        return self._commit()

    def _seen(self) -> Seen:
        return Seen(
            status=self.status, headers=self.headers, body=b"".join(self._held), coding=self._coding, ended=self.ended
        )

    def _meant(self, problem: BodyProblem) -> bool:
        return self.trusted and problem.trustable

    def _commit(self) -> Commit:
        self.committed = True
        held = b"".join(self._held)
        self._held.clear()
        if self._reader is not None and self._decoder is None and (tail := self._reader.pending):
            held = held[:-tail]  # the beginning of a frame: `relay` or `rest` gives it out
        return Commit(held)
