"""The anthropic SDK, as a program uses it: sync and async, streaming and not."""

from __future__ import annotations

import asyncio

import pytest
from anthropic import Anthropic, AsyncAnthropic

ASK = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": [{"role": "user", "content": "Say hello."}]}


def texts(message):
    """Text and thinking of a message's blocks."""
    return (
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
    )


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_sync(scene, fault, stream):
    s = await scene("anthropic-messages", fault, stream=stream)

    def call():
        with Anthropic(api_key="sk-client", max_retries=0) as client:
            if not stream:
                return client.messages.create(**ASK)
            with client.messages.stream(**ASK) as events:
                return events.get_final_message()

    message = await asyncio.to_thread(call)
    assert texts(message) == (s.text, s.reasoning)
    assert (message.stop_reason, message.usage.output_tokens) == ("end_turn", 7)
    await s.check()


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_async(scene, fault, stream):
    s = await scene("anthropic-messages", fault, stream=stream, tool_call=True)
    async with AsyncAnthropic(api_key="sk-client", max_retries=0) as client:
        if stream:
            async with client.messages.stream(**ASK) as events:
                message = await events.get_final_message()
        else:
            message = await client.messages.create(**ASK)
    assert texts(message) == (s.text, s.reasoning)
    assert (message.content[-1].name, message.content[-1].input) == (s.tool.name, s.tool.arguments)
    assert message.stop_reason == "tool_use"
    await s.check()


async def test_the_words_of_a_stream_arrive_one_by_one(scene):
    s = await scene("anthropic-messages", "error in a 200", stream=True)
    async with AsyncAnthropic(api_key="sk-client", max_retries=0) as client, client.messages.stream(**ASK) as events:
        words = [word async for word in events.text_stream]
    assert len(words) == len(s.text.split())
    assert "".join(words) == s.text
    await s.check()
