"""One client request, several upstream attempts: what the client sees of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from omniroute_addon.testing.answers import error, error_in_stream, good, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.faults import cut, hang_after_head
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Hang, Pause, Reply, Reset, json_reply
from omniroute_addon.testing.upstream import FakeUpstream, closed_port

StartProxy = Callable[..., Awaitable[RunningProxy]]
QUICK = {"retry_pause_ms": 20, "retry_pause_max_ms": 40, "lifecycle_grace_ms": 200}


def pool(upstream: FakeUpstream, *names: str, provider: str = "openai", **settings: Any) -> dict[str, Any]:
    """A configuration with one connection per name, key `sk-<name>`, all at the fake upstream."""
    connections = [
        {"id": name, "provider": provider, "key": f"env:KEY_{name.upper()}", "base_url": upstream.url} for name in names
    ]
    return {"connections": connections, "settings": {**QUICK, "own_credential": "never", **settings}}


UPSTREAMS = ["plain", "tls", "h2"]


@pytest.fixture
async def upstream(request: pytest.FixtureRequest) -> AsyncIterator[FakeUpstream]:
    kind = getattr(request, "param", "plain")
    async with FakeUpstream(tls=kind != "plain", http2=kind == "h2") as fake:
        yield fake


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ABCDEF":
        monkeypatch.setenv(f"KEY_{name}", f"sk-{name.lower()}")


async def ask(proxy: RunningProxy, q: Question, *, http2: bool = False) -> Exchange:
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=http2) as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("http2", [True, False])
@pytest.mark.parametrize("upstream", UPSTREAMS, indirect=True)
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic-messages", "gemini"])
async def test_a_failed_connection_is_replaced_and_the_stream_arrives_intact(
    dialect: Any, upstream: FakeUpstream, http2: bool, stream: bool, omniroute_proxy: StartProxy
) -> None:
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    answer = good(dialect, "Hello there, friend.", stream=stream)
    upstream.script(error(dialect, 429, "slow down", headers={"retry-after": "60"}), key="sk-a")
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider=provider))
    seen = await ask(proxy, question(dialect, stream=stream), http2=http2)
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    assert seen.body == b"".join(s for s in answer.steps if isinstance(s, bytes))
    assert (seen.header("x-omniroute-connection"), seen.header("x-omniroute-attempts")) == ("b", "2")
    assert upstream.keys == ["sk-a", "sk-b"]
