"""Kill -9 and restart of a real `mitmdump`: timers are still there, and no client is worse off than by the kill itself."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.process import ProxyProcess, proxy_process
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Pause, Reply
from omniroute_addon.testing.upstream import FakeUpstream

SETTINGS = {
    "own_credential": "never",
    "retries_in_place": 0,
    "circuit_breaker": {
        "same_connection_ms": 0,
        "api_key": {"failure_threshold": 2, "degradation_threshold": 1, "reset_timeout_ms": 3_600_000},
    },
}
SLOW = openai_chat("one two three four five")
SLOW = Reply(
    headers=SLOW.headers, framing="chunked", chunks=tuple(step for s in SLOW.steps for step in (s, Pause(0.05)))
)


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    async with FakeUpstream(tls=False) as fake:
        fake.script(error("openai-chat", 429, "slow down", headers={"retry-after": "3600"}), key="sk-rested")
        fake.script(error("openai-chat", 402, "You are out of credits.", code="insufficient_quota"), key="sk-broke")
        fake.script(error("openai-chat", 503, "Service unavailable"), key="sk-down")
        fake.script(openai_chat("fine", stream=False), key="sk-good")
        yield fake


def config(upstream: FakeUpstream) -> Mapping[str, Any]:
    names = {"rested": "openai", "broke": "openai", "down": "groq", "good": "openai"}
    # Another address of the same upstream: a server fault holds for everybody at one address.
    address = {"openai": upstream.url, "groq": upstream.url.replace("127.0.0.1", "localhost")}
    connections = [
        {"id": name, "provider": provider, "key": f"env:KEY_{name.upper()}", "base_url": address[provider]}
        for name, provider in names.items()
    ]
    return {
        "connections": connections,
        "routes": [{"provider": "openai", "connections": [*names]}],
        "settings": SETTINGS,
    }


def proxy(upstream: FakeUpstream, state: Path, **env: str) -> AbstractAsyncContextManager[ProxyProcess]:
    keys = {f"KEY_{name.upper()}": f"sk-{name}" for name in ("rested", "broke", "down", "good")}
    return proxy_process(config=config(upstream), options={"omniroute_state": state}, env={**keys, **env})


async def ask(running: ProxyProcess, q: Question) -> Exchange | OSError:
    """The answer, or how the connection broke."""
    try:
        async with Client(q.origin, proxy=running.url, ca_file=running.ca_file) as client:
            return await client.request(q.method, q.path, headers=q.headers, body=q.body)
    except (OSError, EOFError) as broken:
        return broken if isinstance(broken, OSError) else OSError(str(broken))


async def served_by(running: ProxyProcess) -> str | None:
    seen = await ask(running, question(stream=False))
    assert isinstance(seen, Exchange), seen
    assert seen.status == 200, seen.body
    return seen.header("x-omniroute-connection")


def kept(state: Path) -> int:
    """How many of the timers that the tests look for are on the disk."""
    with closing(sqlite3.connect(state)) as db:
        timers = "select count(*) from state where value like '%\"OPEN\"%' or key like 'broke#%' or key like 'rested#%'"
        count: int = db.execute(timers).fetchone()[0]
    return count


async def written(state: Path) -> None:
    """Until the timers are on the disk: within a second, unless the machine is busy with other tests."""
    async with asyncio.timeout(20):
        while kept(state) < 3:  # noqa: ASYNC110 (another process writes it)
            await asyncio.sleep(0.2)


async def test_after_kill_nine_in_the_middle_of_traffic_every_timer_is_there(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """CB-58, CB-60, CC-1, CC-55: and each request that was not cut by the kill itself was answered whole."""
    state = tmp_path / "state.db"
    async with proxy(upstream, state) as running:
        for _ in range(2):  # the second failure of groq opens its breaker
            assert await served_by(running) == "good"
        assert upstream.keys == ["sk-rested", "sk-broke", "sk-down", "sk-good", "sk-down", "sk-good"]
        await written(state)
        upstream.script(SLOW, key="sk-good")
        asked = [asyncio.ensure_future(ask(running, question())) for _ in range(12)]
        await upstream.received(len(upstream.requests) + 6)
        running.process.send_signal(signal.SIGKILL)
        await running.process.wait()
        for seen in await asyncio.gather(*asked):
            # Cut, as it would be without us: never an answer that looks whole and is not.
            assert isinstance(seen, OSError) or seen.end != "complete" or seen.body.count(b"[DONE]") == 1
    upstream.script(openai_chat("fine", stream=False), key="sk-good")
    before = len(upstream.requests)
    async with proxy(upstream, state) as running:
        assert [await served_by(running) for _ in range(4)] == ["good"] * 4
        assert upstream.keys[before:] == ["sk-good"] * 4
    assert state.stat().st_mode & 0o777 == 0o600


async def test_what_was_learned_in_the_last_moment_survives_an_orderly_end(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    """Written in `done`: nothing is lost when mitmproxy is ended by a signal."""
    state = tmp_path / "state.db"
    async with proxy(upstream, state) as running:
        assert await served_by(running) == "good"
        running.process.send_signal(signal.SIGTERM)
        await running.process.wait()
    before = len(upstream.requests)
    async with proxy(upstream, state) as running:
        assert await served_by(running) == "good"
    assert "sk-rested" not in upstream.keys[before:] and "sk-broke" not in upstream.keys[before:]


async def test_a_new_credential_starts_clean_after_a_restart(upstream: FakeUpstream, tmp_path: Path) -> None:
    """CC-55: the id is the same, the terminal state is the old credential's."""
    state = tmp_path / "state.db"
    async with proxy(upstream, state) as running:
        assert await served_by(running) == "good"
    upstream.script(openai_chat("paid", stream=False), key="sk-new")
    async with proxy(upstream, state, KEY_BROKE="sk-new") as running:
        assert await served_by(running) == "broke"


async def test_two_proxies_on_one_file_serve_and_harm_neither_it_nor_each_other(
    upstream: FakeUpstream, tmp_path: Path
) -> None:
    state = tmp_path / "state.db"
    async with proxy(upstream, state) as one, proxy(upstream, state) as two:
        for _ in range(3):
            assert await asyncio.gather(served_by(one), served_by(two)) == ["good", "good"]
            await asyncio.sleep(0.6)
        assert not [line for line in (*one.log, *two.log) if "state.db" in line]
    before = len(upstream.requests)
    async with proxy(upstream, state) as running:
        assert await served_by(running) == "good"
    assert upstream.keys[before:] == ["sk-good"]
