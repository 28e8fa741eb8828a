"""Many attempts inside one client stream: the only user of mitmproxy's internals.

`AttemptStream` replaces mitmproxy's `HttpStream`, the state machine of one HTTP exchange. For what is not a model call
it is `HttpStream`. For a model call it stops being one where the request would go out, and runs the engine's steps
instead: each attempt is sent on mitmproxy's own connections under a fresh upstream stream id, and its answer goes to a
`Watch`. When the watch says that an answer is good, the held events are played into `HttpStream`'s own states, as if they
had just come: hooks, streaming, trailers and every mitmproxy feature behind that point work as without us.

Three things need care, because mitmproxy does not expect them:

* An upstream stream id may be used once per HTTP/2 connection, so each attempt has its own, far above the client's. What
  comes for an older id, or for none, is dropped.
* While the stream is paused for a connection or for our own pause, other events queue up. A client that leaves and a
  connect deadline must not: `handle_event` answers in the place of what does not come.
* `RequestWakeup` cannot be cancelled, so one timer is kept for all deadlines of a stream and renewed while it lives.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Generator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import mitmproxy.proxy.layers.http as http_layers
from mitmproxy import ctx, flow, http
from mitmproxy.connection import Server
from mitmproxy.net import server_spec
from mitmproxy.net.http.validate import validate_headers
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import (
    DropStream,
    ErrorCode,
    GetHttpConnection,
    GetHttpConnectionCompleted,
    HttpErrorHook,
    HttpLayer,
    HttpResponseHeadersHook,
    HttpResponseHook,
    HttpStream,
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
    SendHttp,
)

from .engine import Engine
from .exchange import Exchange, Pause, Reply, Send, Step
from .final_answer import marks
from .model import Answer
from .peers import is_loopback
from .watch import Commit, Decision, Fail, Watch
from .wire import Incoming, shown_headers, shown_path

log = logging.getLogger(__name__)

_attempt_ids = itertools.count(1 << 40, 2)
_TICK_S = 5.0
"""Longest sleep of a timer: a finished stream leaves one behind for at most this long."""
_CONNECTIONS_PER_ADDRESS = 256
"""mitmproxy's five make twelve parallel streams of one HTTP/2 client wait for each other at an HTTP/1 upstream."""
_CLIENT_LEFT = "client disconnected"
_TIMED_OUT = "connection timed out"

Commands = Generator[commands.Command, Any, None]


@dataclass(slots=True, eq=False)
class Waiting:
    """A pause of one exchange, for the addon to sit out. `gone` is set when the client leaves."""

    exchange: Exchange
    pause: Pause
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class OmniroutePauseHook(commands.StartHook):
    """Asks the addon to wait: only this stream is held up meanwhile."""

    waiting: Waiting
    name = "omniroute_pause"


class AttemptStream(HttpStream):
    """See the module's text. `engine` is set by `install`."""

    engine: ClassVar[Engine]
    exchange: Exchange | None = None
    watch: Watch | None = None
    attempt_id: int | None = None
    _send_step: Send
    _head: ResponseHeaders | None = None
    _trailers: ResponseTrailers | None = None
    _timer: commands.RequestWakeup | None = None
    _timer_at: float = 0.0
    _connect_at: float | None = None
    _reused = False
    _stale_tries = 0
    _inside_answer = False

    # ------------------------------------------------------------ events, ours and theirs

    def handle_event(self, event: events.Event) -> Commands:
        paused = self._paused.command if self._paused else None
        if self.exchange is None or paused is None:
            yield from super().handle_event(event)
        elif isinstance(paused, OmniroutePauseHook):
            if isinstance(event, RequestProtocolError):
                paused.waiting.gone.set()
            yield from super().handle_event(event)
        elif isinstance(paused, GetHttpConnection):
            yield from self._while_connecting(paused, event)
        else:
            yield from super().handle_event(event)

    def _while_connecting(self, connecting: GetHttpConnection, event: events.Event) -> Commands:
        if isinstance(event, RequestProtocolError):
            yield from self._give_up_connecting(connecting, _CLIENT_LEFT)
        elif isinstance(event, events.Wakeup) and event.command is self._timer:
            self._timer = None
            if self._connect_at is not None and self._now() >= self._connect_at:
                yield from self._give_up_connecting(connecting, _TIMED_OUT)
            else:
                yield from self._arm()
            return
        yield from super().handle_event(event)

    def _give_up_connecting(self, connecting: GetHttpConnection, why: str) -> Commands:
        for connection, waiting in self._http_layer.waiting_for_establishment.items():
            if len(waiting) == 1 and waiting[0] is connecting:
                yield commands.CloseConnection(connection)
        yield from super().handle_event(GetHttpConnectionCompleted(connecting, (None, why)))

    def _handle_event(self, event: events.Event) -> Commands:
        if self.exchange is None:
            yield from super()._handle_event(event)
        elif isinstance(event, events.Wakeup):
            if event.command is self._timer:
                self._timer = None
                yield from self._on_deadline()
        elif isinstance(event, GetHttpConnectionCompleted):
            pass  # the connection that we had given up came after all; it stays for others
        elif isinstance(event, RequestProtocolError):
            yield from self._client_left(event)
        elif getattr(event, "stream_id", None) == self.attempt_id:
            yield from self._upstream(event)

    def _upstream(self, event: events.Event) -> Commands:
        assert self.watch
        if self.watch.committed:
            if isinstance(event, ResponseData):
                event.data = self.watch.relay(event.data, self._now())
                if event.data:
                    yield from self.server_state(event)
                if self.watch.error is not None and not self._fault_told:
                    self._tell_fault(self.watch.error.body)
                if self.watch.problem is not None:
                    yield from self._cancel_upstream("no usable answer")
                    yield from self._break(self.watch.problem.fault.message, self.watch.problem.kind)
            elif isinstance(event, ResponseEndOfMessage):
                self.watch.ended = True
                yield from self._ended(event)
            elif isinstance(event, ResponseProtocolError):
                yield from self._ended(event)
            else:
                yield from self.server_state(event)
        elif isinstance(event, ResponseProtocolError):
            stale = self._reused and self._head is None and self._stale_tries < 2
            fault = "stale" if stale else "reset"
            yield from self._follow(self.watch.broke(event.message, fault))
        else:
            yield from self._follow(self._judge(event))

    def _judge(self, event: events.Event) -> Decision:
        assert self.watch
        now = self._now()
        if isinstance(event, ResponseHeaders):
            self._head = event
            if self.context.options.validate_inbound_headers:
                try:
                    validate_headers(event.response)
                except ValueError as error:
                    return self.watch.broke(f"invalid response head: {error}", "protocol")
            self.watch.head(event.response.status_code, event.response.headers.fields, now)
            return None
        if isinstance(event, ResponseData):
            return self.watch.data(event.data, now)
        if isinstance(event, ResponseTrailers):
            self._trailers = event
            return None
        return self.watch.end()

    # ------------------------------------------------------------ from the client's request to the first attempt

    def make_server_connection(self) -> Generator[commands.Command, Any, bool]:
        """Where `HttpStream` would dial the one upstream. False tells it that the rest is not its business."""
        if self.exchange is None and self.client_state == self.state_done:
            self.exchange = self._identify()
        if self.exchange is None:
            return (yield from super().make_server_connection())
        self.flow.request.headers = http.Headers(shown_headers(self.flow.request.headers.fields))
        self.flow.request.path = shown_path(self.flow.request.path)
        yield from self._run()
        return False

    def check_body_size(self, request: bool) -> Generator[commands.Command, Any, bool]:
        """Without `stream_large_bodies`: a model call is read whole, and how its answer travels the watch decides."""
        options = self.context.options
        if not options.stream_large_bodies or not self._may_be_ours():
            return (yield from super().check_body_size(request))
        limit = SimpleNamespace(body_size_limit=options.body_size_limit, stream_large_bodies=None)
        self.context.options = limit  # type: ignore[assignment]
        try:
            return (yield from super().check_body_size(request))
        finally:
            self.context.options = options

    def _may_be_ours(self) -> bool:
        request = self.flow.request
        return self.exchange is not None or self.engine.is_ours(
            request.method, request.pretty_host, request.port, request.path
        )

    def _identify(self) -> Exchange | None:
        request = self.flow.request
        host = request.pretty_host
        if not self._may_be_ours():
            return None
        peer = self.context.client.peername[0] if self.context.client.peername else ""
        incoming = Incoming(
            method=request.method,
            scheme=request.scheme,
            host=request.host,
            port=request.port,
            path=request.path,
            headers=tuple(request.headers.fields),
            body=request.raw_content or b"",
        )
        try:
            return self.engine.identify(incoming, host=host, peer=peer, trusted=is_loopback(peer))
        except Exception:  # our own fault never becomes the user's failure: the request goes as without us
            log.exception("could not identify a request to %s; it passes as it is", host)
            return None

    def _run(self, step: Step | None = None) -> Commands:
        """The engine's steps, until something was sent or answered."""
        assert self.exchange
        while True:
            step = step or self._advance()
            if isinstance(step, Reply):
                yield from self._reply(step)
                return
            if isinstance(step, Pause) or self._inside_answer:
                # Also needed where no pause was asked for: while an HTTP/1 connection is telling us that its answer has
                # ended, it is not free for the next request yet.
                pause = step if isinstance(step, Pause) else Pause()
                self._inside_answer = False
                yield OmniroutePauseHook(Waiting(self.exchange, pause))
                if self._client_waits_to_leave():
                    return
                if pause is not step:
                    continue
            elif (yield from self._send(step)):
                return
            step = None

    def _advance(self) -> Step:
        assert self.exchange
        try:
            return self.engine.advance(self.exchange)
        except Exception:  # our own fault: the client gets an honest error instead of silence
            log.exception("the engine failed on %r", self.exchange)
            self.exchange.final = True
            body = b'{"error":{"message":"omniroute failed internally; see its log","type":"server_error","code":"internal"}}'
            return Reply(status=502, headers=((b"content-type", b"application/json"),), body=body)

    def _client_waits_to_leave(self) -> bool:
        return any(isinstance(e, RequestProtocolError) for e in self._paused_event_queue)

    # ------------------------------------------------------------ one attempt

    def _send(self, step: Send) -> Generator[commands.Command, Any, bool]:
        """Send one attempt. False: no connection came, and the engine knows."""
        assert self.exchange
        self._send_step, out, target = step, step.outgoing, step.attempt.target
        settings, now = self.engine.core.config.settings, self._now()
        self.watch = self.engine.watch(self.exchange, step)
        self._head = self._trailers = None
        self.attempt_id = next(_attempt_ids)
        self._http_layer.streams[self.attempt_id] = self
        self.server_state = self.state_uninitialized
        wire = self._wire_request(step)
        via = self.flow.server_conn.via
        if target.connection.via:
            via = server_spec.parse(target.connection.via, "http")
        address = (out.host, out.port)
        _lift_connection_limit(self.context.client.id, via[1] if via else address)
        connecting = settings.connect_timeout_ms / 1000
        self._connect_at = now + connecting if step.alternatives and connecting else None
        yield from self._arm()
        transport = self.flow.server_conn.transport_protocol if target.connection.own else "tcp"
        connection, error = yield GetHttpConnection(address, out.scheme == "https", via, transport)
        self._connect_at = None
        if error:
            if error != _CLIENT_LEFT:
                fault = "timeout:connect" if error == _TIMED_OUT else "connect_failed"
                self._failed(self.watch.broke(error, fault))
                return False
            self._drop_attempt()
            return True
        assert isinstance(connection, Server)
        self._reused = (connection.timestamp_start or now) < now
        self.context.server = self.flow.server_conn = connection
        trailers = self.flow.request.trailers
        yield SendHttp(RequestHeaders(self.attempt_id, wire, not (out.body or trailers)), connection)
        if out.body:
            yield SendHttp(RequestData(self.attempt_id, out.body), connection)
        if trailers:
            yield SendHttp(RequestTrailers(self.attempt_id, trailers), connection)
        yield SendHttp(RequestEndOfMessage(self.attempt_id), connection)
        return True

    def _wire_request(self, step: Send) -> http.Request:
        """The copy that carries the credential; `flow.request` is made to show the same address and model without it."""
        out, target, shown = step.outgoing, step.attempt.target, self.flow.request
        if not target.connection.own:
            shown.data.host, shown.data.port, shown.scheme = out.host, out.port, out.scheme
            shown.path = shown_path(out.path)
            if shown.authority:
                shown.authority = out.authority
            if "host" in shown.headers:
                shown.headers["host"] = out.authority
            if out.body is not self.exchange.incoming.body:  # type: ignore[union-attr]
                shown.headers.pop("content-encoding", None)
                shown.raw_content = out.body
        wire = shown.copy()
        wire.path = out.path
        wire.headers = http.Headers(out.headers)
        if wire.is_http2 or wire.is_http3:
            wire.headers.pop("host", None)
            wire.authority = wire.authority or out.authority
        wire.data.content = out.body
        wire.trailers = None
        return wire

    def _follow(self, decision: Decision) -> Commands:
        if isinstance(decision, Commit):
            yield from self._commit(decision)
        elif isinstance(decision, Fail):
            yield from self._abandon(decision)
        else:
            yield from self._arm()

    def _abandon(self, fail: Fail) -> Commands:
        """This attempt is no good. It is cancelled upstream at once, unless its answer is the one the client must get."""
        assert self.exchange and self.watch
        self._failed(fail)
        step: Step | None = None
        if fail.raw is not None and fail.raw.partial:
            step = self._advance()
            if isinstance(step, Reply) and step.attempt == self._send_step.attempt.number:
                yield from self._commit(self.watch.release())
                return
        if fail.cancel:
            yield from self._cancel_upstream("abandoned")
        self._inside_answer = self.watch.ended
        self._drop_attempt()
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
            self.exchange.spent.add(self._send_step.attempt.target.key)
        self.flow.comment = self.exchange.comment()

    def _cancel_upstream(self, why: str) -> Commands:
        if self.attempt_id is not None and self.context.server in self._http_layer.connections:
            error = RequestProtocolError(self.attempt_id, why, ErrorCode.CANCEL)
            yield SendHttp(error, self.context.server)

    def _drop_attempt(self) -> None:
        if self.attempt_id is not None:
            self._http_layer.streams.pop(self.attempt_id, None)
            self.attempt_id = None

    # ------------------------------------------------------------ the answer

    def _commit(self, commit: Commit) -> Commands:
        """Play what was held into `HttpStream`'s own states, as if it had just come."""
        assert self.exchange and self.watch and self._head
        self.exchange.committed, self.exchange.status = True, self._head.response.status_code
        response = self._head.response
        for name, value in marks(self.exchange, self._send_step.attempt):
            response.headers[name.decode()] = value.decode()
        if self.watch.streams:
            response.stream = True
        self.flow.error = None
        self.flow.comment = self.exchange.comment()
        yield from self.state_wait_for_response_headers(self._head)
        if self.server_state == self.state_errored:  # killed by a hook, or the client left meanwhile
            yield from self._cancel_upstream("killed")
            self._over(good=False)
            return
        if commit.held:
            yield from self.server_state(ResponseData(self.stream_id, commit.held))
        if self.watch.ended:
            yield from self._ended(ResponseEndOfMessage(self.stream_id))
        else:
            yield from self._arm()

    def start_response_stream(self) -> Commands:
        # Only here: before its own check of the head, mitmproxy refuses this header in an HTTP/2 answer.
        if self.exchange is not None and self.flow.response is not None:
            _frame_for_http1(self.flow.request, self.flow.response)
        yield from super().start_response_stream()

    def _ended(self, event: ResponseEndOfMessage | ResponseProtocolError) -> Commands:
        """The upstream said its last word after commit. Nothing is replayed; a broken stream ends with an error."""
        assert self.exchange and self.watch
        if self.watch.complete:
            for piece in filter(None, [self.watch.rest()]):
                yield from self.server_state(ResponseData(self.stream_id, piece))
            if self._trailers:
                yield from self.server_state(self._trailers)
            yield from self.server_state(ResponseEndOfMessage(self.stream_id))
            self._over(good=not self._fault_told)
            return
        message = getattr(event, "message", "the stream ended before its last event")
        yield from self._break(message, "reset" if isinstance(event, ResponseProtocolError) else "truncated")

    def _break(self, message: str, fault: str) -> Commands:
        """End a broken answer: with an error in the client's dialect where that can be said, else by cutting it."""
        assert self.exchange and self.watch
        if not self._fault_told:
            answer = Answer(status=0, body=message.encode()[:500], stream=True, phase="stream", fault=fault)
            self.engine.failed_after_commit(self.exchange, answer)
            self.flow.comment = self.exchange.comment()
        if self.watch.mendable:
            words = f"The upstream stream broke off: {message}"
            yield from self.server_state(ResponseData(self.stream_id, self.watch.closing(words)))
            yield from self.server_state(ResponseEndOfMessage(self.stream_id))
        else:
            error = ResponseProtocolError(self.stream_id, message, ErrorCode.GENERIC_SERVER_ERROR)
            yield from super().handle_protocol_error(error)
        self._over(good=False)

    _fault_told = False

    def _tell_fault(self, body: bytes) -> None:
        """The client was given an upstream error inside the stream: it is classified for the connection's health."""
        assert self.exchange
        self._fault_told = True
        answer = Answer(status=self.exchange.status, body=b"data: " + body + b"\n\n", stream=True, phase="stream")
        self.engine.failed_after_commit(self.exchange, answer)

    def _reply(self, reply: Reply) -> Commands:
        """Everything was tried: the answer that the engine chose or wrote."""
        assert self.exchange
        self._drop_attempt()
        self.flow.response = http.Response.make(reply.status, reply.body, http.Headers(reply.headers))
        self.flow.error = None
        self.exchange.status = reply.status
        self.flow.comment = self.exchange.comment()
        self.watch = None
        yield HttpResponseHeadersHook(self.flow)
        if (yield from self.check_killed(True)):
            self._over(good=False)
            return
        yield from self.send_response()
        self._over(good=False)

    def _client_left(self, event: RequestProtocolError) -> Commands:
        """The client went away. After the last event that is a success, before it nobody's failure (`ST-126`, `ST-127`)."""
        assert self.exchange
        if self.exchange.finished:
            return
        good = bool(self.watch and self.watch.committed and self.watch.complete)
        yield from self._cancel_upstream(event.message)
        self.client_state = self.server_state = self.state_errored
        if good:
            yield HttpResponseHook(self.flow)
        else:
            self.flow.error = flow.Error(event.message)
            yield HttpErrorHook(self.flow)
        self.flow.live = False
        self._over(good=good)
        yield DropStream(self.stream_id)

    def _over(self, *, good: bool) -> None:
        assert self.exchange
        self._drop_attempt()
        self.engine.finish(self.exchange, status=self.exchange.status, good=good)

    # ------------------------------------------------------------ time

    def _arm(self) -> Commands:
        """One timer for the earliest deadline, never longer than a tick."""
        assert self.watch
        at = min(self.watch.wake_at(), self._connect_at or float("inf"))
        now = self._now()
        if self._timer is None or at < self._timer_at - 0.05:
            delay = min(max(at - now, 0.01), _TICK_S)
            self._timer, self._timer_at = commands.RequestWakeup(delay), now + delay
            yield self._timer

    def _on_deadline(self) -> Commands:
        assert self.exchange
        if self.exchange.finished or self.watch is None or self.attempt_id is None:
            return
        decision = self.watch.expired(self._now())
        if isinstance(decision, Fail) and self.watch.committed:
            yield from self._cancel_upstream("stalled")
            yield from self._break(decision.answer.body.decode(), decision.answer.fault or "timeout")
        else:
            yield from self._follow(decision)

    def _now(self) -> float:
        return self.engine.core.clock.now()

    @property
    def _http_layer(self) -> HttpLayer:
        layer = self.context.layers[self.context.layers.index(self) - 1]
        assert isinstance(layer, HttpLayer)
        return layer


def _frame_for_http1(request: http.Request, response: http.Response) -> None:
    """An HTTP/1.1 client must see the difference between an end and a cut: chunks, where the length is not known."""
    if request.http_version == "HTTP/1.1" and "content-length" not in response.headers:
        response.headers["transfer-encoding"] = "chunked"


def _lift_connection_limit(client_id: str, address: tuple[str, int]) -> None:
    """Allow this client connection more than five upstream connections to an address that we dial."""
    server = ctx.master.addons.get("proxyserver")
    handler = server.connections.get(client_id) if server else None
    if handler is not None and address not in handler.max_conns:
        handler.max_conns[address] = asyncio.Semaphore(_CONNECTIONS_PER_ADDRESS)
