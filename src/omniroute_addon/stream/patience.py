"""What mitmproxy does not expect of an HTTP stream: several upstream streams, waiting, deadlines, giving up.

Three things need care:

* An upstream stream id may be used once per HTTP/2 connection, so each attempt has its own, far above the client's. What
  comes for an older id, or for none, is dropped.
* While the stream is paused for a connection or for our own pause, other events queue up. A client that leaves and a
  connect deadline must not: `handle_event` answers in the place of what does not come.
* `RequestWakeup` cannot be cancelled. One timer serves all deadlines of a stream and is renewed while that lives; a stream
  that ends leaves its timer to the next one on the same client connection, and lets it hold nobody meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

from mitmproxy import ctx
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import (
    GetHttpConnection,
    GetHttpConnectionCompleted,
    HttpLayer,
    SendHttp,
)
from mitmproxy.proxy.layers.http._events import ErrorCode, RequestProtocolError
from mitmproxy.proxy.server import ConnectionHandler

from ..engine import Engine
from ..exchange import Exchange, Pause
from .hook_shortcut import ShortcutStream

Commands = Generator[commands.Command, Any, None]

CLIENT_LEFT = "client disconnected"
TIMED_OUT = "connection timed out"
_TICK_S = 5.0
"""Longest sleep of a timer."""
_CONNECTIONS_PER_ADDRESS = 256
"""mitmproxy's five make twelve parallel streams of one HTTP/2 client wait for each other at an HTTP/1 upstream."""
FIRST_ATTEMPT_ID = 1 << 40
"""Far above any id that mitmproxy gives: an id tells whose exchange it is."""
_attempt_ids = itertools.count(FIRST_ATTEMPT_ID, 2)


async def _drain_writers(handler: ConnectionHandler) -> None:
    """As mitmproxy's own, but a connection that cannot be written to is cancelled once.

    mitmproxy cancels it again for every chunk that arrives anywhere. The second time hits the task while it reports the
    end of the connection, which then nobody hears of: with many streams of one client, all but one hang for ever.
    """
    async with handler._drain_lock:
        for transport in list(handler.transports.values()):
            if transport.writer is None:
                continue
            try:
                await transport.writer.drain()
            except OSError as error:
                if transport.handler is not None and not transport.handler.cancelling():
                    transport.handler.cancel(f"Error sending data: {error}")


class _Nobody:
    """Whom a timer rings that no stream wants any more."""

    def handle_event(self, event: events.Event) -> Commands:
        yield from ()


_NOBODY = _Nobody()
_idle_timers: WeakKeyDictionary[HttpLayer, tuple[commands.RequestWakeup, float]] = WeakKeyDictionary()
"""By client connection: a timer that is still running, and when it rings."""


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


class PatientStream(ShortcutStream):
    """`HttpStream` with attempts and time. `engine` is set by `install`; `exchange` is None for what is not ours."""

    engine: ClassVar[Engine]
    exchange: Exchange | None = None
    attempt_id: int | None = None
    _timer: commands.RequestWakeup | None = None
    _timer_at: float = 0.0
    _connect_at: float | None = None
    """While a connection is awaited: when to give that up."""

    # ------------------------------------------------------------ events while paused

    def handle_event(self, event: events.Event) -> Commands:
        # A plain function that hands out a generator: it runs for every event of every exchange.
        if self._paused is not None and self.exchange is not None:
            paused = self._paused.command
            if isinstance(paused, GetHttpConnection):
                return self._while_connecting(paused, event)
            if isinstance(paused, OmniroutePauseHook):
                if isinstance(event, RequestProtocolError):
                    paused.waiting.gone.set()
                elif self.rang(event):
                    return self._while_held()
        return super().handle_event(event)

    def _while_connecting(self, connecting: GetHttpConnection, event: events.Event) -> Commands:
        if isinstance(event, RequestProtocolError):
            yield from self._give_up_connecting(connecting, CLIENT_LEFT)
        elif isinstance(event, events.Wakeup) and event.command is self._timer:
            self._timer = None
            if self._connect_at is not None and self.now() >= self._connect_at:
                yield from self._give_up_connecting(connecting, TIMED_OUT)
            else:
                yield from self._while_held()
            return
        yield from super().handle_event(event)

    def _while_held(self) -> Commands:
        yield from self.sign_if_due()
        yield from self.arm()

    def sign_if_due(self) -> Commands:
        """Whatever keeps a client waiting; see `lively`."""
        yield from ()

    def _give_up_connecting(self, connecting: GetHttpConnection, why: str) -> Commands:
        for connection, waiting in self.http_layer.waiting_for_establishment.items():
            if len(waiting) == 1 and waiting[0] is connecting:
                yield commands.CloseConnection(connection)
        yield from super().handle_event(GetHttpConnectionCompleted(connecting, (None, why)))

    def client_waits_to_leave(self) -> bool:
        """The client left while a hook ran; the event is next in the queue."""
        return any(isinstance(event, RequestProtocolError) for event in self._paused_event_queue)

    # ------------------------------------------------------------ attempts

    def begin_attempt(self) -> int:
        """A fresh upstream stream id whose events come to this stream."""
        self.attempt_id = next(_attempt_ids)
        self.http_layer.streams[self.attempt_id] = self
        return self.attempt_id

    def end_attempt(self) -> None:
        """What still comes for the attempt is nobody's."""
        if self.attempt_id is not None:
            self.http_layer.streams.pop(self.attempt_id, None)
            self.attempt_id = None

    def cancel_upstream(self, why: str) -> Commands:
        """Stop the running attempt at once: HTTP/2 by RST_STREAM, HTTP/1 by closing."""
        if self.attempt_id is not None and self.context.server in self.http_layer.connections:
            yield SendHttp(RequestProtocolError(self.attempt_id, why, ErrorCode.CANCEL), self.context.server)

    def lift_connection_limit(self, address: tuple[str, int]) -> None:
        """Allow this client connection more than five upstream connections to an address that we dial."""
        server = ctx.master.addons.get("proxyserver")
        handler = server.connections.get(self.context.client.id) if server else None
        if handler is not None and address not in handler.max_conns:
            handler.max_conns[address] = asyncio.Semaphore(_CONNECTIONS_PER_ADDRESS)
            handler.drain_writers = partial(_drain_writers, handler)

    @cached_property
    def http_layer(self) -> HttpLayer:
        """The layer that routes our events."""
        layer = self.context.layers[self.context.layers.index(self) - 1]
        assert isinstance(layer, HttpLayer)
        return layer

    # ------------------------------------------------------------ time

    def wake_at(self) -> float:
        """Epoch seconds of the earliest deadline; infinity when there is none."""
        return self._connect_at if self._connect_at is not None else float("inf")

    def arm(self) -> Commands:
        """One timer for the earliest deadline, never longer than a tick."""
        at = self.wake_at()
        if self._timer is None:
            self._take_over_timer(at)
        if self._timer is None or at < self._timer_at - 0.05:
            now = self.now()
            delay = min(max(at - now, 0.01), _TICK_S)
            self._timer, self._timer_at = commands.RequestWakeup(delay), now + delay
            yield self._timer

    def _take_over_timer(self, at: float) -> None:
        found = _idle_timers.get(self.http_layer)
        if found is None or found[1] > at:
            return
        del _idle_timers[self.http_layer]
        timer, rings_at = found
        sources = cast("dict[commands.Command, Any]", self.http_layer.command_sources)
        if timer in sources:  # else it has rung
            sources[timer], self._timer, self._timer_at = self, timer, rings_at

    def leave_timer(self) -> None:
        """The stream is over: whoever comes next on this client connection may have the running timer."""
        sources = cast("dict[commands.Command, Any]", self.http_layer.command_sources)
        if self._timer is not None and self._timer in sources:  # else it has rung, and waits behind a hook
            sources[self._timer] = _NOBODY
            _idle_timers[self.http_layer] = (self._timer, self._timer_at)
        self._timer = None

    def rang(self, event: events.Event) -> bool:
        """The event is our running timer; an older one means nothing."""
        if not isinstance(event, events.Wakeup) or event.command is not self._timer:
            return False
        self._timer = None
        return True

    def now(self) -> float:
        """Epoch seconds of the injected clock."""
        return self.engine.core.clock.now()
