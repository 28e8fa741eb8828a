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

from dataclasses import dataclass, field

from .content_coding import Decoder, decode_leniently, decoder
from .dialects import BodyProblem, ClientError, Dialect, FrameClass, StreamFault, StreamReader
from .exchange import RawAnswer
from .model import Answer, ModelCall, Phase
from .settings import Settings
from .wire import Headers, as_mapping

JUDGED_BYTES = 64 * 1024
"""How much of a body is ever looked at by rules."""
_ERROR_BODY_S = 15.0
"""An error's body that takes longer is judged by what there is: the status has said the most."""
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


@dataclass(frozen=True, slots=True)
class Commit:
    """The answer is good: release its head and these bytes, pass the rest on through `relay`."""

    held: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Fail:
    """The answer is no good."""

    answer: Answer
    raw: RawAnswer | None = None
    """The answer as bytes, where there is one that a client could be given."""
    cancel: bool = True
    """The upstream may still be sending."""


Decision = Commit | Fail | None


@dataclass(slots=True, kw_only=True)
class Watch:
    """Watches one attempt. Times are epoch seconds; every method that may decide takes `now`."""

    call: ModelCall
    dialect: Dialect
    settings: Settings
    started_at: float
    alternatives: bool
    """Something else could be tried: without that no deadline ends an attempt that may still succeed (rule 4)."""

    status: int = 0
    headers: Headers = ()
    committed: bool = False
    ended: bool = False
    fault_seen: StreamFault | None = None
    """An error event that the client was given after commit (`ST-35`)."""
    _mode: str = "head"
    _held: list[bytes] = field(default_factory=list)
    _held_bytes: int = 0
    _first: StreamFault | None = None
    _reader: StreamReader | None = None
    _decoder: Decoder | None = None
    _coding: str = ""
    _head_at: float = 0.0
    _last_at: float = 0.0
    _lifecycle_at: float | None = None

    # ------------------------------------------------------------ before the decision

    def head(self, status: int, headers: Headers, now: float) -> Decision:
        """The response head has come."""
        self.status, self.headers, self._head_at, self._last_at = status, headers, now, now
        fields = as_mapping(headers)
        self._coding = fields.get("content-encoding", "")
        kind = fields.get("content-type", "").lower()
        if status >= 400:
            self._mode = "error"
        elif status >= 300:
            self._mode = "quiet"
        elif "event-stream" in kind:
            self._open_stream()
        elif self.call.stream:
            # Gateways mislabel streams and answer errors as bare JSON: the first bytes tell which it is.
            self._mode = "sniff"
        else:
            self._mode = "body"
        return None

    def data(self, chunk: bytes, now: float) -> Decision:
        """A piece of the body has come."""
        self._last_at = now
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if self._mode == "sniff":
            self._sniff(b"".join(self._held))
            if self._mode == "stream" and len(self._held) > 1:
                self._held = [b"".join(self._held)]
            chunk = self._held[-1] if self._mode == "stream" else chunk
        if self._mode == "stream":
            text = self._read(chunk)
            return self._frames(text, now) if self._reader is not None else self._commit()
        if self._held_bytes > self.settings.held_body_bytes:
            if self._mode == "error":
                return self._failed_status(partial=True)
            return self.release()
        return None

    def end(self, now: float) -> Decision:
        """The upstream ended the answer as HTTP should."""
        self.ended = True
        if self._mode == "error":
            return self._failed_status(partial=False)
        if self._mode == "stream":
            return self._stream_ended()
        if self._mode in ("body", "sniff") and self._held_bytes:
            body = decode_leniently(b"".join(self._held), self._coding, limit=self.settings.held_body_bytes * 4)
            problem = self.dialect.judge_body(body)
            if problem is not None:
                return self._bad_body(problem, body)
        elif self._mode in ("body", "sniff") and self.status == 200:
            return self._fault("empty", "the answer has no body", phase="body", status=502)
        return self._commit()

    def broke(self, text: str, fault: str) -> Fail:
        """The connection failed before the decision; `text` is the transport's own message."""
        if self._mode == "error":
            return self._failed_status(partial=False)
        phase: Phase = "connect" if self._mode == "head" and fault == "connect_failed" else "head"
        if self._mode == "stream":
            phase = "stream"
        elif self._mode != "head":
            phase = "body"
        return Fail(Answer(status=0, body=text.encode("utf-8", "replace")[:500], phase=phase, fault=fault), cancel=False)

    # ------------------------------------------------------------ deadlines

    def wake_at(self) -> float:
        """When `expired` wants to be asked next."""
        return min(self._deadlines().values())

    def expired(self, now: float) -> Decision:
        """The first deadline that has passed decides; None while none has."""
        due = {name: at for name, at in self._deadlines().items() if at <= now}
        if not due:
            return None
        name = min(due, key=lambda key: due[key])
        if name == "grace" or (name == "readiness" and not self.alternatives):
            return self._commit()
        if name == "error_body":
            return self._failed_status(partial=False)
        texts = {
            "head": "no response head in time",
            "readiness": "STREAM_READINESS_TIMEOUT: no useful frame in time",
            "idle": "STREAM_IDLE_TIMEOUT: nothing useful came for too long",
            "attempt": "STREAM_ATTEMPT_DEADLINE: the attempt took too long",
        }
        return self._fault(f"timeout:{name}", texts[name], phase="head" if name == "head" else "stream", status=0)

    def _deadlines(self) -> dict[str, float]:
        s = self.settings
        times = {"attempt": s.attempt_deadline_ms, "idle": s.idle_timeout_ms, "readiness": s.readiness_timeout_ms}
        out: dict[str, float] = {"never": self.started_at + 1e9}
        if times["attempt"]:
            out["attempt"] = self.started_at + times["attempt"] / 1000
        if self.committed or self._mode in ("body", "sniff", "plain"):
            if times["idle"] and (self.committed or self.alternatives):
                out["idle"] = self._last_at + times["idle"] / 1000
        elif self._mode == "head":
            if self.alternatives:
                bound = s.readiness_max_timeout_ms if self.call.stream and times["readiness"] else s.head_timeout_ms
                limit = min(bound or s.head_timeout_ms, s.head_timeout_ms or bound)
                if limit:
                    out["head"] = self.started_at + limit / 1000
        elif self._mode == "error":
            out["error_body"] = self._head_at + _ERROR_BODY_S
        elif times["readiness"]:
            moved = self._last_at + readiness_budget_ms(self.call, s) / 1000
            bound_at = self._head_at + max(s.readiness_max_timeout_ms, s.readiness_timeout_ms) / 1000
            out["readiness"] = min(moved, bound_at)
            if self._lifecycle_at is not None:
                out["grace"] = self._lifecycle_at + s.lifecycle_grace_ms / 1000
        return out

    # ------------------------------------------------------------ after commit

    def relay(self, chunk: bytes, now: float) -> bytes:
        """What of this chunk may go to the client now: whole frames, so that a broken stream can end with a valid one."""
        if self._reader is None:
            self._last_at = now
            return chunk
        if not is_heartbeat(chunk):
            self._last_at = now
        if self._decoder is None:
            out = self._reader.relay(chunk)
            self.fault_seen = self._reader.fault or self.fault_seen
            return out
        text = self._read(chunk)
        if self._reader is not None:  # coded bytes cannot be cut at frames: watched, passed as they are
            self._reader.relay(text)
        return chunk

    def relay_end(self) -> bytes:
        """The upstream ended the stream: what was still held back."""
        return self._reader.pending if self._reader is not None and self._decoder is None else b""

    def release(self) -> Commit:
        """Give up watching: an answer that is too large to be held goes to the client as it comes."""
        self._mode = "plain"
        return self._commit()

    @property
    def streams(self) -> bool:
        """The answer goes to the client piece by piece."""
        return self._mode in ("stream", "plain")

    @property
    def complete(self) -> bool:
        """The client has seen the end of a good answer, whatever happens to the connections now (`ST-30`, `ST-127`)."""
        if self._reader is not None:
            return self._reader.terminal
        return self.ended

    @property
    def mendable(self) -> bool:
        """An error can be said inside the stream: it is one, it is not coded, and the client stands between two frames."""
        return self._reader is not None and self._decoder is None and not self._reader.mid_frame

    def break_off(self, message: str, status: int = 502) -> bytes:
        """The frames that end a broken stream in the client's own dialect (`ST-31` to `ST-33`)."""
        return self.dialect.stream_error(ClientError(status=status, message=message))

    # ------------------------------------------------------------ inside

    def _open_stream(self) -> None:
        self._mode = "stream"
        self._reader = self.dialect.reader()
        try:
            self._decoder = decoder(self._coding, limit=1 << 40) if self._coding else None
        except ValueError:
            self._mode, self._reader = "plain", None  # a coding that we cannot read: not ours to judge

    def _sniff(self, seen: bytes) -> None:
        start = seen.lstrip(b"\xef\xbb\xbf\r\n\t ")
        if not start or self._coding:
            return
        if self.dialect.streams_json and start.startswith(b"["):
            self._open_stream()
        elif start.startswith(_SSE_STARTS):
            self._open_stream()
        elif not any(s.startswith(start) for s in _SSE_STARTS):
            self._mode = "body"

    def _read(self, chunk: bytes) -> bytes:
        if self._decoder is None:
            return chunk
        try:
            return self._decoder.feed(chunk)
        except ValueError:
            self._mode, self._reader, self._decoder = "plain", None, None  # not what it says it is: not ours to judge
            return b""

    def _frames(self, chunk: bytes, now: float) -> Decision:
        assert self._reader is not None
        useful = False
        for frame in self._reader.feed(chunk):
            if frame.error is not None and not useful:
                return self._fault_event(frame.error)
            useful = useful or frame.cls in (FrameClass.OUTPUT, FrameClass.REASONING)
            if frame.cls in (FrameClass.PROGRESS, FrameClass.LIFECYCLE):
                useful = useful or self.settings.readiness_mode == "event"
                self._lifecycle_at = now if self._lifecycle_at is None else self._lifecycle_at
        if useful or self._held_bytes > JUDGED_BYTES:
            return self._commit()
        return None

    def _stream_ended(self) -> Decision:
        assert self._reader is not None
        end = self._reader.end()
        if end.error is not None:
            return self._fault_event(end.error)
        if end.problem is not None:
            return self._bad_body(end.problem, b"")
        return self._commit()

    def _commit(self) -> Commit:
        self.committed = True
        held = b"".join(self._held)
        if self._reader is not None and self._decoder is None and not self.ended:
            tail = len(self._reader.pending)
            held = held[: len(held) - tail] if tail else held
        self._held.clear()
        return Commit((held,) if held else ())

    def _fault_event(self, fault: StreamFault) -> Fail:
        """An error inside a 200 stream is an HTTP error of the status that it implies (`ST-34`)."""
        body = b"".join(self._held)
        if self._decoder is not None:
            body = decode_leniently(body, self._coding, limit=JUDGED_BYTES)
        answer = Answer(
            status=self.status, headers=as_mapping(self.headers), body=body[:JUDGED_BYTES], stream=True, phase="stream"
        )
        raw = RawAnswer(status=fault.status, headers=_json_head(self.headers), body=fault.body)
        return Fail(answer, raw, cancel=not self.ended)

    def _bad_body(self, problem: BodyProblem, body: bytes) -> Fail:
        stream = self._mode == "stream"
        if problem.kind != "error":
            return self._fault(
                problem.kind, problem.fault.message, phase="stream" if stream else "body", status=problem.fault.status
            )
        answer = Answer(
            status=self.status, headers=as_mapping(self.headers), body=body[:JUDGED_BYTES], stream=stream, phase="body"
        )
        raw = RawAnswer(status=problem.fault.status, headers=_json_head(self.headers), body=problem.fault.body)
        return Fail(answer, raw, cancel=False)

    def _failed_status(self, *, partial: bool) -> Fail:
        body = b"".join(self._held)
        answer = Answer(
            status=self.status,
            headers=as_mapping(self.headers),
            body=decode_leniently(body, self._coding, limit=JUDGED_BYTES)[:JUDGED_BYTES],
            stream=b"event-stream" in dict(self.headers).get(b"content-type", b""),
        )
        return Fail(answer, RawAnswer(status=self.status, headers=self.headers, body=body, partial=partial), not self.ended)

    def _fault(self, fault: str, text: str, *, phase: Phase, status: int) -> Fail:
        answer = Answer(status=status, body=text.encode(), phase=phase, fault=fault)
        return Fail(answer, cancel=not self.ended)


def is_heartbeat(chunk: bytes) -> bool:
    """Comments and pings, as they come: alone in their chunk (`ST-3`, `ST-37`)."""
    return chunk.startswith((b":", b"event: ping", b"event:ping")) or not chunk.strip()


def readiness_budget_ms(call: ModelCall, s: Settings) -> int:
    """How long a stream may take to become useful, by the size of what was asked (`ST-14` to `ST-20`)."""
    budget = s.readiness_timeout_ms
    budget += 45_000 if call.history_items > 400 else 20_000 if call.history_items > 150 else 0
    budget += 15_000 if call.tools >= 15 else 0
    budget += 45_000 if call.body_bytes > 750_000 else 20_000 if call.body_bytes > 250_000 else 0
    return min(budget, max(s.readiness_max_timeout_ms, s.readiness_timeout_ms))


def _json_head(headers: Headers) -> Headers:
    """The head of an error that was found inside a 200: its own facts (request ids, limits), but one JSON body."""
    dropped = (b"content-type", b"content-length", b"content-encoding", b"transfer-encoding", b"cache-control")
    return (*((k, v) for k, v in headers if k.lower() not in dropped), (b"content-type", b"application/json"))
