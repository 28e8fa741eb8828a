"""The provider circuit breaker through a real proxy: passed by, probed, closed again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from omniroute_addon.testing.answers import error, good, openai_chat
from omniroute_addon.testing.faults import hang_before_head
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Await
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
Q = question(stream=False)
BROKEN = error("openai-chat", 503, "Service unavailable")
HOLD_S = 1.0
"""The shortest that a setting allows."""


def settings(threshold: int = 2, **more: Any) -> dict[str, Any]:
    own = {"failure_threshold": threshold, "reset_timeout_ms": int(HOLD_S * 1000), "degradation_threshold": 1}
    return {
        "retries_in_place": 0,
        "own_credential": "never",
        "max_cooldown_ms": 0,  # the breaker alone
        "circuit_breaker": {"api_key": own, "same_connection_ms": 0, "same_network_ms": 0},
        **more,
    }


def two_providers(*first: str) -> tuple[list[Mapping[str, Any]], list[dict[str, Any]]]:
    """Connections of openai, one of groq, and a route over all of them."""
    connections: list[Mapping[str, Any]] = [{"id": name, "provider": "openai"} for name in first]
    connections.append({"id": "z", "provider": "groq"})
    return connections, [{"provider": "openai", "connections": [*first, "z"]}]


async def served_by(stage: Stage) -> str | None:
    seen = await stage.ask(Q)
    assert seen.status == 200, seen.body
    return seen.header("x-omniroute-connection")


async def test_it_opens_the_other_provider_serves_a_probe_closes_it(open_stage: OpenStage) -> None:
    """CB-21, CB-29, CB-34, CB-35, CB-36, CB-37"""
    connections, routes = two_providers("a")
    s = await open_stage(*connections, config={"routes": routes, "settings": settings()})
    s.upstream.script(BROKEN, key="sk-a")
    s.upstream.script(openai_chat("from groq", stream=False), key="sk-z")
    assert [await served_by(s) for _ in range(2)] == ["z", "z"]
    assert s.upstream.keys == ["sk-a", "sk-z"] * 2
    assert await served_by(s) == "z"
    assert s.upstream.keys[4:] == ["sk-z"]  # open: nothing was sent to openai

    await asyncio.sleep(HOLD_S + 0.05)
    release = asyncio.Event()
    s.upstream.script(replace(openai_chat("from openai", stream=False), before=(Await(release),)), key="sk-a")
    probing = asyncio.ensure_future(served_by(s))
    await s.upstream.received(6)
    assert await served_by(s) == "z"  # half-open: one probe at a time
    release.set()
    assert await probing == "a"
    assert await served_by(s) == "a"
    told = [line.partition("changed: ")[2] for line in s.proxy.log if "circuit breaker changed" in line]
    assert [line.partition(" reason")[0].partition(" ")[2] for line in told] == [
        "from=CLOSED to=DEGRADED",
        "from=DEGRADED to=OPEN",
        "from=OPEN to=HALF_OPEN",
        "from=HALF_OPEN to=CLOSED",
    ]
    assert s.proxy.errors == []


async def test_fifty_requests_at_once_start_one_probe(open_stage: OpenStage) -> None:
    """CB-42, edge 5; CB-38: the probe fails and it is open again."""
    connections, routes = two_providers("a")
    s = await open_stage(*connections, config={"routes": routes, "settings": settings()})
    s.upstream.script(BROKEN, key="sk-a")
    s.upstream.script(openai_chat("from groq", stream=False), key="sk-z")
    for _ in range(2):
        await served_by(s)
    await asyncio.sleep(HOLD_S + 0.05)
    assert set(await asyncio.gather(*(served_by(s) for _ in range(50)))) == {"z"}
    assert s.upstream.keys.count("sk-a") == 3


async def test_a07_overload_opens_no_breaker(open_stage: OpenStage) -> None:
    """A07, CB-12: 529 however often; 503 counts by the figures."""
    s = await open_stage("a", config={"settings": settings()})
    s.upstream.script([*[error("openai-chat", 529, "Overloaded")] * 4, *[BROKEN] * 2], key="sk-a")
    assert [(await s.ask(Q)).status for _ in range(6)] == [529] * 4 + [503] * 2
    refused = await s.ask(Q)
    assert len(s.upstream.requests) == 6
    assert (refused.status, refused.header("retry-after")) == (429, "1")
    assert b"circuit_open" in refused.body


async def test_the_clients_own_credential_is_always_sent(open_stage: OpenStage) -> None:
    """`spec/README.md` rule 4: what would have succeeded without us succeeds."""
    s = await open_stage(config={"settings": settings()})
    s.upstream.script([*[BROKEN] * 5, good("openai-chat", stream=False)])
    assert [(await s.ask(Q)).status for _ in range(6)] == [503] * 5 + [200]
    assert any("to=OPEN" in line for line in s.proxy.log)


@pytest.mark.parametrize("status", [401, 429])
async def test_an_accounts_trouble_opens_no_breaker(status: int, open_stage: OpenStage) -> None:
    """CB-12"""
    names = "abcdef"
    s = await open_stage(*names, config={"settings": settings(threshold=2)})
    s.upstream.script(error("openai-chat", status, "no"))
    s.upstream.script(openai_chat("fine", stream=False), key="sk-f")
    assert await served_by(s) == "f"
    assert len(s.upstream.requests) == 6


async def test_a_probe_that_the_client_aborts_makes_room(open_stage: OpenStage) -> None:
    """CB-14, CB-39, edge 17"""
    connections, routes = two_providers("a")
    s = await open_stage(*connections, config={"routes": routes, "settings": settings()})
    s.upstream.script(BROKEN, key="sk-a")
    s.upstream.script(openai_chat("from groq", stream=False), key="sk-z")
    for _ in range(2):
        await served_by(s)
    await asyncio.sleep(HOLD_S + 0.05)
    s.upstream.script(hang_before_head(), key="sk-a")
    async with s.client(Q) as client:
        await client.send(Q.method, Q.path, headers=Q.headers, body=Q.body)
        await s.upstream.received(5)
    await s.proxy.finished(3)
    s.upstream.script(openai_chat("from openai", stream=False), key="sk-a")
    assert await served_by(s) == "a"


async def test_the_provider_cooldown_skips_what_failed_a_moment_ago(open_stage: OpenStage) -> None:
    """PC-1, PC-18, PC-23: opt-in, among several targets."""
    connections, routes = two_providers("a")
    on = {**settings(threshold=100), "provider_cooldown": {"enabled": True}}
    s = await open_stage(*connections, config={"routes": routes, "settings": on})
    s.upstream.script(BROKEN, key="sk-a")
    s.upstream.script(openai_chat("from groq", stream=False), key="sk-z")
    assert [await served_by(s) for _ in range(3)] == ["z", "z", "z"]
    assert s.upstream.keys.count("sk-a") == 1
