"""A quota told as 403, through the real proxy: what the client sees and what stays inside (`spec/06`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from key_pool import ask, left, let_pass, pool, rests

from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]
QUOTA = error("openai-chat", 403, "用户额度不足", code="insufficient")


pytestmark = pytest.mark.usefixtures("keys")


def to_gateway(model: str | None = None) -> Question:
    return replace(question(stream=False, model=model), host="agentrouter.org")


async def test_a_restated_quota_is_told_when_all_targets_failed(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """SR-21, SR-23, SR-26, SR-27, edge cases 6, 7 and 15: the client waits a minute, we look again after three seconds"""
    upstream.script([QUOTA, QUOTA, openai_chat("fine", stream=False)])
    proxy = await omniroute_proxy(config=pool(upstream, "a", provider="agentrouter"))
    seen = await ask(proxy, to_gateway())
    assert (seen.status, seen.header("retry-after")) == (429, "60")
    assert seen.header("x-omniroute-restated-from") == "403"
    assert seen.json()["error"]["message"].startswith("用户额度不足")
    assert 2 < left(proxy, "a") <= 3
    assert "quota_exhausted 403→429 [agentrouter-user-quota-exhausted]" in (await proxy.finished(1)).comment
    let_pass(proxy, 3.1)
    again = await ask(proxy, to_gateway())
    assert (again.status, again.header("retry-after")) == (429, "60")
    assert 5 < left(proxy, "a") <= 6
    let_pass(proxy, 6.1)
    assert (await ask(proxy, to_gateway())).status == 200
    assert rests(proxy) == {}


async def test_another_account_of_the_gateway_takes_the_request(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """SR-38, FC-89, FC-90: the tired connection is skipped at once, its provider is not; no model of it is left either"""
    upstream.script(QUOTA, key="sk-a")
    upstream.script(openai_chat("fine", stream=False), key="sk-b")
    proxy = await omniroute_proxy(config=pool(upstream, "a", "b", provider="agentrouter"))
    seen = [await ask(proxy, to_gateway(model)) for model in ("m1", "m1", "m2")]
    assert [(e.status, e.header("x-omniroute-connection")) for e in seen] == [(200, "b")] * 3
    assert upstream.keys == ["sk-a", "sk-b", "sk-b", "sk-b"]
    assert set(rests(proxy)) == {"a"}


async def test_a_permanent_refusal_stays_one_and_leaves_the_other_models(
    upstream: FakeUpstream, omniroute_proxy: StartProxy
) -> None:
    """SR-29, SR-32: no retry window, no rest of the connection"""
    upstream.script([error("openai-chat", 403, "无权访问模型，额度不足"), openai_chat("fine", stream=False)])
    proxy = await omniroute_proxy(config=pool(upstream, "a", provider="agentrouter"))
    refused = await ask(proxy, to_gateway("m1"))
    assert (refused.status, refused.header("x-omniroute-restated-from")) == (403, None)
    assert (await ask(proxy, to_gateway("m2"))).status == 200
