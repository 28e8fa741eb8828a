"""Limits that people reported with tools of this kind (`acceptance.md`), through the real proxy: for whom, and how long."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from honesty import bytes_of
from key_pool import ask, cooldown, core, left, let_pass, pool, rests

from omniroute_addon.model import ResetOrder
from omniroute_addon.testing.answers import anthropic, error, error_in_stream, openai_chat, openai_responses
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Await, json_reply
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]


pytestmark = pytest.mark.usefixtures("keys")


async def test_a01_the_later_deadline_wins(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A01: the second 429 was in flight when the first one came; what is told is the second cause."""
    both, answered = asyncio.Event(), asyncio.Event()
    soon = error("openai-chat", 429, "Rate limited: the first", headers={"retry-after": "10"})
    late = error("openai-chat", 429, "Rate limited: the second", headers={"retry-after": "60"})
    upstream.script([replace(soon, before=(Await(both),)), replace(late, before=(Await(answered),))], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    first = asyncio.create_task(ask(proxy, question(stream=False)))
    await upstream.received(1)
    second = asyncio.create_task(ask(proxy, question(stream=False)))
    await upstream.received(2)
    both.set()
    assert (await first).header("retry-after") == "10"
    assert 8 < left(proxy, "a") <= 10
    answered.set()
    assert (await second).header("retry-after") == "60"
    assert 58 < left(proxy, "a") <= 60
    assert "the second" in rests(proxy)["a"].error and rests(proxy)["a"].level == 0
    let_pass(proxy, 30)
    refused = await ask(proxy, question(stream=False))
    assert (refused.status, len(upstream.requests)) == (429, 2), "t=31: the first deadline is over, the second is not"
    assert 27 <= int(refused.header("retry-after") or 0) <= 30
    let_pass(proxy, 31)
    upstream.script(openai_chat("fine", stream=False), key="sk-a")
    assert (await ask(proxy, question(stream=False))).status == 200


def used_up(**more: object) -> dict[str, object]:
    said = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus"}
    return {"error": {**said, "resets_at": 1700000000, "resets_in_seconds": 13872, **more}}


async def test_a02_a_wait_in_the_body(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A02: a resets_at in the past is ignored; the client without B gets the 429 with the wait, and the words as they came."""
    body = used_up()
    upstream.script(json_reply(body, status=429))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert (seen.status, seen.header("retry-after")) == (429, "13872")
    assert seen.json() == body
    assert "wait 13872 s (body:error.resets_in_seconds)" in (await proxy.finished(1)).comment
    assert left(proxy, "a") == pytest.approx(13872, abs=1)
    let_pass(proxy, 13_800)
    assert (await ask(proxy, question("openai-responses"))).status == 429 and len(upstream.requests) == 1


async def test_a02_with_a_second_account_it_serves(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A02: the time of the reset is in the body, and read from there"""
    resets_at = int(time.time()) + 7200
    upstream.script(json_reply(used_up(resets_at=resets_at, resets_in_seconds=None), status=429), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = [await ask(proxy, question()) for _ in range(2)]
    assert [(e.status, e.header("x-omniroute-connection")) for e in seen] == [(200, "b")] * 2
    assert upstream.keys == ["sk-a", "sk-b", "sk-b"]
    assert rests(proxy)["a"].until == pytest.approx(resets_at, abs=2)
    assert "(body:error.resets_at)" in (await proxy.finished(1)).comment


async def test_a03_a_plan_limit_is_the_accounts_a_capacity_error_the_models(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A03."""
    limit = {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached"}}
    upstream.script(json_reply(limit, status=429), key="sk-a")
    upstream.script(openai_chat("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    await ask(proxy, question(model="m1"))
    other = await ask(proxy, question(model="m2"))
    assert other.header("x-omniroute-connection") == "b" and other.header("x-omniroute-attempts") == "1"


async def test_a03_a_capacity_error_leaves_the_account_open(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A03, second half."""
    busy = {
        "error": {
            "message": "Selected model is at capacity. Please try a different model.",
            "code": "model_at_capacity",
        }
    }
    upstream.script([json_reply(busy, status=503)] * 3 + [openai_chat("fine")], key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    await ask(proxy, question(model="m1"))
    other = await ask(proxy, question(model="m2"))
    assert other.status == 200 and other.header("x-omniroute-connection") == "a"


@pytest.mark.parametrize("status", [402, 400])
async def test_a09_out_of_credits_is_terminal_at_once(
    status: int, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A09: no second attempt in 24 hours; visible, and resettable by a person only.

    It beats FC-91: an empty purse is one account's, so the provider's other accounts are asked.
    """
    text = "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade."
    upstream.script(error("anthropic-messages", status, text, code="invalid_request_error"), key="sk-a")
    upstream.script(anthropic("fine"), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="anthropic"))
    for _ in range(4):
        assert (await ask(proxy, question("anthropic-messages"))).status == 200
        let_pass(proxy, 8 * 3600)
    assert upstream.keys == ["sk-a", "sk-b", "sk-b", "sk-b", "sk-b"]
    [shown] = cooldown(proxy).timers(core(proxy).clock.now())
    assert (shown.connection, shown.state, shown.terminal, shown.until) == ("a", "credits_exhausted", True, None)
    assert "credit balance" in shown.detail
    assert cooldown(proxy).reset(ResetOrder(part="connection", connections=frozenset("a"))) == []
    [cleared] = cooldown(proxy).reset(ResetOrder(part="connection", connections=frozenset("a"), terminal=True))
    assert cleared.connection == "a"
    upstream.script(anthropic("paid"), key="sk-a")
    assert (await ask(proxy, question("anthropic-messages"))).header("x-omniroute-connection") == "a"


async def test_a10_exhaustion_inside_a_200_body(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A10, first half."""
    inside = {
        "error": {
            "message": "You exceeded your current quota",
            "type": "insufficient_quota",
            "code": "insufficient_quota",
        }
    }
    upstream.script(json_reply(inside), key="sk-a")
    answer = openai_chat("fine", stream=False)
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question(stream=False))
    assert (seen.status, seen.body, seen.header("x-omniroute-connection")) == (200, answer.body, "b")


async def test_a10_a_failed_response_inside_a_200_stream(upstream: FakeUpstream, omniroute_proxy: StartProxy) -> None:
    """A10, second half: restated to 429, B serves; alone, the client gets the 429."""
    broken = error_in_stream("openai-responses", "Rate limit reached", code="rate_limit_exceeded")
    upstream.script(broken, key="sk-a")
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert (seen.status, seen.header("x-omniroute-restated-from")) == (429, "200")


async def test_a10_of_a_failed_stream_the_client_sees_nothing(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A10: only B's bytes, under one head."""
    upstream.script(error_in_stream("openai-responses", "Rate limit reached", code="rate_limit_exceeded"), key="sk-a")
    answer = openai_responses("fine")
    upstream.script(answer, key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b"))
    seen = await ask(proxy, question("openai-responses"))
    assert (seen.status, len(seen.heads), seen.header("x-omniroute-connection")) == (200, 1, "b")
    assert seen.body == bytes_of(answer)
    assert set(rests(proxy)) == {"a"}


@pytest.mark.parametrize(("words", "seconds"), [("17 seconds", 17.0), ("14.036s", 14.036)])
async def test_a11_a_wait_in_the_text(
    words: str, seconds: float, upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """A11."""
    upstream.script(error_in_stream("openai-responses", f"Rate limit is exceeded. Try again in {words}."))
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    seen = await ask(proxy, question("openai-responses"))
    assert seen.status == 429 and seconds - 1 < left(proxy, "a") <= seconds
    assert seen.header("retry-after") == str(math.ceil(seconds))
    assert f"wait {seconds:g} s (text:Try again in {words})" in (await proxy.finished(1)).comment


async def test_a11_a_number_in_the_prose_of_a_success_changes_nothing(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    answer = openai_chat("Rate limit is exceeded. Try again in 17 seconds. insufficient_quota 429")
    upstream.script(answer)
    proxy = await omniroute_proxy(config=pool(upstream, "a"))
    assert (await ask(proxy, question())).status == 200
    assert rests(proxy) == {}
