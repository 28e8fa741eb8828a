"""Nobody but this machine reaches the proxy unless somebody says so (`design.md` §7.1)."""

from __future__ import annotations

import logging
from typing import Any

from .peers import is_loopback

log = logging.getLogger(__name__)


async def move_to_loopback(servers: Any) -> None:
    """mitmproxy has begun to listen before it loads a script: what stands open to every interface is closed again.

    `servers` are those of its addon `proxyserver`; the option `listen_host` says already where they listen next.
    """
    open_to_all = {
        server.mode
        for server in servers
        # WireGuard is made for other machines, and lets in only whom its keys name.
        if server.mode.custom_listen_host is None and server.mode.type_name != "wireguard"
        if not all(is_loopback(address[0]) for address in server.listen_addrs)
    }
    if open_to_all:
        modes = [server.mode for server in servers]
        await servers.update([mode for mode in modes if mode not in open_to_all])
        await servers.update(modes)
    log.info("listening on loopback only; use --listen-host to change that.")
