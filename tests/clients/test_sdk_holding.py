"""What an SDK returns when its request is held, or kept waiting by signs of life (`CW`, A25, A34)."""

from __future__ import annotations

import asyncio

import pytest
from anthropic import APIStatusError, AsyncAnthropic
from openai import APIError, AsyncOpenAI, RateLimitError

from omniroute_addon.testing.answers import error, good
from omniroute_addon.testing.script import Pause, Reply

MESSAGES = [{"role": "user", "content": "Say hello."}]
ANTHROPIC = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": MESSAGES}
TEXT = "Grüße from the same connection."


def limited(dialect, seconds="3", silent_s=0.0):
    reply = error(dialect, 429, "slow down", headers={"retry-after": seconds})
    fields = {name: getattr(reply, name) for name in Reply.__dataclass_fields__}
    return Reply(**{**fields, "before": (Pause(silent_s),)}) if silent_s else reply


@pytest.mark.parametrize("keep_alive", [False, True])
async def test_anthropic_gets_its_answer_after_the_reset(held, keep_alive):
    s = await held("anthropic", keep_alive=keep_alive)
    s.upstream.script([limited("anthropic-messages"), good("anthropic-messages", TEXT, stream=True)])
    async with (
        AsyncAnthropic(api_key="sk-client", max_retries=0) as client,
        client.messages.stream(**ANTHROPIC) as events,
    ):
        message = await events.get_final_message()
    assert (message.content[0].text, message.stop_reason) == (TEXT, "end_turn")
    assert s.upstream.keys == ["sk-a", "sk-a"]


@pytest.mark.parametrize("keep_alive", [False, True])
@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_openai_gets_its_answer_after_the_reset(held, kind, keep_alive):
    dialect = f"openai-{kind}"
    s = await held("openai", keep_alive=keep_alive)
    s.upstream.script([limited(dialect), good(dialect, TEXT, stream=True)])
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        if kind == "chat":
            stream = await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
            text = "".join([c.delta.content or "" async for chunk in stream for c in chunk.choices])
        else:
            stream = await client.responses.create(model="gpt-5.4", input="Say hello.", stream=True)
            text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
    assert text == TEXT
    assert s.upstream.keys == ["sk-a", "sk-a"]


async def test_a34_anthropic_raises_the_error_that_comes_behind_the_signs(held):
    s = await held("anthropic", keep_alive=True)
    s.upstream.script(limited("anthropic-messages", "900", silent_s=1.5))
    async with AsyncAnthropic(api_key="sk-client", max_retries=0) as client:
        with pytest.raises(APIStatusError, match="slow down"):
            async with client.messages.stream(**ANTHROPIC) as events:
                await events.get_final_message()


async def test_a34_openai_raises_the_error_that_comes_behind_the_signs(held):
    s = await held("openai", keep_alive=True)
    s.upstream.script(limited("openai-chat", "900", silent_s=1.5))
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        stream = await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
        with pytest.raises(APIError, match="slow down"):
            async for _ in stream:
                pass


async def test_a34_without_signs_the_error_is_a_status(held):
    s = await held("openai", keep_alive=False)
    s.upstream.script(limited("openai-chat", "900", silent_s=1.5))
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        with pytest.raises(RateLimitError) as raised:
            await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
    assert raised.value.response.headers["retry-after"] == "900"


async def test_many_that_wait_for_one_reset_all_get_their_answer(held):
    s = await held("openai")
    fine = good("openai-chat", TEXT, stream=True)
    s.upstream.script(lambda request: limited("openai-chat", "2") if request.number == 1 else fine)
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:

        async def one(after):
            await asyncio.sleep(after)
            stream = await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
            return "".join([c.delta.content or "" async for chunk in stream for c in chunk.choices])

        answers = await asyncio.gather(one(0), *(one(0.5) for _ in range(9)))
    assert answers == [TEXT] * 10
    times = [request.at for request in s.upstream.requests]
    assert len(times) == 11 and min(times[1:]) >= times[0] + 2
    assert max(times[1:]) - min(times[1:]) > 0.05
