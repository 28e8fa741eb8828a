"""What the client gets: a good answer played into mitmproxy's own states, its end or its break, or the last word."""

from __future__ import annotations

import logging

from mitmproxy import flow, http
from mitmproxy.proxy import events
from mitmproxy.proxy.layers.http import DropStream, SendHttp
from mitmproxy.proxy.layers.http._events import (
    ErrorCode,
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)
from mitmproxy.proxy.layers.http._hooks import HttpErrorHook, HttpResponseHeadersHook, HttpResponseHook

from ..decisions import Commit
from ..exchange import Reply, Send
from ..final_answer import marks
from ..model import Answer
from ..watch import Watch
from .copies import frame_stream, response_of
from .http1_repair import EndWithTrailers
from .lively import LivelyStream
from .patience import Commands

log = logging.getLogger(__name__)


class Noted(events.Event):
    """To ourselves: the chunk just handed on has shown an error, or a turn that is no success."""


class AnsweringStream(LivelyStream):
    """From the moment when it is clear what the client gets. The fields are those of the running attempt."""

    watch: Watch | None = None
    _step: Send
    _prepared: tuple[Watch, http.Request]
    """For the step to come: who watches its answer, and what goes on the wire."""
    _head: ResponseHeaders | None = None
    _trailers: ResponseTrailers | None = None
    _short_way = False
    _error_told = False
    """The client was given an error inside its stream, and the engine knows."""

    def _commit(self, commit: Commit) -> Commands:
        """Play what was held into `HttpStream`'s own states, as if it had just come."""
        assert self.exchange and self.watch and self._head
        response = self._head.response
        self.end_signs()
        self.exchange.committed, self.exchange.status = True, response.status_code
        # The fields themselves: mitmproxy's header mapping takes longer for two new ones than the rest of this method.
        response.headers.fields = (*response.headers.fields, *marks(self.exchange, self._step.attempt))
        if self.watch.streams:
            response.stream = True
        self.flow.error = None
        self.flow.comment = self.exchange.comment()
        yield from self.state_wait_for_response_headers(self._head)
        if self.server_state == self.state_errored:  # killed by a hook, or the client left meanwhile
            yield from self.cancel_upstream("killed")
            self._over(good=False)
            return
        if commit.held:
            yield from self.server_state(ResponseData(self.stream_id, commit.held))
        self._notice_error(self.watch)
        if self.watch.ended:
            yield from self._ended("")
        else:
            self._take_short_way()
            yield from self.arm()

    def start_response_stream(self) -> Commands:
        # Only here: before its own check of the head, mitmproxy refuses this header in an HTTP/2 answer.
        if self.exchange is not None and self.flow.response is not None:
            frame_stream(self.flow.request, self.flow.response)
        yield from super().start_response_stream()

    def _ended(self, fault: str) -> Commands:
        """The upstream said its last word after commit. Nothing is replayed; a broken stream ends with an error."""
        assert self.exchange and self.watch
        if not self.watch.complete:
            message = fault or "the stream ended before its last event"
            yield from self._break(message, "reset" if fault else "truncated")
            return
        rest = self.watch.rest()
        if rest:
            yield from self.server_state(ResponseData(self.stream_id, rest))
        if self._trailers and not self.flow.request.http_version.startswith("HTTP/1"):
            yield from self.server_state(self._trailers)  # mitmproxy cannot write them over HTTP/1
        self._over(good=not self._error_told)
        yield from self.server_state(ResponseEndOfMessage(self.stream_id))

    def _break(self, message: str, fault: str) -> Commands:
        """End a broken answer: with an error in the client's dialect, or by cutting it; never as if it were whole.

        Which of the two is better for this client its profile says; where no error can be said it is cut anyway.
        """
        assert self.exchange and self.watch
        if not self._error_told:
            answer = Answer(status=0, body=message.encode()[:500], stream=True, phase="stream", fault=fault)
            self.engine.failed_after_commit(self.exchange, answer)
            self.flow.comment = self.exchange.comment()
        self._over(good=False)
        cut = self.exchange.profile.ending(self.exchange.call.dialect) == "cut" and not self._error_told
        if self.watch.mendable and not cut:
            if not self._error_told:  # the upstream's own error is all that the client needs (`ST-35`)
                words = f"The upstream stream broke off: {message}"
                yield from self.server_state(ResponseData(self.stream_id, self.watch.closing(words)))
            yield from self.server_state(ResponseEndOfMessage(self.stream_id))
        else:
            error = ResponseProtocolError(self.stream_id, message, ErrorCode.GENERIC_SERVER_ERROR)
            yield from self.handle_protocol_error(error)

    def _notice_error(self, watch: Watch) -> None:
        """The client was given an upstream error inside the stream: it is classified for the connection's health."""
        assert self.exchange
        if watch.error is None or self._error_told:
            return
        self._error_told = True
        body = b"data: " + watch.error.body + b"\n\n"
        answer = Answer(status=self.exchange.status, body=body, stream=True, phase="stream")
        self.engine.failed_after_commit(self.exchange, answer)
        self.flow.comment = self.exchange.comment()

    def _reply(self, reply: Reply) -> Commands:
        """Everything was tried: the answer that the engine chose or wrote."""
        assert self.exchange
        self.watch = None
        self.end_signs()
        self.flow.error = None
        if self.opened:
            self.flow.comment = self.exchange.comment()
            self._over(good=False)
            yield from self.tell_inside(reply)
            return
        self.flow.response = response_of(reply)
        self.exchange.status = reply.status
        self.flow.comment = self.exchange.comment()
        yield HttpResponseHeadersHook(self.flow)
        self._over(good=False)
        if not (yield from self.check_killed(True)):
            yield from self.send_response()

    def _client_left(self, event: RequestProtocolError) -> Commands:
        """The client went away. After the last event that is a success, before it nobody's failure (`ST-126`, `ST-127`)."""
        assert self.exchange
        if self.exchange.finished:
            return
        self.end_signs()
        good = bool(self.watch and self.watch.committed and self.watch.complete)
        yield from self.cancel_upstream(event.message)
        self.client_state = self.server_state = self.state_errored
        self._over(good=good)
        if good:
            yield HttpResponseHook(self.flow)
        else:
            self.flow.error = flow.Error(event.message)
            yield HttpErrorHook(self.flow)
        self.flow.live = False
        yield DropStream(self.stream_id)

    def _over(self, *, good: bool) -> None:
        assert self.exchange
        self._short_way = False
        self.end_attempt()
        self.leave_timer()
        try:
            self.engine.finish(self.exchange, status=self.exchange.status, good=good)
        except Exception:  # our own fault: the client has its answer, only the account of it is lost
            log.exception("the engine failed to finish %r", self.exchange)

    def _keep_trailers(self, event: ResponseEndOfMessage) -> None:
        if isinstance(event, EndWithTrailers):
            self._trailers = ResponseTrailers(event.stream_id, event.trailers)

    def _pass_on(self, event: events.Event, watch: Watch) -> Commands:
        if isinstance(event, ResponseData):
            event.data = watch.relay(event.data, self.now())
            if event.data:
                yield from self.server_state(event)
            yield from self._notice(watch)
        elif isinstance(event, (ResponseEndOfMessage, ResponseProtocolError)):
            if isinstance(event, ResponseEndOfMessage):
                self._keep_trailers(event)
                watch.ended = True
            yield from self._ended(getattr(event, "message", ""))
        elif isinstance(event, ResponseTrailers):
            self._trailers = event
        else:
            yield from self.server_state(event)

    def _notice(self, watch: Watch) -> Commands:
        """What the bytes just passed on have shown."""
        self._notice_error(watch)
        if watch.problem is not None:
            yield from self.cancel_upstream("no usable answer")
            yield from self._break(watch.problem.fault.message, watch.problem.kind)

    # ------------------------------------------------------------ the short way of a chunk

    def _take_short_way(self) -> None:
        """From now on a chunk goes from the watch to the client without the three generators between.

        Only when nobody asked mitmproxy to look at the bytes on the way.
        """
        response = self.flow.response
        plain = response is not None and response.stream is True and not self.context.options.store_streamed_bodies
        self._short_way = plain and self.debug is None and self.server_state == self.state_stream_response_body

    def handle_event(self, event: events.Event) -> Commands:
        if (
            self._short_way
            and type(event) is ResponseData
            and self._paused is None
            and event.stream_id == self.attempt_id
        ):
            return self._hand_on(event.data)
        return super().handle_event(event)

    def _hand_on(self, chunk: bytes) -> Commands:
        watch = self.watch
        assert watch is not None
        data = watch.relay(chunk, self.now())
        if data:
            yield SendHttp(ResponseData(self.stream_id, data), self.context.client)
        if watch.noteworthy:
            yield from super().handle_event(Noted())  # may ask hooks, so it goes the way on which a stream can pause
