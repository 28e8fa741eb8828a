"""Every deadline of an attempt through a real proxy, in milliseconds; and rule 4: none of the first ones harms a lone client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from honesty import bytes_of, frames, is_error, wrong

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import good, openai_chat
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.faults import drip, hang_after_head
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Hang, Pause, Reply, Step
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream, silent_port

OpenStage = Callable[..., Awaitable[Stage]]
SETTINGS = {"own_credential": "never", "retries_in_place": 0, "retry_pause_ms": 1, "retry_pause_max_ms": 2}
FINE = openai_chat("from b")
SHORT_MS = 150
SHORT_S = SHORT_MS / 1000


async def pair(open_stage: OpenStage, *, http2: bool = False, provider: str = "openai", **settings: Any) -> Stage:
    entries = [{"id": name, "priority": n, "disable_cooling": True} for n, name in enumerate("ab")]
    return await open_stage(*entries, provider=provider, http2=http2, config={"settings": {**SETTINGS, **settings}})


def chunks(reply: Reply, *steps: Step) -> Reply:
    return replace(reply, body=b"", chunks=steps, framing="chunked")


async def timed(s: Stage, **asked: Any) -> tuple[Exchange, float]:
    """The exchange, and how many seconds its end took."""
    begin = asyncio.get_running_loop().time()
    seen = await s.ask(question(**asked))
    return seen, asyncio.get_running_loop().time() - begin


def from_b(seen: Exchange, answer: Reply = FINE) -> bool:
    got = (seen.status, seen.end, len(seen.heads), seen.header("x-omniroute-connection"), seen.body)
    return got == (200, "complete", 1, "b", bytes_of(answer))


# ------------------------------------------------------------ connect


@pytest.fixture
async def silent() -> AsyncIterator[int]:
    """A port whose TLS handshake hangs."""
    with silent_port() as port:
        yield port


async def test_a_handshake_that_hangs_is_left_at_the_connect_deadline(silent: int, open_stage: OpenStage) -> None:
    entries = [{"id": "a", "base_url": f"https://127.0.0.1:{silent}", "priority": 0}, {"id": "b", "priority": 1}]
    s = await open_stage(*entries, config={"settings": {**SETTINGS, "connect_timeout_ms": SHORT_MS}})
    s.upstream.script(FINE)
    seen, took = await timed(s)
    assert from_b(seen) and SHORT_S <= took < 3
    assert "timeout" in (await s.proxy.finished(1)).comment


async def test_a_client_that_waits_for_a_connection_may_leave(silent: int, open_stage: OpenStage) -> None:
    s = await open_stage({"id": "a", "base_url": f"https://127.0.0.1:{silent}"}, config={"settings": SETTINGS})
    q = question()
    async with s.client(q, http2=True) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await asyncio.sleep(0.1)
        seen.cancel()
        flow = await s.proxy.finished(1, within_s=1)
    assert flow.error is not None and flow.comment == ""


# ------------------------------------------------------------ head


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_a_head_that_does_not_come_is_left_and_cancelled(
    stream: bool, http_versions: tuple[bool, bool], open_stage: OpenStage
) -> None:
    s = await pair(open_stage, http2=http_versions[1], head_timeout_ms=SHORT_MS)
    fine = openai_chat("from b", stream=stream)
    s.upstream.script(Reply(before=(Hang(),)), key="sk-a")
    s.upstream.script(fine, key="sk-b")
    seen = await s.ask(question(stream=stream), http2=http_versions[0])
    assert from_b(seen, fine)
    await asyncio.wait_for(s.upstream.requests[0].ended.wait(), 1)
    assert s.upstream.requests[0].cancelled


async def test_a_stream_shares_one_bound_for_head_and_first_frame(open_stage: OpenStage) -> None:
    """Many providers send the head with the first frame."""
    s = await pair(open_stage, readiness_timeout_ms=SHORT_MS, readiness_max_timeout_ms=SHORT_MS)
    s.upstream.script(Reply(before=(Hang(),)), key="sk-a")
    s.upstream.script(FINE, key="sk-b")
    seen, took = await timed(s)
    assert from_b(seen) and SHORT_S <= took < 5


# ------------------------------------------------------------ readiness


async def test_a_head_with_nothing_behind_it_is_left(dialect: DialectName, open_stage: OpenStage) -> None:
    """ST-22, A15 (a)."""
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    s = await pair(open_stage, provider=provider, readiness_timeout_ms=SHORT_MS)
    fine = good(dialect)
    s.upstream.script(hang_after_head(fine), key="sk-a")
    s.upstream.script(fine, key="sk-b")
    seen = await s.ask(question(dialect))
    assert from_b(seen, fine)
    assert "timeout" in (await s.proxy.finished(1)).comment


async def test_when_nobody_is_ready_the_client_hears_of_a_timeout(open_stage: OpenStage) -> None:
    """ST section 15, case 1: only comments and pings until the deadline: 504, nothing delivered."""
    s = await pair(open_stage, readiness_timeout_ms=SHORT_MS, attempt_deadline_ms=3 * SHORT_MS)
    s.upstream.script(hang_after_head(FINE), key="sk-a")
    s.upstream.script(Reply(before=(Hang(),)), key="sk-b")
    seen = await s.ask(question())
    assert (seen.status, seen.end, wrong(seen)) == (504, "complete", "")
    assert seen.json()["error"]["code"] == "upstream_timeout"


def _pings(every_s: float) -> tuple[Step, ...]:
    return tuple(step for _ in range(400) for step in (b": ping\n\n", Pause(every_s)))


async def test_pings_move_the_deadline_only_to_its_bound(open_stage: OpenStage) -> None:
    """ST-21, ST section 15, case 2: not later than the bound, and not as early as without pings."""
    bound_s = 4 * SHORT_S
    s = await pair(open_stage, readiness_timeout_ms=SHORT_MS, readiness_max_timeout_ms=int(1000 * bound_s))
    s.upstream.script(chunks(FINE, *_pings(SHORT_S / 6)), key="sk-a")
    s.upstream.script(FINE, key="sk-b")
    seen, took = await timed(s)
    assert from_b(seen)
    assert bound_s <= took < bound_s + 2


async def test_bytes_give_a_slow_first_event_its_time(open_stage: OpenStage) -> None:
    """ST-21: a frame that arrives in pieces is no silence."""
    s = await pair(open_stage, readiness_timeout_ms=4 * SHORT_MS, readiness_max_timeout_ms=40 * SHORT_MS)
    s.upstream.script(drip(FINE, every=40, pause_s=SHORT_S), key="sk-a")
    seen = await s.ask(question(), within_s=20)
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "a")


# ------------------------------------------------------------ grace


async def test_lifecycle_frames_release_a_stream_after_their_grace(open_stage: OpenStage) -> None:
    """ST-11, ST-12: mode `output` waits a little for what overloaded providers say right behind them."""
    answer = openai_chat("one two")
    s = await pair(open_stage, lifecycle_grace_ms=SHORT_MS)
    s.upstream.script(chunks(answer, answer.steps[0], Pause(4 * SHORT_S), *answer.steps[1:]), key="sk-a")
    q = question()
    async with s.client(q) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await seen.has_head()
        assert SHORT_S <= seen.heads[0].at < 4 * SHORT_S
        await seen.finished()
    assert (seen.body, s.upstream.keys) == (bytes_of(answer), ["sk-a"])


async def test_an_error_within_the_grace_is_never_shown(open_stage: OpenStage) -> None:
    answer = openai_chat("one two")
    said = b'data: {"error":{"message":"Rate limit reached","code":"rate_limit_exceeded"}}\n\n'
    s = await pair(open_stage, lifecycle_grace_ms=20 * SHORT_MS)
    s.upstream.script(chunks(answer, answer.steps[0], Pause(SHORT_S / 3), said), key="sk-a")
    s.upstream.script(FINE, key="sk-b")
    assert from_b(await s.ask(question()))


async def test_mode_event_releases_at_the_first_lifecycle_frame(open_stage: OpenStage) -> None:
    """ST-11."""
    answer = openai_chat("one two")
    s = await pair(open_stage, lifecycle_grace_ms=5_000, readiness_mode="event")
    s.upstream.script(chunks(answer, answer.steps[0], Pause(SHORT_S), *answer.steps[1:]), key="sk-a")
    q = question()
    async with s.client(q) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await seen.has_body(b"assistant")
        assert b"one" not in seen.body
        assert (await seen.finished()).body == bytes_of(answer)


# ------------------------------------------------------------ idle and the attempt's ceiling


def _failed_in_stream(seen: Exchange) -> bool:
    parts = frames(seen.body)
    return (seen.status, seen.end) == (200, "complete") and sum(map(is_error, parts)) == 1


async def test_heartbeats_do_not_keep_a_stalled_stream_alive(open_stage: OpenStage) -> None:
    """ST-37, ST section 15, case 29, first half."""
    answer = openai_chat("one two")
    s = await pair(open_stage, idle_timeout_ms=2 * SHORT_MS)
    s.upstream.script(chunks(answer, *answer.steps[:3], *_pings(SHORT_S / 6)), key="sk-a")
    seen, took = await timed(s)
    assert _failed_in_stream(seen) and 2 * SHORT_S <= took < 2 * SHORT_S + 3
    await asyncio.wait_for(s.upstream.requests[0].ended.wait(), 1)
    assert s.upstream.requests[0].cancelled and s.upstream.keys == ["sk-a"]


async def test_one_large_frame_may_take_its_time(open_stage: OpenStage) -> None:
    """ST-37, ST section 15, case 29, second half: a 2 MiB image that needs longer than the idle length to arrive."""
    image = b'data: {"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png","data":"' + b"A" * (
        2 << 20
    )
    image += b'"}}]},"finishReason":"STOP"}]}\n\n'
    pieces = [image[at : at + (1 << 18)] for at in range(0, len(image), 1 << 18)]
    fine = good("gemini", "one two")
    s = await pair(open_stage, provider="gemini", idle_timeout_ms=3 * SHORT_MS)
    late = (step for piece in pieces for step in (piece, Pause(SHORT_S / 1.5)))
    s.upstream.script(chunks(fine, *fine.steps[:1], *late), key="sk-a")
    begin = asyncio.get_running_loop().time()
    seen = await s.ask(question("gemini"), within_s=20)
    assert asyncio.get_running_loop().time() - begin > 3 * SHORT_S
    assert (seen.status, seen.end) == (200, "complete") and seen.body.endswith(image)


async def test_the_attempt_deadline_ends_a_stream_that_still_talks(open_stage: OpenStage) -> None:
    """ST-39, ST-40, ST section 15, case 23."""
    answer = openai_chat("word " * 200)
    talk = (step for event in answer.steps for step in (event, Pause(SHORT_S / 6)))
    s = await pair(open_stage, attempt_deadline_ms=4 * SHORT_MS)
    s.upstream.script(chunks(answer, *talk), key="sk-a")
    seen, took = await timed(s)
    assert _failed_in_stream(seen) and 4 * SHORT_S <= took < 4 * SHORT_S + 3
    assert s.upstream.keys == ["sk-a"]


async def test_a_whole_answer_that_stalls_is_left(open_stage: OpenStage) -> None:
    """ST-38 for an answer that is not shown before its end: another connection answers."""
    whole, fine = openai_chat("lost", stream=False), openai_chat("from b", stream=False)
    s = await pair(open_stage, idle_timeout_ms=SHORT_MS)
    s.upstream.script(chunks(whole, bytes_of(whole)[:30], Hang()), key="sk-a")
    s.upstream.script(fine, key="sk-b")
    assert from_b(await s.ask(question(stream=False)), fine)


# ------------------------------------------------------------ all attempts together


async def test_the_deadline_of_the_call_ends_the_waiting(open_stage: OpenStage) -> None:
    s = await pair(open_stage, deadline_ms=3 * SHORT_MS)
    s.upstream.script(Reply(before=(Hang(),)), key="sk-a")
    s.upstream.script(FINE, key="sk-b")
    seen, took = await timed(s)
    assert wrong(seen, FINE) == "" and took < 3 * SHORT_S + 3
    assert seen.status in (200, 504)


# ------------------------------------------------------------ rule 4: do no harm


EARLY = {
    "connect_timeout_ms": SHORT_MS,
    "head_timeout_ms": SHORT_MS,
    "readiness_timeout_ms": SHORT_MS,
    "readiness_max_timeout_ms": SHORT_MS,
}


@pytest.mark.parametrize("configured", [False, True], ids=["own credential", "one connection"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("late", ["head", "first frame"])
async def test_with_nothing_else_to_try_patience_has_no_end(
    late: str, stream: bool, configured: bool, open_stage: OpenStage
) -> None:
    """Rule 4: a client with one credential waits as long as it would without us."""
    answer = openai_chat("late but whole", stream=stream)
    pause = Pause(4 * SHORT_S)
    slow = replace(answer, before=(pause,)) if late == "head" else chunks(answer, pause, *answer.steps)
    settings = {**EARLY, "lifecycle_grace_ms": SHORT_MS, "own_credential": "never" if configured else "last"}
    s = await open_stage(*(["a"] if configured else []), config={"settings": settings})
    s.upstream.script(slow)
    seen = await s.ask(question(stream=stream))
    assert (seen.status, seen.end, seen.body) == (200, "complete", bytes_of(answer))
    assert len(s.upstream.requests) == 1


@asynccontextmanager
async def _slow_door(upstream: FakeUpstream, pause_s: float) -> AsyncIterator[int]:
    """A port that accepts at once and lets nothing through for a while: a slow TLS handshake."""

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(pause_s)
        there, back = await asyncio.open_connection(*upstream.address)
        await asyncio.gather(carry(reader, back), carry(there, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_with_nothing_else_to_try_a_slow_handshake_is_waited_for(
    tls_upstream: FakeUpstream, open_stage: OpenStage
) -> None:
    """Rule 4, the connect deadline."""
    tls_upstream.script(FINE)
    async with _slow_door(tls_upstream, 4 * SHORT_S) as port:
        entry = {"id": "a", "base_url": f"https://127.0.0.1:{port}"}
        s = await open_stage(entry, config={"settings": {**EARLY, "own_credential": "never"}})
        seen, took = await timed(s)
    assert (seen.status, seen.body) == (200, bytes_of(FINE)) and took >= 4 * SHORT_S


@pytest.mark.parametrize("client_http2", [False, True], ids=["h1", "h2"])
async def test_a_timer_that_rings_after_the_end_disturbs_nobody(client_http2: bool, open_stage: OpenStage) -> None:
    """ST-43: set for a late deadline, overtaken by an earlier one, still running when the answer has ended."""
    answer = openai_chat("one two")
    s = await pair(open_stage, head_timeout_ms=2 * SHORT_MS, lifecycle_grace_ms=60, readiness_timeout_ms=0)
    s.upstream.script(chunks(answer, answer.steps[0], Pause(0.1), *answer.steps[1:]), key="sk-a")
    q = question()
    async with s.client(q, http2=client_http2) as client:
        for _ in range(2):
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
            assert (seen.status, seen.end, seen.body) == (200, "complete", bytes_of(answer))
            await asyncio.sleep(3 * SHORT_S)
    assert s.proxy.errors == []
