"""`omniroute exec` with real programs: SDK scripts that know of no proxy, and a provider that is limited (issue 5, item 8)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from omniroute_addon.bringup.found import listens
from omniroute_addon.bringup.programs import CA_VARIABLES
from omniroute_addon.testing.answers import error, good
from omniroute_addon.testing.upstream import FakeUpstream

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX")
OMNIROUTE = [sys.executable, "-c", "from omniroute_addon.cli import main; main()"]
TEXT = "Grüße from the second connection."
ASK = """
import openai, os, sys
answer = openai.OpenAI(max_retries=0).chat.completions.create(
    model="gpt-5.4", messages=[{"role": "user", "content": "Hello"}], stream=%s)
text = "".join(c.choices[0].delta.content or "" for c in answer if c.choices) if %s else answer.choices[0].message.content
print(text, os.environ["HTTPS_PROXY"], sep="\\n", flush=True)
"""
FETCH = """
fetch('https://api.openai.com/v1/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer sk-client' },
  body: JSON.stringify({ model: 'gpt-5.4', messages: [{ role: 'user', content: 'Hello' }] }),
}).then(async (answer) => {
  console.log((await answer.json()).choices[0].message.content)
  process.exitCode = 6
}, (error) => console.log(String(error.cause || error)))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """An empty home with a configuration of two connections to a fake provider."""

    upstream: FakeUpstream
    folder: Path
    environ: dict[str, str]

    async def start(self, *words: str | Path) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *OMNIROUTE,
            *("exec", "--config", self.folder / "omniroute.yaml", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=self.environ,
            cwd=self.folder,
        )

    async def run(self, *words: str | Path) -> tuple[int | None, list[str], str]:
        process = await self.start(*words)
        out, err = await asyncio.wait_for(process.communicate(), 90)
        return process.returncode, out.decode().splitlines(), err.decode()

    async def gone(self, proxy: str) -> bool:
        port = int(proxy.rpartition(":")[2])
        for _ in range(300):
            if not await asyncio.to_thread(listens, "127.0.0.1", port):
                return True
            await asyncio.sleep(0.05)
        return False


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with FakeUpstream(tls=False) as upstream:
        rows = [
            {"id": n, "provider": "openai", "key": f"env:KEY_{n}", "base_url": upstream.url, "priority": p}
            for p, n in enumerate("ab")
        ]
        (tmp_path / "omniroute.yaml").write_text(yaml.safe_dump({"connections": rows}))
        taken = {*CA_VARIABLES, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"}
        taken |= {"NODE_OPTIONS", "OPENAI_BASE_URL", "OMNIROUTE_PROXY", "XDG_STATE_HOME", "XDG_CONFIG_HOME"}
        plain = {name: value for name, value in os.environ.items() if name not in taken}
        own = {"HOME": str(tmp_path), "KEY_a": "sk-a", "KEY_b": "sk-b", "OPENAI_API_KEY": "sk-client"}
        upstream.script(error("openai-chat", 429, "Rate limit reached.", headers={"retry-after": "20"}), key="sk-a")
        yield Terminal(upstream=upstream, folder=tmp_path, environ={**plain, **own})


@pytest.mark.parametrize("stream", [False, True])
async def test_sdk_that_knows_no_proxy_gets_the_second_answer(terminal: Terminal, stream: bool) -> None:
    """The proxy is started, trusted, used and ended; the agent's own key goes nowhere."""
    terminal.upstream.script(good("openai-chat", TEXT, stream=stream), key="sk-b")
    script = terminal.folder / "agent.py"
    script.write_text(ASK % (stream, stream))
    code, out, err = await terminal.run("--", sys.executable, script)
    assert (code, out[:1]) == (0, [TEXT]), err
    assert terminal.upstream.keys == ["sk-a", "sk-b"]
    assert out[1].startswith("http://python:x@127.0.0.1:")
    assert await terminal.gone(out[1])
    [log] = (terminal.folder / ".local" / "state" / "omniroute" / "logs").iterdir()
    text = log.read_text()
    assert not [key for key in ("sk-a", "sk-b", "sk-client") if key in text]


async def test_exit_code_of_a_failing_script_is_passed_on(terminal: Terminal) -> None:
    terminal.upstream.script(good("openai-chat", TEXT, stream=False), key="sk-b")
    script = terminal.folder / "agent.py"
    script.write_text(ASK % (False, False) + "sys.exit(5)\n")
    assert (await terminal.run("-q", sys.executable, script))[0] == 5


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
async def test_signal_ends_script_and_proxy(terminal: Terminal, name: str) -> None:
    """In the middle of an answer, as a person does it."""
    terminal.upstream.script(good("openai-chat", TEXT, stream=False), key="sk-b")
    script = terminal.folder / "agent.py"
    script.write_text(ASK % (False, False) + "import time; time.sleep(60)\n")
    process = await terminal.start("-q", sys.executable, script)
    assert process.stdout
    assert (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip() == TEXT
    proxy = (await process.stdout.readline()).decode().strip()
    process.send_signal(getattr(signal, name))
    await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == -getattr(signal, name)  # which a shell shows as 128 + n
    assert await terminal.gone(proxy)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
async def test_fetch_of_any_node_goes_through_the_proxy(terminal: Terminal) -> None:
    """Before Node 24 it looks at no proxy by itself; no package is needed to teach it."""
    terminal.upstream.script(good("openai-chat", TEXT, stream=False), key="sk-b")
    script = terminal.folder / "agent.js"
    script.write_text(FETCH)
    code, out, err = await terminal.run("-q", "node", script)
    assert (code, out) == (6, [TEXT]), err
    assert terminal.upstream.keys == ["sk-a", "sk-b"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_curl_goes_through_the_proxy(terminal: Terminal) -> None:
    terminal.upstream.script(good("openai-chat", TEXT, stream=False), key="sk-b")
    body = '{"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hello"}]}'
    words = ("-sS", "-d", body, "-H", "content-type: application/json", "-H", "authorization: Bearer sk-client")
    code, out, err = await terminal.run("-q", "curl", *words, "https://api.openai.com/v1/chat/completions")
    assert code == 0, err
    assert TEXT in "".join(out)
