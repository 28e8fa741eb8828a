"""What each SDK gives its program when things go wrong: an answer, or an exception that says why, never half an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
from sdks import KEY, SDKS, Sdk

from omniroute_addon.testing.answers import error, error_in_stream, good
from omniroute_addon.testing.script import Close, Reply
from omniroute_addon.testing.stage import Stage, stage

TEXT = "one two three four five"
_SETTINGS = {
    **{"own_credential": "never", "retry_pause_ms": 1, "retries_in_place": 0},
    # Here the clients wait, not the proxy.
    "cooldown_wait": {"enabled": False},
}
OpenPool = Callable[..., Awaitable[Stage]]


@pytest.fixture(params=SDKS)
def sdk(request: pytest.FixtureRequest) -> Sdk:
    return SDKS[request.param]


@pytest.fixture
async def pool(
    go_through: Callable[[Stage], None], providers: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> AsyncIterator[OpenPool]:
    """`s = await pool(sdk, Reply…)`: a pool of one connection `a` that answers so, in turn."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path))
    async with AsyncExitStack() as stack:

        async def open_pool(sdk: Sdk, *replies: Reply, connections: int = 1) -> Stage:
            pair = [{"id": name, "priority": n} for n, name in enumerate("ab"[:connections])]
            s = await stack.enter_async_context(
                stage(*pair, provider=providers[sdk.dialect], config={"settings": _SETTINGS})
            )
            s.upstream.script(list(replies))
            go_through(s)
            return s

        yield open_pool


async def ask(sdk: Sdk, *, stream: bool, retries: int = 0) -> str:
    return await asyncio.to_thread(sdk.ask, stream, retries)


@pytest.mark.parametrize("stream", [False, True])
async def test_failover(sdk: Sdk, stream: bool, pool: OpenPool) -> None:
    limited = error(sdk.dialect, 429, "Rate limit reached.", headers={"retry-after": "60"})
    s = await pool(sdk, limited, good(sdk.dialect, TEXT, stream=stream), connections=2)
    assert await ask(sdk, stream=stream) == TEXT
    assert s.upstream.keys == ["sk-a", "sk-b"] and KEY not in str([r.headers for r in s.upstream.requests])


async def test_e_everything_rests_for_a_moment_and_the_answer_comes(sdk: Sdk, pool: OpenPool) -> None:
    """(e), on a smaller scale: who retries by itself comes back at the time that it is told."""
    limited = error(sdk.dialect, 429, "Rate limit reached.", headers={"retry-after": "2"})
    s = await pool(sdk, limited, good(sdk.dialect, TEXT, stream=False))
    if sdk.retries:
        assert await ask(sdk, stream=False, retries=2) == TEXT
        assert s.upstream.keys == ["sk-a", "sk-a"]
        return
    with pytest.raises(Exception) as raised:  # who never retries is told when to come back
        await ask(sdk, stream=False)
    assert "Rate limit reached." in str(raised.value)


async def test_f_everything_rests_for_an_hour_and_the_reason_comes_at_once(sdk: Sdk, pool: OpenPool) -> None:
    """(f): one request of the client, an exception with the time in it."""
    limited = error(sdk.dialect, 429, "Rate limit reached.", headers={"retry-after": "3600"})
    s = await pool(sdk, limited)
    with pytest.raises(Exception):  # noqa: B017 - the first one puts the connection to rest
        await ask(sdk, stream=False)
    before, since = len(s.proxy.flows), time.monotonic()
    with pytest.raises(Exception) as raised:
        await ask(sdk, stream=False, retries=2 if sdk.retries else 0)
    assert "free again in 60 min" in str(raised.value)
    assert "RateLimit" in type(raised.value).__name__ or "429" in str(raised.value)
    assert time.monotonic() - since < 20
    assert len(s.proxy.flows) - before == 1
    assert s.upstream.keys == ["sk-a"]


@pytest.mark.parametrize("stream", [False, True])
async def test_g_a_rejected_key_of_the_pool_is_no_login_error(sdk: Sdk, stream: bool, pool: OpenPool) -> None:
    """(g)."""
    s = await pool(sdk, error(sdk.dialect, 401, "Incorrect API key provided."))
    with pytest.raises(Exception) as raised:
        await ask(sdk, stream=stream)
    assert "rejected the credential" in str(raised.value)
    assert "Auth" not in type(raised.value).__name__
    assert s.upstream.keys == ["sk-a"]


@pytest.mark.parametrize("ending", ["close", "end without a marker"])
async def test_d_a_stream_that_breaks_is_an_exception_and_no_short_answer(
    sdk: Sdk, ending: str, pool: OpenPool
) -> None:
    """(d), `clients.md`, section 4: without us four of them call half an answer a success."""
    answer = good(sdk.dialect, TEXT)
    at = next(n for n, step in enumerate(answer.steps) if isinstance(step, bytes) and b"three" in step)
    last = (Close(),) if ending == "close" else ()
    broken = replace(answer, body=b"", chunks=(*answer.steps[: at + 1], *last), framing="chunked")
    s = await pool(sdk, broken)
    with pytest.raises(Exception):  # noqa: B017
        await ask(sdk, stream=True)
    assert s.upstream.keys == ["sk-a"]


async def test_c_an_error_event_behind_text_is_an_exception(sdk: Sdk, pool: OpenPool) -> None:
    s = await pool(sdk, error_in_stream(sdk.dialect, "Overloaded, truly.", after=2))
    if sdk.dialect == "openai-responses":
        # The provider's own `response.failed` is forwarded (ST-35), and this SDK only hands it to its program.
        assert await ask(sdk, stream=True) != TEXT
        return
    with pytest.raises(Exception) as raised:
        await ask(sdk, stream=True)
    assert "Overloaded, truly." in str(raised.value)
    assert s.upstream.keys == ["sk-a"]
