"""Puts the attempt loop into mitmproxy and takes it out again: the one place that replaces anything of mitmproxy's.

What we need of its internals is checked by what is there, not only by the version number: a mitmproxy whose state machine
has changed is refused with a clear sentence, before it can lose anybody's request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mitmproxy.proxy.layers.http as http_layers
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from mitmproxy import version
from mitmproxy.proxy import commands, layer
from mitmproxy.proxy.layers.http._http1 import Http1Client
from mitmproxy.proxy.server import ConnectionHandler

from ..engine import Engine
from ..errors import UnsupportedMitmproxy
from .attempts import AttemptStream
from .http1_repair import AttemptHttp1Client

SUPPORTED = "12.3 up to below 14"
_LOWEST, _BELOW = (12, 3), (14,)
_GENERATORS = (
    "_handle_event",
    "make_server_connection",
    "state_wait_for_response_headers",
    "state_stream_response_body",
    "state_consume_response_body",
    "send_response",
    "handle_protocol_error",
    "check_killed",
    "check_body_size",
)
_NEEDED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (http_layers.HttpStream, (*_GENERATORS, "state_done", "state_errored", "state_uninitialized", "handle_event")),
    (http_layers.HttpLayer, ("make_stream", "get_connection", "event_to_child", "register_connection")),
    (Http1Client, ("read_headers", "read_body", "done", "ReceiveEndOfMessage")),
    (ConnectionHandler, ("drain_writers",)),
    (ReceiveBuffer, ("_extract",)),
    (layer.Layer, ("handle_event",)),
    (commands, ("RequestWakeup", "StartHook", "CloseConnection")),
)


def install(engine: Engine) -> Callable[[], None]:
    """Let every new HTTP exchange be an `AttemptStream` of this engine. Returns what undoes it.

    Raises UnsupportedMitmproxy when mitmproxy's internals are not those that we know.
    """
    problems = missing()
    if problems:
        raise UnsupportedMitmproxy(
            f"mitmproxy {version.VERSION} does not fit: {'; '.join(problems)}. "
            f"omniroute-addon supports mitmproxy {SUPPORTED}: install one of those."
        )
    ours: dict[str, type] = {"HttpStream": AttemptStream, "Http1Client": AttemptHttp1Client}
    before = {name: getattr(http_layers, name) for name in ours}
    AttemptStream.engine = engine
    for name, replacement in ours.items():
        setattr(http_layers, name, replacement)

    def uninstall() -> None:
        for name, replacement in ours.items():
            if getattr(http_layers, name) is replacement:
                setattr(http_layers, name, before[name])

    return uninstall


def missing() -> list[str]:
    """What this mitmproxy lacks for us, one clause each; empty when it fits."""
    found = tuple(int(part) for part in version.VERSION.split(".")[:2] if part.isdigit())
    problems = [] if _LOWEST <= found < _BELOW else [f"its version is not {SUPPORTED}"]
    for owner, names in _NEEDED:
        problems += [f"{owner.__name__}.{name} is gone" for name in names if not hasattr(owner, name)]
    stream = _NEEDED[0][0]
    problems += [
        f"HttpStream.{name} is no generator"
        for name in _GENERATORS
        if hasattr(stream, name) and not inspect.isgeneratorfunction(inspect.unwrap(getattr(stream, name)))
    ]
    sources = (
        (http_layers.HttpLayer, ("self.streams", "self.connections", "self.waiting_for_establishment")),
        (ConnectionHandler, ("self.max_conns", "self.transports", "self._drain_lock")),
        (layer.Layer, ("self._paused", "self._paused_event_queue")),
        (ChunkedReader, ("self._bytes_in_chunk", "self._bytes_to_discard", "self._reading_trailer")),
        (ReceiveBuffer, ("self._data",)),
    )
    for owner, names in sources:
        try:
            text = inspect.getsource(owner.__init__)
        except (OSError, TypeError):
            problems.append(f"the source of {owner.__name__} cannot be read")
            continue
        problems += [f"{owner.__name__} has no {name.removeprefix('self.')}" for name in names if name not in text]
    return problems
