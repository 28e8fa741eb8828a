"""The google-genai SDK, as a program uses it: sync (httpx2) and async (aiohttp), streaming and not."""

from __future__ import annotations

import asyncio

import pytest
from google import genai

MODEL = "gemini-2.5-flash"


@pytest.mark.parametrize("stream", [False, True])
async def test_generate_content_sync(scene, fault, stream):
    s = await scene("gemini", fault, stream=stream)

    def call():
        client = genai.Client(api_key="sk-client")  # kept in a variable: it closes its connections when collected
        if stream:
            return list(client.models.generate_content_stream(model=MODEL, contents="Say hello."))
        return [client.models.generate_content(model=MODEL, contents="Say hello.")]

    answers = await asyncio.to_thread(call)
    assert "".join(answer.text or "" for answer in answers) == s.text
    assert answers[-1].candidates[0].finish_reason == "STOP"
    assert answers[-1].usage_metadata.total_token_count == 19
    await s.check()


@pytest.mark.parametrize("stream", [False, True])
async def test_generate_content_async(scene, fault, stream):
    s = await scene("gemini", fault, stream=stream, tool_call=True)
    client = genai.Client(api_key="sk-client")
    try:
        if stream:
            chunks = await client.aio.models.generate_content_stream(model=MODEL, contents="Say hello.")
            answers = [answer async for answer in chunks]
        else:
            answers = [await client.aio.models.generate_content(model=MODEL, contents="Say hello.")]
    finally:
        await client.aio.aclose()
        client.close()
    parts = [part for answer in answers for part in answer.candidates[0].content.parts]
    assert "".join(part.text for part in parts if part.text and not part.thought) == s.text
    assert (parts[-1].function_call.name, parts[-1].function_call.args) == (s.tool.name, s.tool.arguments)
    await s.check()
