"""The openai SDK, as a program uses it: sync and async, streaming and not, chat and Responses."""

from __future__ import annotations

import asyncio

import pytest
from openai import AsyncOpenAI, OpenAI

MESSAGES = [{"role": "user", "content": "Say hello."}]


async def test_chat_sync(scene, fault):
    s = await scene("openai-chat", fault, stream=False)

    def call():
        with OpenAI(api_key="sk-client", max_retries=0) as client:
            return client.chat.completions.create(model="gpt-5.4", messages=MESSAGES)

    answer = await asyncio.to_thread(call)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (s.text, "stop")
    assert answer.usage.total_tokens == 19
    await s.check()


async def test_chat_stream_sync(scene, fault):
    s = await scene("openai-chat", fault, stream=True)

    def call():
        with OpenAI(api_key="sk-client", max_retries=0) as client:
            return list(client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True))

    chunks = await asyncio.to_thread(call)
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == s.text
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["stop"]
    assert chunks[-1].usage.completion_tokens == 7
    await s.check()


async def test_chat_async(scene, fault):
    s = await scene("openai-chat", fault, stream=False)
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        answer = await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES)
    assert answer.choices[0].message.content == s.text
    await s.check()


async def test_chat_stream_async(scene, fault):
    s = await scene("openai-chat", fault, stream=True)
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        stream = await client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == s.text
    await s.check()


async def test_chat_stream_with_a_tool_call(scene):
    s = await scene("openai-chat", "rate limit", stream=True, tool_call=True)
    async with (
        AsyncOpenAI(api_key="sk-client", max_retries=0) as client,
        client.chat.completions.stream(model="gpt-5.4", messages=MESSAGES) as stream,
    ):
        final = await stream.get_final_completion()
    [call] = final.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == (s.tool.name, s.tool.arguments_json)
    await s.check()


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_sync(scene, fault, stream):
    s = await scene("openai-responses", fault, stream=stream)

    def call():
        with OpenAI(api_key="sk-client", max_retries=0) as client:
            if not stream:
                return client.responses.create(model="gpt-5.4", input="Say hello.")
            with client.responses.stream(model="gpt-5.4", input="Say hello.") as events:
                return events.get_final_response()

    answer = await asyncio.to_thread(call)
    assert (answer.output_text, answer.status) == (s.text, "completed")
    assert answer.output[0].summary[0].text == s.reasoning
    await s.check()


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_async(scene, fault, stream):
    s = await scene("openai-responses", fault, stream=stream, tool_call=True)
    async with AsyncOpenAI(api_key="sk-client", max_retries=0) as client:
        if stream:
            async with client.responses.stream(model="gpt-5.4", input="Say hello.") as events:
                answer = await events.get_final_response()
        else:
            answer = await client.responses.create(model="gpt-5.4", input="Say hello.")
    assert answer.output_text == s.text
    assert answer.output[-1].arguments == s.tool.arguments_json
    await s.check()
