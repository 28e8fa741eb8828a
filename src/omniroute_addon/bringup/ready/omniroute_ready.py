"""A script for mitmproxy, alone in its folder: says in the log that the proxy serves, and on which port.

mitmproxy's own line "listening at" comes before it judges what the start logged: a proxy whose configuration is refused
listens for a moment and then ends.
"""

from __future__ import annotations

from mitmproxy import ctx


def running() -> None:
    """mitmproxy has decided to stay."""
    server = ctx.master.addons.get("proxyserver")  # type: ignore[no-untyped-call]
    for address in server.listen_addrs():
        print(f"omniroute: ready at {address[0]}:{address[1]}", flush=True)
