"""What every dialect offers, and the parts that are the same for all of them.

A dialect knows how one API speaks; it does not know providers, timers or what an error means. Everything here is pure.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from omniroute_addon.model import DialectName

from . import json_body
from .client_errors import normalised
from .faults import OUTPUT_KEYS, Json, find_fault, text_fault
from .frames import BodyProblem, CallFacts, ClientError, Frame, FrameClass, Framing
from .reader import StreamReader
from .sse import SseEvent, parse_event
from .turn import Turn, judge_turn

HEARTBEATS = frozenset({"ping", "keepalive", "heartbeat"})


class Dialect(ABC):
    """One API format. Instances hold no state; get one from `dialect(name)`."""

    name: ClassVar[DialectName]
    ordinary_ends: ClassVar[frozenset[str]] = frozenset()
    """Finish reasons, in lower case, with which a trusted endpoint may send an empty turn (`ST-64`, `ST-65`)."""
    done_is_terminal: ClassVar[bool] = False
    """`data: [DONE]` ends a turn."""
    may_be_array: ClassVar[bool] = False
    """A stream may be a JSON array instead of an event stream."""
    long_terminal: ClassVar[re.Pattern[bytes]]
    """Finds a terminal marker in a frame that is too long to be parsed; its first group is the finish reason."""
    long_heads: ClassVar[tuple[tuple[re.Pattern[bytes], FrameClass], ...]] = ()
    """What the beginning of a long frame may say about it; without a match it is output (`ST-2`)."""
    overflow_phrase: ClassVar[str]
    """Words of this API by which agents recognise that they must compact (`A22`)."""

    # ------------------------------------------------------------ requests

    def read_call(self, *, path: str, body: bytes) -> CallFacts:
        """What the request asks for. Raises ValueError with one sentence when the body cannot be used."""
        members = json_body.read_object(body)
        facts = self._facts(path, members)
        return replace(facts, body={name: member.value for name, member in members.items()})

    def rename_model(self, *, path: str, body: bytes, model: str) -> tuple[str, bytes]:
        """Path and body with another model name, all else byte for byte. Raises ValueError like `read_call`."""
        return path, json_body.replace_model(body, model)

    def without_signed_reasoning(self, body: bytes) -> bytes | None:
        """The request without thoughts that are signed or encrypted for one account; None when it has none (`A29`)."""
        try:
            call = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(call, dict) or not self._strip_reasoning(call):
            return None
        return json.dumps(call, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @abstractmethod
    def _strip_reasoning(self, call: Json) -> bool:
        """Take signed or encrypted thoughts out of a request, in place; True when there were some."""

    @abstractmethod
    def _facts(self, path: str, call: json_body.Members) -> CallFacts: ...

    # ------------------------------------------------------------ our own errors

    def error_body(self, error: ClientError) -> bytes:
        """A whole error answer in this dialect's shape. Send it with `shown(error).status`."""
        return self._error_body(self.shown(error))

    def stream_error(self, error: ClientError, *, framing: Framing = "sse", sequence: int | None = None) -> bytes:
        """The frames that end a stream with an error (`ST-31` to `ST-33`); `StreamReader.closing` knows the rest."""
        return self._stream_error(self.shown(error), framing, sequence)

    def shown(self, error: ClientError) -> ClientError:
        """The error as the client sees it: with clean text, and an overflow as this API's own 400 (`A22`)."""
        return normalised(error, overflow_phrase=self.overflow_phrase)

    @abstractmethod
    def _error_body(self, error: ClientError) -> bytes: ...

    @abstractmethod
    def _stream_error(self, error: ClientError, framing: Framing, sequence: int | None) -> bytes: ...

    # ------------------------------------------------------------ answers

    def reader(self) -> StreamReader:
        """A new reader for one attempt's stream."""
        return StreamReader(self)

    def classify(self, raw: bytes) -> Frame:
        """The class of one whole frame of an event stream (`ST` section 2). Never raises."""
        return self._classify_event(parse_event(raw))

    def classify_json(self, text: bytes) -> Frame:
        """The class of one element of a JSON array stream. Never raises."""
        return self._classify_event(SseEvent(data=text or None, bare=True))

    @abstractmethod
    def is_plain(self, data: bytes) -> bool:
        """Whole frames that surely hold readable output and neither a terminal marker, nor an error, nor a tool call.

        A few byte searches, no parsing. Text cannot fool it: a quote inside a JSON string is escaped, so `"name":` is
        always a member, and a false alarm only costs a parse. (`find`, because `in` on bytes is four times slower.)
        """

    def long_class(self, head: bytes) -> FrameClass:
        """The class of a frame longer than the limit, by its first bytes."""
        return next((cls for pattern, cls in self.long_heads if pattern.search(head)), FrameClass.OUTPUT)

    def classify_rest(self, rest: bytes) -> Frame | None:
        """The frame in bytes that never got their blank line; None when it is cut, or nothing that matters."""
        event = parse_event(rest)
        data = (event.data or b"").strip()
        if not data.startswith((b"{", b"[")) or json_body.is_cut(data):
            return None
        return self._classify_event(event)

    def next_sequence(self, last: bytes) -> int | None:
        """The number that an event after these bytes has, where a dialect counts its events."""
        return None

    def judge_body(self, body: bytes) -> BodyProblem | None:
        """Why a whole answer with status 200 is no success, or None (`A10`, `A16`, `A18`, `ST-67`).

        Judges only what looks like this dialect's generation answer or like an error: token counts, embeddings and
        anything else pass. An event stream under the wrong content type is judged as a stream.
        """
        text = body.removeprefix(b"\xef\xbb\xbf").strip()
        if text.startswith((b"data:", b"event:", b":")):
            reader = self.reader()
            reader.feed(body)
            end = reader.end()
            return BodyProblem(kind="error", fault=end.error) if end.error else end.problem
        try:
            payload = json.loads(text)
        except RecursionError:
            return None
        except ValueError as error:
            return json_body.why_not_json(text, error)
        if isinstance(payload, list):
            return self._judge_list(payload, text)
        return self._judge_object(payload, text) if isinstance(payload, dict) else None

    def _judge_list(self, payload: list[Any], text: bytes) -> BodyProblem | None:
        # Google's front ends wrap a single error into a list, whatever the dialect.
        if len(payload) == 1 and isinstance(payload[0], dict) and (fault := find_fault(payload[0], text)):
            return BodyProblem(kind="error", fault=fault)
        return None

    def _judge_object(self, payload: Json, text: bytes) -> BodyProblem | None:
        if fault := find_fault(payload, text):
            return BodyProblem(kind="error", fault=fault)
        frame = self._whole_answer(payload)
        if frame is None:
            return None
        if frame.error:
            return BodyProblem(kind="error", fault=frame.error, finish=frame.finish)
        turn = Turn()
        turn.take(frame)
        return judge_turn(turn, self.ordinary_ends)

    @abstractmethod
    def _classify_payload(self, payload: Json, type: str) -> Frame:
        """The class of a JSON object; `type` is its own type, else the event's name. Errors are found elsewhere."""

    @abstractmethod
    def _whole_answer(self, payload: Json) -> Frame | None:
        """A non-stream generation answer as one terminal frame; None when it is something else."""

    def _classify_event(self, event: SseEvent) -> Frame:
        name = event.name
        data = event.data.strip() if event.data is not None else b""
        if not data:
            if name == "error":
                return Frame(cls=FrameClass.ERROR, type=name, error=text_fault("", type=name))
            return Frame(cls=FrameClass.HEARTBEAT, type=name or (":" if event.comment else ""))
        if data == b"[DONE]":
            return Frame(cls=FrameClass.HEARTBEAT, type="[DONE]", terminal=self.done_is_terminal)
        try:
            payload = json.loads(data)
        except (ValueError, RecursionError):
            return self._not_json(event, data)
        if isinstance(payload, list) and len(payload) == 1:
            payload = payload[0]
        if not isinstance(payload, dict):
            return Frame(cls=FrameClass.LIFECYCLE, type=name or "chunk")
        return self._classify_object(payload, data, name)

    def _classify_object(self, payload: Json, data: bytes, name: str) -> Frame:
        own = payload.get("type")
        kind = own if isinstance(own, str) and own else name
        if kind.lower() in HEARTBEATS or name.lower() in HEARTBEATS:
            return Frame(cls=FrameClass.HEARTBEAT, type=kind)
        frame = self._classify_payload(payload, kind)
        fault = find_fault(payload, data, event=name) or frame.error
        if fault is None:
            return frame
        # `ST-6`: A, B and C win over E; `ST-4`: an output member means that it is not error-only.
        bare = frame.cls is FrameClass.LIFECYCLE and not (OUTPUT_KEYS & payload.keys())
        return replace(frame, error=fault, cls=FrameClass.ERROR if bare else frame.cls)

    def _not_json(self, event: SseEvent, data: bytes) -> Frame:
        text = data.decode("utf-8", "replace")
        if event.name == "error":
            return Frame(cls=FrameClass.ERROR, type="error", error=text_fault(text, type="error"))
        if event.bare:
            return Frame(cls=FrameClass.HEARTBEAT, type=event.name or "text")
        return Frame(cls=FrameClass.OUTPUT, type=event.name or "text", text_bytes=len(data))  # `ST-5`
