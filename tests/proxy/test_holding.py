"""A request is held while everything rests briefly, and its client kept waiting: through a real proxy (`CW`, A08, A25, A34)."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from honesty import OfferHttp2

from omniroute_addon.addon import Omniroute
from omniroute_addon.testing.answers import anthropic, error, good, openai_chat
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Close, Hang, Pause, Reply, json_reply
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
CLAUDE = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
NODE = {"user-agent": "Anthropic/JS 1.14.0", "x-stainless-lang": "js"}


def settings(**more: Any) -> dict[str, Any]:
    """Quick, held, and nothing tried in place."""
    waiting = {"enabled": True, **more.pop("cooldown_wait", {})}
    base: dict[str, Any] = {"own_credential": "never", "retries_in_place": 0, "lifecycle_grace_ms": 100}
    return {"settings": {**base, "cooldown_wait": waiting, **more}}


def alive(every_ms: int = 1000, **more: Any) -> dict[str, Any]:
    return settings(cooldown_wait={"keep_alive": True, "keep_alive_ms": every_ms}, **more)


def ask_as(headers: dict[str, str], dialect: Any = "anthropic-messages", **more: Any) -> Question:
    q = question(dialect, **more)
    q.headers.update(headers)
    return q


def plan_limit(in_s: float) -> Reply:
    """Anthropic's plan limit: the unified headers name the reset."""
    body = {"type": "error", "error": {"type": "rate_limit_error", "message": "You've hit your limit."}}
    reset = str(int(time.time() + in_s))
    headers = {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": reset,
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "x-request-id": "r1",
    }
    return json_reply(body, status=429, headers=headers)


# ------------------------------------------------------------ holding


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_a25_a_limit_that_ends_soon_is_waited_for(own: bool, http2: bool, open_stage: OpenStage) -> None:
    """A25, in small: 429 with its reset in 2 s, then 200: held, and exactly one upstream try at the reset."""
    pool = () if own else ("a",)
    s = await open_stage(*pool, provider="anthropic", config=settings(), addons=[Omniroute(), OfferHttp2()])
    limit = plan_limit(3)
    s.upstream.script([limit, anthropic("fine")])
    started = time.time()
    seen = await s.ask(ask_as(CLAUDE), http2=http2)
    reset = float(dict(limit.headers)["anthropic-ratelimit-unified-reset"])
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    assert seen.header("x-omniroute-attempts") == "2"
    assert len(s.upstream.requests) == 2
    assert time.time() >= reset > started
    assert s.proxy.errors == []


@pytest.mark.parametrize("own", [False, True])
async def test_a25_a_limit_that_ends_in_hours_is_told_at_once(own: bool, open_stage: OpenStage) -> None:
    """A25: an honest 429, its reset untouched."""
    s = await open_stage(*(() if own else ("a",)), provider="anthropic", config=settings())
    limit = plan_limit(3 * 3600)
    s.upstream.script(limit)
    seen = await s.ask(ask_as(CLAUDE), within_s=3)
    assert seen.status == 429
    assert seen.header("anthropic-ratelimit-unified-reset") == dict(limit.headers)["anthropic-ratelimit-unified-reset"]
    assert len(s.upstream.requests) == 1


async def test_a08_an_overload_of_a_single_connection_is_sat_out(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A08: it names no time and rests nobody, so the pauses grow; the client gets the 200."""
    monkeypatch.setattr("omniroute_addon.waiting.ways_out.LADDER_S", (0.1, 0.2, 0.4))
    s = await open_stage(provider="anthropic", config=settings())
    overloaded = error("anthropic-messages", 529, "Overloaded", code="overloaded_error")
    s.upstream.script([overloaded, overloaded, overloaded, anthropic("fine")])
    seen = await s.ask(ask_as(CLAUDE))
    assert (seen.status, len(s.upstream.requests)) == (200, 4)


async def test_a08_beyond_the_budget_the_overload_is_told_in_its_own_words(
    open_stage: OpenStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omniroute_addon.waiting.ways_out.LADDER_S", (0.1,))
    s = await open_stage(provider="anthropic", config=settings(cooldown_wait={"max_waits": 2}))
    overloaded = error("anthropic-messages", 529, "Overloaded", code="overloaded_error")
    s.upstream.script(overloaded)
    seen = await s.ask(ask_as(CLAUDE))
    assert (seen.status, seen.body, len(s.upstream.requests)) == (529, overloaded.body, 3)


async def test_a_connection_that_rests_already_is_waited_for_without_a_try(open_stage: OpenStage) -> None:
    """CW-28, CW-55: nothing is dispatched before the rest is over."""
    s = await open_stage("a", config=settings())
    fine = openai_chat("fine")
    s.upstream.script([error("openai-chat", 429, "slow down", headers={"retry-after": "2"}), fine, fine])
    q = question()
    first, second = await asyncio.gather(s.ask(q), _later(s, q))
    assert (first.status, second.status, len(s.upstream.requests)) == (200, 200, 3)
    assert sorted([first.header("x-omniroute-attempts"), second.header("x-omniroute-attempts")]) == ["1", "2"]
    assert all(r.at - s.upstream.requests[0].at >= 2 for r in s.upstream.requests[1:])


async def _later(s: Stage, q: Question) -> Any:
    await s.upstream.received(1)
    await asyncio.sleep(0.2)
    return await s.ask(q)


async def test_a_client_without_patience_is_told_at_once(open_stage: OpenStage) -> None:
    """First, do no harm: curl's profile or a stranger's says how long it waits; 50 s is more than this one's."""
    s = await open_stage("a", config=settings())
    s.upstream.script(error("openai-chat", 429, "slow down", headers={"retry-after": "50"}))
    seen = await s.ask(question(), within_s=3)
    assert (seen.status, seen.header("retry-after")) == (429, "50")


async def test_what_no_wait_mends_is_told_at_once(open_stage: OpenStage) -> None:
    """CW-12, CW-13: a bad key beside a spent account."""
    s = await open_stage("a", "b", config=settings())
    s.upstream.script(error("openai-chat", 401, "Incorrect API key provided.", code="invalid_api_key"), key="sk-a")
    s.upstream.script(error("openai-chat", 429, "Out.", code="insufficient_quota"), key="sk-b")
    await s.ask(question(), within_s=3)
    assert s.upstream.keys == ["sk-a", "sk-b"]


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("config", [settings(), alive()], ids=["silent", "alive"])
async def test_a_client_that_leaves_while_it_is_held_leaves_nothing_behind(
    config: dict[str, Any], http2: bool, open_stage: OpenStage
) -> None:
    """CW-33: nothing more is dispatched, no failure recorded, no flow left open."""
    s = await open_stage("a", provider="anthropic", config=config)
    s.upstream.script(plan_limit(4))
    q = ask_as(NODE)
    async with s.client(q, http2=http2) as client:
        seen = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await s.upstream.received(1)
        await asyncio.sleep(1.3)
        seen.cancel()
        flow = await s.proxy.finished(1)
    assert flow.error is not None
    await asyncio.sleep(3.2)
    assert len(s.upstream.requests) == 1
    assert s.proxy.errors == []


# ------------------------------------------------------------ signs of life


def split_signs(body: bytes) -> tuple[int, bytes]:
    """How many signs of life came first, and what followed."""
    count = 0
    for sign in (b'event: ping\ndata: {"type": "ping"}\n\n', b": omniroute keeps trying\n\n"):
        while body.startswith(sign):
            count, body = count + 1, body.removeprefix(sign)
    return count, body


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize(
    ("dialect", "headers"),
    [("anthropic-messages", NODE), ("openai-chat", {"user-agent": "OpenAI/Python 3.57.0"})],
)
async def test_a34_a_stream_is_kept_alive_and_the_real_one_follows(
    dialect: Any, headers: dict[str, str], http2: bool, open_stage: OpenStage
) -> None:
    """A34: A is silent, then 429; B serves. Signs of life meanwhile, one head, B's bytes behind them."""
    provider = "anthropic" if dialect == "anthropic-messages" else "openai"
    s = await open_stage("a", "b", provider=provider, config=alive(), addons=[Omniroute(), OfferHttp2()])
    answer = good(dialect, "Hello there.", stream=True)
    late = error(dialect, 429, "slow down", headers={"retry-after": "60"})
    s.upstream.script(Reply(**{**_fields(late), "before": (Pause(2.5),)}), key="sk-a")
    s.upstream.script(answer, key="sk-b")
    seen = await s.ask(ask_as(headers, dialect), http2=http2)
    signs, rest = split_signs(seen.body)
    assert (seen.status, seen.end, len(seen.heads), signs) == (200, "complete", 1, 2)
    assert rest == b"".join(step for step in answer.steps if isinstance(step, bytes))
    assert seen.header("content-type") == "text/event-stream; charset=utf-8"
    assert [r.header("accept-encoding") for r in s.upstream.requests] == ["identity", "identity"]
    flow = await s.proxy.finished(1)
    assert flow.response.status_code == 200 and "#2 b" in flow.comment
    assert s.proxy.errors == []


def _fields(reply: Reply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in Reply.__dataclass_fields__}


@pytest.mark.parametrize("http2", [False, True])
async def test_signs_of_life_go_on_while_it_is_held(http2: bool, open_stage: OpenStage) -> None:
    """A25, "client kept alive where possible"."""
    s = await open_stage("a", provider="anthropic", config=alive())
    s.upstream.script([plan_limit(4), anthropic("fine")])
    seen = await s.ask(ask_as(NODE), http2=http2)
    signs, rest = split_signs(seen.body)
    assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
    assert signs >= 2 and rest.startswith(b"event: message_start")


@pytest.mark.parametrize(
    ("config", "headers", "dialect"),
    [
        (settings(), NODE, "anthropic-messages"),
        (alive(), {}, "anthropic-messages"),
        (alive(), {"user-agent": "GeminiCLI-tui/0.61.0/gemini-3.1-pro-preview (linux; x64; terminal)"}, "gemini"),
    ],
    ids=["option off", "a stranger", "bears none"],
)
async def test_a34_otherwise_nothing_is_sent_before_the_decision(
    config: dict[str, Any], headers: dict[str, str], dialect: Any, open_stage: OpenStage
) -> None:
    provider = "gemini" if dialect == "gemini" else "anthropic"
    s = await open_stage("a", provider=provider, config=config)
    late = error(dialect, 429, "slow down", headers={"retry-after": "900"})
    s.upstream.script(Reply(**{**_fields(late), "before": (Pause(2.2),)}))
    seen = await s.ask(ask_as(headers, dialect))
    assert seen.status == 429


async def test_a34_a_later_error_comes_inside_the_stream(open_stage: OpenStage) -> None:
    """A34: valid in the dialect, with the error's own words, and an end that is none of a good answer."""
    s = await open_stage("a", provider="anthropic", config=alive())
    late = error("anthropic-messages", 429, "slow down", headers={"retry-after": "900"})
    s.upstream.script(Reply(**{**_fields(late), "before": (Pause(1.5),)}))
    seen = await s.ask(ask_as(NODE))
    signs, rest = split_signs(seen.body)
    name, _, data = rest.decode().strip().partition("\n")
    assert (seen.status, seen.end, signs, name) == (200, "complete", 1, "event: error")
    told = json.loads(data.removeprefix("data: "))
    assert told["type"] == "error" and told["error"]["type"] == "rate_limit_error"
    assert "slow down" in told["error"]["message"]
    flow = await s.proxy.finished(1)
    assert "#1 a: rate_limit 429" in flow.comment


async def test_an_answer_that_is_no_stream_cannot_follow_the_signs(open_stage: OpenStage) -> None:
    """The head said event stream: a JSON answer is passed by, the next connection's stream follows."""
    s = await open_stage("a", "b", provider="anthropic", config=alive())
    whole = good("anthropic-messages", "whole", stream=False)
    s.upstream.script(Reply(**{**_fields(whole), "before": (Pause(1.5),)}), key="sk-a")
    s.upstream.script(anthropic("streamed"), key="sk-b")
    seen = await s.ask(ask_as(NODE))
    signs, rest = split_signs(seen.body)
    assert signs == 1 and b"streamed" in rest and b"whole" not in rest
    assert (seen.end, s.upstream.keys) == ("complete", ["sk-a", "sk-b"])


async def test_a_coded_stream_cannot_follow_the_signs(open_stage: OpenStage) -> None:
    """The head named no coding."""
    s = await open_stage("a", "b", provider="anthropic", config=alive())
    packed = gzip.compress(b"".join(step for step in anthropic("packed").steps if isinstance(step, bytes)))
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    s.upstream.script(Reply(before=(Pause(1.5),), headers=headers, body=packed), key="sk-a")
    s.upstream.script(anthropic("plain"), key="sk-b")
    seen = await s.ask(ask_as(NODE))
    assert split_signs(seen.body)[1].startswith(b"event: message_start") and b"plain" in seen.body


async def test_a_stream_that_breaks_behind_the_signs_ends_as_any_other(open_stage: OpenStage) -> None:
    s = await open_stage("a", provider="anthropic", config=alive(idle_timeout_ms=700))
    stream = anthropic("some words")
    pieces = [step for step in stream.steps if isinstance(step, bytes)]
    cut = b"".join(pieces)[: b"".join(pieces).index(b"event: content_block_stop")]
    s.upstream.script(Reply(headers=stream.headers, before=(Pause(1.5),), chunks=(cut, Hang())))
    seen = await s.ask(ask_as(NODE))
    signs, rest = split_signs(seen.body)
    assert signs == 1 and b"words" in rest and rest.count(b"event: error") == 1


async def test_an_error_of_ours_comes_inside_the_stream_too(open_stage: OpenStage) -> None:
    s = await open_stage("a", provider="anthropic", config=alive())
    s.upstream.script(Reply(before=(Pause(1.5), Close())))
    seen = await s.ask(ask_as(NODE))
    signs, rest = split_signs(seen.body)
    assert signs >= 1 and rest.startswith(b"event: error") and b"upstream_unreachable" in rest


async def test_a_call_without_stream_is_held_in_silence(open_stage: OpenStage) -> None:
    s = await open_stage("a", provider="anthropic", config=alive())
    s.upstream.script([plan_limit(3), good("anthropic-messages", "fine", stream=False)])
    seen = await s.ask(ask_as(NODE, stream=False))
    assert (seen.status, seen.header("content-type")) == (200, "application/json")
    assert seen.json()["content"]


@pytest.mark.parametrize("http2", [False, True])
async def test_the_clients_connection_is_as_good_as_before(http2: bool, open_stage: OpenStage) -> None:
    """Behind an error inside the stream, and behind a stream that followed the signs, the next request is like any."""
    s = await open_stage("a", provider="anthropic", config=alive())
    late = error("anthropic-messages", 400, "no such thing")
    slow_error = Reply(**{**_fields(late), "before": (Pause(1.3),)})
    slow = Reply(**{**_fields(anthropic("fine")), "before": (Pause(1.3),)})
    s.upstream.script([slow_error, slow, anthropic("fine")])
    q = ask_as(NODE)
    async with s.client(q, http2=http2) as client:
        for signs in (1, 1, 0):
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
            assert (seen.status, seen.end, len(seen.heads)) == (200, "complete", 1)
            assert split_signs(seen.body)[0] == signs
    assert s.proxy.errors == []


class WantsItWhole:
    def responseheaders(self, flow: Any) -> None:
        flow.response.stream = False


async def test_an_addon_that_wants_the_body_whole_gets_it_and_the_client_one_head(open_stage: OpenStage) -> None:
    s = await open_stage("a", provider="anthropic", config=alive(), addons=[Omniroute(), WantsItWhole()])
    s.upstream.script(Reply(**{**_fields(anthropic("fine")), "before": (Pause(1.3),)}))
    seen = await s.ask(ask_as(NODE))
    signs, rest = split_signs(seen.body)
    assert (seen.status, seen.end, len(seen.heads), signs) == (200, "complete", 1, 1)
    assert rest.startswith(b"event: message_start") and b"message_stop" in rest
    flow = await s.proxy.finished(1)
    assert flow.response.content == rest


class KillsAtTheHead:
    def responseheaders(self, flow: Any) -> None:
        flow.kill()


@pytest.mark.parametrize("http2", [False, True])
async def test_a_flow_that_is_killed_behind_the_signs_is_cut(http2: bool, open_stage: OpenStage) -> None:
    """Never a clean end: the client must not take it for a whole answer."""
    s = await open_stage("a", provider="anthropic", config=alive(), addons=[Omniroute(), KillsAtTheHead()])
    s.upstream.script(Reply(**{**_fields(anthropic("fine")), "before": (Pause(1.3),)}))
    seen = await s.ask(ask_as(NODE), http2=http2)
    assert seen.end != "complete" and b"message_start" not in seen.body


async def test_an_http_1_0_client_gets_no_signs(open_stage: OpenStage) -> None:
    """It knows no chunks: the end of what was begun could not be told from a cut."""
    s = await open_stage("a", provider="anthropic", config=alive())
    s.upstream.script(Reply(**{**_fields(anthropic("fine")), "before": (Pause(1.3),)}))
    q = ask_as(NODE)
    fields = "".join(f"{name}: {value}\r\n" for name, value in q.headers.items())
    async with s.client(q) as client, asyncio.timeout(8):
        assert client.pipe
        head = f"POST {q.path} HTTP/1.0\r\nhost: {q.host}\r\n{fields}content-length: {len(q.body)}\r\n\r\n"
        client.pipe.write(head.encode() + q.body)
        got = b""
        while data := await client.pipe.read():
            got += data
    assert b'{"type": "ping"}' not in got and b"message_stop" in got
