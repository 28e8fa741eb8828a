"""A mitmproxy addon that lets fakes live under the real names of providers.

`api.openai.com:443` is dialled as `127.0.0.1:<port of the fake>`, while everything above TCP still believes in the
real name: SNI, certificate verification, `Host`, and the address by which mitmproxy finds a connection to use again.
That is why it is done at the very bottom, where the event loop opens a socket: changing `data.server.address` in
`server_connect` would break exactly those. A name that is not mapped is refused, so that no test ever leaves loopback.

In a test process `running_proxy(rehost=…)` loads it. In a process of its own it is a script with an option:

    mitmdump -s …/omniroute_addon/testing/rehost.py --set rehost=api.openai.com:443=127.0.0.1:40001
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from mitmproxy import ctx
from mitmproxy.addonmanager import Loader

Address = tuple[str, int]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Rehost:
    """Dials mapped names elsewhere, from `running` to `done`, for this event loop."""

    def __init__(self, names: Mapping[str, Address] | None = None) -> None:
        """`names`: `{"api.openai.com:443": ("127.0.0.1", 40001)}`; a key without port maps every port."""
        self.names = dict(names or {})
        self._undo: Any = None

    def load(self, loader: Loader) -> None:
        loader.add_option("rehost", Sequence[str], [], "Dial HOST[:PORT] at another address: HOST:PORT=ADDRESS:PORT.")

    def configure(self, updated: set[str]) -> None:
        if "rehost" in updated:
            self.names.update(_parse(line) for line in ctx.options.rehost)

    def running(self) -> None:
        loop = asyncio.get_running_loop()
        original = loop.create_connection

        async def create_connection(factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
            if isinstance(host, str):
                host, port = self.dial(host, port)
            return await original(factory, host, port, **options)

        loop.create_connection = create_connection  # type: ignore[method-assign, assignment]
        self._undo = lambda: setattr(loop, "create_connection", original)

    def done(self) -> None:
        if self._undo is not None:
            self._undo()
            self._undo = None

    def dial(self, host: str, port: int) -> Address:
        """Where to connect to. Raises OSError, as an unreachable host would, for a name that is not mapped."""
        mapped = self.names.get(f"{host}:{port}") or self.names.get(host)
        if mapped is not None:
            return mapped
        if host in _LOOPBACK:
            return host, port
        raise OSError(f"{host}:{port} is not on loopback; map it with rehost")


def _parse(line: str) -> tuple[str, Address]:
    name, _, address = line.partition("=")
    host, _, port = address.rpartition(":")
    return name, (host, int(port))


addons = [Rehost()]
