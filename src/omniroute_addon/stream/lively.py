"""Keeping a client waiting before anything is decided: a head with status 200, and signs of life (`A34`, `CW-38`).

Attempts go on as before behind it, with three differences: only an event stream can follow, because its head is out; its
head is not sent again; and when nothing comes, the error is told inside the stream.

A sign may be due while the stream is paused for a connection or held by the engine. So it is never sent by the paused
generator, only beside it: `handle_event` answers the timer in its place.
"""

from __future__ import annotations

from mitmproxy import http
from mitmproxy.proxy.layers.http import SendHttp
from mitmproxy.proxy.layers.http._events import ResponseData, ResponseHeaders
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook

from ..exchange import Reply
from ..signs_of_life import HEAD, error_inside, sign_of_life
from .copies import frame_stream
from .patience import Commands, PatientStream


class LivelyStream(PatientStream):
    """`HttpStream` whose client hears of us before it gets an answer."""

    _sign = b""
    """One sign of life; empty: none is sent."""
    _sign_at: float | None = None
    """When the next one is due; None before the first call of `begin_signs` and once the client gets an answer."""

    @property
    def opened(self) -> bool:
        """The client has a head with status 200 already."""
        return self.exchange is not None and self.exchange.opened_at is not None

    def begin_signs(self) -> None:
        """The call is known: from now on its client may have to be kept waiting."""
        assert self.exchange
        if self.flow.request.http_version != "HTTP/1.0":  # knows no chunks: its end could not be told from a cut
            self._sign = sign_of_life(self.exchange, self.engine.core.config.settings)
        if self._sign:
            self._sign_at = self.exchange.started_at + self._pause_s

    def end_signs(self) -> None:
        """The client gets its answer now, or has left."""
        self._sign_at = None

    def sign_if_due(self) -> Commands:
        """To be asked whenever the timer rang."""
        assert self.exchange
        now = self.now()
        if self._sign_at is None or now < self._sign_at or self.exchange.committed or self.exchange.finished:
            return
        self._sign_at = now + self._pause_s
        if not self.opened:
            self.exchange.opened_at, self.exchange.status = now, 200
            yield SendHttp(ResponseHeaders(self.stream_id, self._early_head(), False), self.context.client)
        yield SendHttp(ResponseData(self.stream_id, self._sign), self.context.client)

    def wake_at(self) -> float:
        return min(super().wake_at(), float("inf") if self._sign_at is None else self._sign_at)

    @property
    def _pause_s(self) -> float:
        return self.engine.core.config.settings.cooldown_wait.keep_alive_ms / 1000

    def _early_head(self, body: bytes = b"") -> http.Response:
        response = http.Response.make(200)
        response.headers = http.Headers(HEAD)
        response.raw_content = body or None
        frame_stream(self.flow.request, response)
        return response

    def tell_inside(self, reply: Reply) -> Commands:
        """The final answer for a client that has its head: an error event, then the end."""
        assert self.exchange
        body = error_inside(self.exchange, reply)
        self.flow.response = self._early_head(body)
        yield HttpResponseHeadersHook(self.flow)
        if not (yield from self.check_killed(True)):
            yield SendHttp(ResponseData(self.stream_id, body), self.context.client)
            yield from self.send_response(already_streamed=True)

    # ------------------------------------------------------------ an answer behind the head that is out

    def start_response_stream(self) -> Commands:
        if not self.opened:
            yield from super().start_response_stream()
            return
        self.server_state = self.state_stream_response_body

    def send_response(self, already_streamed: bool = False) -> Commands:
        if self.opened and not already_streamed:  # an addon wanted the whole body at once
            assert self.flow.response
            if content := self.flow.response.raw_content:
                yield SendHttp(ResponseData(self.stream_id, content), self.context.client)
            already_streamed = True
        yield from super().send_response(already_streamed)
