"""The attempt loop: the engine's steps, carried out on mitmproxy's connections."""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from mitmproxy.connection import Server
from mitmproxy.net import server_spec
from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import GetHttpConnection, GetHttpConnectionCompleted, SendHttp
from mitmproxy.proxy.layers.http._events import (
    RequestData,
    RequestEndOfMessage,
    RequestHeaders,
    RequestProtocolError,
    RequestTrailers,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
    ResponseTrailers,
)

from ..decisions import Commit, Decision, Fail
from ..exchange import Pause, Reply, Send, Step
from ..final_answer import broken_engine
from ..model import Answer
from ..watch import Watch
from .answering import Noted
from .copies import hide_credentials, proxy_login, show_target, wire_request
from .patience import CLIENT_LEFT, TIMED_OUT, Commands, OmniroutePauseHook, Waiting
from .recognising import RecognisingStream

log = logging.getLogger(__name__)

_STALE_TRIES = 2
"""How often a request is sent again because the upstream had closed a kept-alive connection meanwhile."""


class AttemptStream(RecognisingStream):
    """See the package's text. The fields are those of the running attempt."""

    _reused = False
    """The attempt went out on a connection that had been used before."""
    _stale_tries = 0
    _inside_answer = False
    """The call stack below us is an upstream connection that reports the end of its answer."""
    # ------------------------------------------------------------ events

    def _handle_event(self, event: events.Event) -> Commands:
        # A plain function that hands out a generator: it runs for every event of every exchange.
        if self.exchange is None:
            plain: Commands = super()._handle_event(event)
            return plain
        watch = self.watch
        if watch is not None and self.attempt_id and getattr(event, "stream_id", None) == self.attempt_id:
            return self._pass_on(event, watch) if watch.committed else self._follow(self._judge(event, watch))
        return self._besides(event)

    def _besides(self, event: events.Event) -> Commands:
        if self.rang(event):
            yield from self.sign_if_due()
            yield from self._on_deadline()
        elif isinstance(event, RequestProtocolError):
            yield from self._client_left(event)
        elif isinstance(event, Noted):
            if self.watch is not None and self.attempt_id is not None:
                yield from self._notice(self.watch)
        elif isinstance(event, GetHttpConnectionCompleted):
            pass  # the connection that we had given up came after all; it stays for others

    def _judge(self, event: events.Event, watch: Watch) -> Decision:
        if isinstance(event, ResponseHeaders):
            self._head = event
            if self.context.options.validate_inbound_headers:
                try:
                    validate_headers(event.response)
                except ValueError as error:
                    # Nobody has closed this connection: what follows the head must not meet the next request.
                    return replace(watch.broke(f"invalid response head: {error}", "protocol"), cancel=True)
            if event.response.status_code == 101:
                # Nobody asked for another protocol, and mitmproxy would wait for its end for ever.
                return replace(watch.broke("the provider switched to another protocol", "protocol"), cancel=True)
            watch.head(event.response.status_code, event.response.headers.fields, self.now())
        elif isinstance(event, ResponseData):
            return watch.data(event.data, self.now())
        elif isinstance(event, ResponseTrailers):
            self._trailers = event
        elif isinstance(event, ResponseEndOfMessage):
            self._keep_trailers(event)
            return watch.end()
        elif isinstance(event, ResponseProtocolError):
            # A connection that lives on has only refused this request (RST_STREAM): that is an answer of its kind.
            stale = self._reused and self._head is None and not self.context.server.connected
            return watch.broke(event.message, "stale" if stale and self._stale_tries < _STALE_TRIES else "reset")
        return None

    # ------------------------------------------------------------ from the client's request to the first attempt

    def make_server_connection(self) -> Generator[commands.Command, Any, bool]:
        """Where `HttpStream` would dial the one upstream. False tells it that the rest is not its business."""
        if self.exchange is None and self.client_state == self.state_done:
            self.exchange = self.recognise()
        if self.exchange is None:
            return (yield from super().make_server_connection())
        hide_credentials(self.flow.request)
        self.begin_signs()
        yield from self._run()
        return False

    def _run(self, step: Step | None = None) -> Commands:
        """The engine's steps, until something was sent or answered."""
        assert self.exchange
        while True:
            step = step or self._advance()
            if isinstance(step, Reply):
                yield from self._reply(step)
                return
            if isinstance(step, Pause):
                self._inside_answer = False
                if self._sign:
                    yield from self.arm()
                yield OmniroutePauseHook(Waiting(self.exchange, step))
            elif self._inside_answer:
                # While an HTTP/1 connection reports the end of its answer it is not free for the next request yet.
                self._inside_answer = False
                yield OmniroutePauseHook(Waiting(self.exchange, Pause()))
                if not self.client_waits_to_leave():
                    continue
            elif (yield from self._send(step)):
                return
            if self.client_waits_to_leave():
                return
            step = None

    def _advance(self) -> Step:
        assert self.exchange
        try:
            step = self.engine.advance(self.exchange)
            if isinstance(step, Send):
                out, target = step.outgoing, step.attempt.target
                show_target(self.flow.request, out, target, own_body=self.exchange.incoming.body)
                self._prepared = self.engine.watch(self.exchange, step), wire_request(self.flow.request, out)
            return step
        except Exception:  # our own fault: the client gets an honest error instead of silence
            log.exception("the engine failed on %r", self.exchange)
            return broken_engine(self.exchange)

    # ------------------------------------------------------------ one attempt

    def _send(self, step: Send) -> Generator[commands.Command, Any, bool]:
        """Send one attempt. False: no connection came, and the engine knows."""
        assert self.exchange
        self._step, out = step, step.outgoing
        self.watch, wire = self._prepared
        self._head = self._trailers = None
        self.server_state = self.state_uninitialized
        attempt_id = self.begin_attempt()
        connection, error = yield from self._connect(step)
        if connection is None:
            if error == CLIENT_LEFT:
                self.end_attempt()
                return True
            self._failed(self.watch.broke(error, "timeout:connect" if error == TIMED_OUT else "connect_failed"))
            self.end_attempt()
            return False
        self._reused = (connection.timestamp_start or step.attempt.started_at) < step.attempt.started_at
        self.context.server = self.flow.server_conn = connection
        trailers = self.flow.request.trailers
        yield SendHttp(RequestHeaders(attempt_id, wire, not (out.body or trailers)), connection)
        if out.body:
            yield SendHttp(RequestData(attempt_id, out.body), connection)
        if trailers:
            yield SendHttp(RequestTrailers(attempt_id, trailers), connection)
        yield SendHttp(RequestEndOfMessage(attempt_id), connection)
        return True

    def _connect(self, step: Send) -> Generator[commands.Command, Any, tuple[Server | None, str]]:
        out, connection = step.outgoing, step.attempt.target.connection
        via = server_spec.parse(connection.via, "http") if connection.via else self.flow.server_conn.via
        address = (out.host, out.port)
        self.lift_connection_limit(via[1] if via else address)
        timeout_ms = self.engine.core.config.settings.connect_timeout_ms
        self._connect_at = self.now() + timeout_ms / 1000 if step.alternatives and timeout_ms else None
        yield from self.arm()
        transport = self.flow.server_conn.transport_protocol if connection.own else "tcp"
        if via and not connection.via and out.scheme == "http" and (login := proxy_login(self.context.options)):
            self._prepared[1].headers["proxy-authorization"] = login
        found, error = yield GetHttpConnection(address, out.scheme == "https", via, transport)
        self._connect_at = None
        return found, error or ""

    def _follow(self, decision: Decision) -> Commands:
        if isinstance(decision, Commit):
            assert self.watch
            if self.opened and not self.watch.joins:
                # The client has been promised an event stream, in plain text.
                lost = Answer(status=0, body=b"the answer is no event stream", phase="body", fault="protocol")
                yield from self._abandon(Fail(lost, cancel=not self.watch.ended))
            else:
                yield from self._commit(decision)
        elif isinstance(decision, Fail):
            yield from self._abandon(decision)
        elif self._timer is None or (self.watch is not None and self.watch.sooner):
            yield from self.arm()

    def _abandon(self, fail: Fail) -> Commands:
        """This attempt is no good. It is cancelled upstream at once, unless its answer is the one the client must get."""
        assert self.watch
        self._failed(fail)
        step: Step | None = None
        if fail.raw is not None and fail.raw.partial:
            step = self._advance()
            if isinstance(step, Reply) and step.attempt == self._step.attempt.number and not self.opened:
                self._error_told = True  # it is an error still, however well it ends
                yield from self._commit(self.watch.release())
                return
        if fail.cancel:
            yield from self.cancel_upstream("abandoned")
        self._inside_answer = self.watch.ended
        self.end_attempt()
        yield from self._run(step)

    def _failed(self, fail: Fail) -> None:
        assert self.exchange
        if fail.answer.fault == "stale":
            self._stale_tries += 1
            self.engine.stale(self.exchange)
            return
        try:
            self.engine.failed(self.exchange, fail.answer, fail.raw)
        except Exception:  # our own fault: this attempt's target is passed by
            log.exception("the engine failed to judge an answer of %r", self.exchange)
            self.exchange.spent.add(self._step.attempt.target.key)
        self.flow.comment = self.exchange.comment()

    # ------------------------------------------------------------ time

    def wake_at(self) -> float:
        """The earliest deadline of the attempt, and of its connection while there is none."""
        running = self.watch is not None and self.attempt_id is not None
        watched = self.watch.wake_at() if running and self.watch is not None else float("inf")
        return min(watched, super().wake_at())

    def _on_deadline(self) -> Commands:
        assert self.exchange
        if self.exchange.finished or self.watch is None or self.attempt_id is None:
            return
        decision = self.watch.expired(self.now())
        if isinstance(decision, Fail) and self.watch.committed:
            yield from self.cancel_upstream("stalled")
            yield from self._break(decision.answer.body.decode(), decision.answer.fault or "timeout")
        else:
            yield from self._follow(decision)
