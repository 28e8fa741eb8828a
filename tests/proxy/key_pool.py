"""Two or three keys of one provider behind the proxy, and what became of them. For the acceptance cases."""

from __future__ import annotations

import time
from typing import Any

from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown

from omniroute_addon.clock import Clock
from omniroute_addon.cooldown.book import ConnectionBook
from omniroute_addon.cooldown.rest import Rest
from omniroute_addon.core import Core
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question
from omniroute_addon.testing.upstream import FakeUpstream

NAMES = "abc"


def pool(upstream: FakeUpstream, *names: str, provider: str = "openai", **more: Any) -> dict[str, Any]:
    """A configuration; the key of connection `a` is `sk-a`, from the environment variable KEY_A."""
    connections = [
        {"id": name, "provider": provider, "key": f"env:KEY_{name.upper()}", "base_url": upstream.url} for name in names
    ]
    settings = {"retry_pause_ms": 20, "retry_pause_max_ms": 40, "lifecycle_grace_ms": 200, "own_credential": "never"}
    return {"connections": connections, "settings": settings, **more}


async def ask(proxy: RunningProxy, q: Question) -> Exchange:
    """One question from a client of its own."""
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file) as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


def core(proxy: RunningProxy) -> Core:
    found: Core = proxy.master.addons.get("omniroute").engine.core
    return found


def let_pass(proxy: RunningProxy, seconds: float) -> None:
    """Set the proxy's clock forward; it goes on from there."""
    now = core(proxy).clock.now() - time.time() + seconds
    core(proxy).clock = Clock(now=lambda: time.time() + now)


def rests(proxy: RunningProxy) -> dict[str, Rest]:
    """What the connection cooldown remembers, by connection id."""
    return {key.partition("#")[0]: rest for key, rest, _ in ConnectionBook(core(proxy).store).rows()}


def left(proxy: RunningProxy, name: str) -> float:
    """Seconds that a connection still rests."""
    return rests(proxy)[name].until - core(proxy).clock.now()


def cooldown(proxy: RunningProxy) -> ConnectionCooldown:
    """The mechanism over the proxy's own state: what a person sees and resets."""
    found = ConnectionCooldown()
    found.start(core=core(proxy))
    return found
