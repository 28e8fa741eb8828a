"""curl, as people try things out: HTTP/2 and HTTP/1.1 towards the proxy."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from omniroute_addon.testing.answers import good
from omniroute_addon.testing.questions import question

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


async def curl(*arguments: str, body: bytes) -> tuple[int, bytes, bytes]:
    """Exit code, stdout, stderr."""
    process = await asyncio.create_subprocess_exec(
        *("curl", "--silent", "--show-error", "--max-time", "20", "--data-binary", "@-", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(body)
    assert process.returncode is not None
    return process.returncode, out, err


@pytest.mark.parametrize("version", ["--http2", "--http1.1"])
@pytest.mark.parametrize("stream", [False, True])
async def test_curl_prints_the_second_answer_byte_for_byte(scene, fault, stream, version):
    s = await scene("openai-chat", fault, stream=stream)
    q = question("openai-chat", stream=stream)
    headers = [word for name, value in q.headers.items() for word in ("--header", f"{name}: {value}")]
    code, out, err = await curl("--include", version, *headers, q.url, body=q.body)
    assert (code, err) == (0, b"")
    heads, _, body = out.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")  # the first head is that of CONNECT
    assert heads.startswith(b"HTTP/2 200" if version == "--http2" else b"HTTP/1.1 200")
    reply = good("openai-chat", s.text, stream=stream, reasoning=s.reasoning)
    assert body == b"".join(step for step in reply.steps if isinstance(step, bytes))
    assert b"x-omniroute-connection: b" in heads
    await s.check()
