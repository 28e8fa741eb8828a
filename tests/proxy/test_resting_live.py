"""Cooldown and lockout through the real proxy: many at once, and a client that must never be worse off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from omniroute_addon.cooldown.book import ConnectionBook
from omniroute_addon.cooldown.rest import Rest
from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]
FINE = openai_chat("fine", stream=False)
StartProxy = Callable[..., Awaitable[RunningProxy]]
SETTINGS = {"retry_pause_ms": 20, "retry_pause_max_ms": 40}


pytestmark = pytest.mark.usefixtures("keys")


def pool(upstream: FakeUpstream, *names: str, **settings: Any) -> dict[str, Any]:
    connections = [
        {"id": n, "provider": "openai", "key": f"env:KEY_{n.upper()}", "base_url": upstream.url} for n in names
    ]
    return {"connections": connections, "settings": {**SETTINGS, "own_credential": "never", **settings}}


async def ask(proxy: RunningProxy, q: Question) -> Exchange:
    async with Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file) as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


def rests(proxy: RunningProxy) -> dict[str, Rest]:
    book = ConnectionBook(proxy.master.addons.get("omniroute").engine.core.store)
    return {key.partition("#")[0]: rest for key, rest, _ in book.rows()}


async def test_sixty_four_failures_at_once_raise_the_ladder_once(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """CC-35, CC-36, CC-37: nobody of them goes without an answer from B."""
    upstream.script(error("openai-chat", 429, "slow"), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    answers = await asyncio.gather(*(ask(proxy, question(stream=False)) for _ in range(64)))
    assert {answer.status for answer in answers} == {200}
    assert rests(proxy)["a"].level == 1


async def test_a_lock_of_one_model_leaves_the_others(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A03, ML-1, FC-77: the words tie the limit to the model, and its wait is exact."""
    limit = error("openai-chat", 429, "Rate limit reached for model m1 on tokens per day. Try again in 30s.")
    upstream.script([limit, openai_chat("fine")], key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    used = [(await ask(proxy, question(model=m))).header("x-omniroute-connection") for m in ("m1", "m1", "m2")]
    assert used == ["b", "b", "a"]
    assert upstream.keys == ["sk-a", "sk-b", "sk-b", "sk-a"]


FAULTS = [(429, "slow down"), (401, "bad key"), (403, "forbidden: access denied"), (402, ""), (404, "no such model")]


async def test_a_client_with_its_own_key_is_never_refused_here(open_stage: OpenStage) -> None:
    """`spec/README.md` rule 4: whatever went wrong before, the next request is sent, and the upstream's word arrives."""
    settings = {**SETTINGS, "model_lockout": {"enabled": True}}
    s = await open_stage(config={"settings": settings})
    s.upstream.script([step for status, text in FAULTS for step in (error("openai-chat", status, text), FINE)])
    seen = [(await s.ask(question(stream=False))).status for _ in range(2 * len(FAULTS))]
    assert seen == [status for fault, _ in FAULTS for status in (fault, 200)]
