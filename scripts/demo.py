"""One request, three broken providers, one clean answer: the real proxy and a real SDK against fakes on loopback.

Ends with exit code 0 only if each attempt failed for the reason that is told here, and the answer arrived whole.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from openai import AsyncOpenAI

from omniroute_addon.model import Story
from omniroute_addon.testing.proxy import RunningProxy, running_proxy
from omniroute_addon.testing.script import Pause, Reply, json_reply
from omniroute_addon.testing.upstream import FakeUpstream, closed_port

HERE = Path(__file__).resolve().parent
MODEL = "gpt-5.2"
WIDTH = 88
QUESTION = "Why did my agent not notice?"
WORDS = (
    "Because the proxy kept your request, tried the next connection each time one broke, "
    "and showed you only the answer that was good."
)

CONFIG = {
    "connections": [
        {"id": "free-gateway", "provider": "agentrouter", "key": "env:DEMO_KEY_1"},
        {"id": "team-openrouter", "provider": "openrouter", "key": "env:DEMO_KEY_2"},
        {"id": "old-deepseek", "provider": "deepseek", "key": "env:DEMO_KEY_3"},
        {"id": "paid-openai", "provider": "openai", "key": "env:DEMO_KEY_4"},
    ],
    "routes": [
        {
            "provider": "openai",
            "model": "*",
            "connections": ["free-gateway", "team-openrouter", "old-deepseek", "paid-openai"],
        }
    ],
    # An overload or a refused connection would first be tried again in place; here every attempt is another connection.
    "settings": {"retries_in_place": 0},
}

EXPECTED = [
    ("free-gateway", "quota_exhausted", 429, "403, a lie: the quota is used up, which is a 429"),
    ("team-openrouter", "overloaded", 503, "200, then an error event inside the stream"),
    ("old-deepseek", "network", 502, "connection refused"),
]
"""Connection, kind and status of the verdict, and what the fake did, in the order in which they must fail."""


# ---------------------------------------------------------------- the fakes


def broken(host: str) -> Reply:
    """What the first fake answers, by the name that it is asked under."""
    if host == "agentrouter.org":
        return json_reply({"error": {"message": "用户额度不足"}}, status=403)
    error = {"error": {"code": 503, "message": "Provider returned error: overloaded", "metadata": {}}}
    return Reply(
        headers=(("content-type", "text/event-stream"),),
        chunks=(b": OPENROUTER PROCESSING\n\n", Pause(0.05), _event(error)),
    )


def good() -> Reply:
    """A streamed answer, a word at a time."""
    steps: list[bytes | Pause] = []
    for word in WORDS.split(" "):
        steps += [_chunk({"content": f"{word} "}), Pause(0.06)]
    steps += [_chunk({}, finish="stop"), b"data: [DONE]\n\n"]
    return Reply(headers=(("content-type", "text/event-stream"),), chunks=tuple(steps))


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    )


def _event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


# ---------------------------------------------------------------- what a person sees


@dataclass(slots=True)
class Screen:
    """Plain lines; colour on a terminal only, and only characters that the output can show."""

    started: float = field(default_factory=time.monotonic)
    column: int = 0
    colour: bool = field(default_factory=lambda: sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    ascii: bool = field(default_factory=lambda: not _can_show("─✗✓→"))

    def paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    def line(self, text: str = "") -> None:
        print(self.plain(text), flush=True)

    def plain(self, text: str) -> str:
        if not self.ascii:
            return text
        for fancy, simple in (("─", "-"), ("✗", "x"), ("✓", "+"), ("→", "->"), ("│", "|")):
            text = text.replace(fancy, simple)
        return text.encode("ascii", "backslashreplace").decode()

    def clock(self) -> str:
        return f"{(time.monotonic() - self.started) * 1000:5.0f} ms"

    def head(self, proxy: RunningProxy) -> None:
        self.line(
            self.paint("omniroute demo", "1") + ": no keys, no internet; real proxy, real openai SDK, fake providers"
        )
        self.line()
        self.line(f"  HTTPS_PROXY={proxy.url}")
        self.line(f"  client asks api.openai.com for {MODEL}, streamed: {QUESTION!r}")
        self.line()
        self.started = time.monotonic()

    def failed(self, story: Story, what: str) -> None:
        attempt, verdict = story.attempt, story.verdict
        took = (story.ended_at - attempt.started_at) * 1000
        self.line(
            f"{self.clock()}  {attempt.number}  {attempt.target.connection.id:<16} {self.paint('✗', '31')} {what}"
        )
        told = f"{verdict.kind}, scope {verdict.scope}, {took:.0f} ms"
        if verdict.restatement:
            told += f", status {verdict.restatement.from_status} → {verdict.status} by {verdict.restatement.rule.id}"
        self.line(self.paint(f"{'':13}│  {'':<16}   {told}", "2"))
        self.line(self.paint(f"{'':13}│  {'':<16}   rule {verdict.rule}", "2"))

    def served(self, attempts: str, connection: str) -> None:
        self.line(f"{self.clock()}  {attempts}  {connection:<16} {self.paint('✓', '32')} 200, and the stream begins")
        self.line()

    def word(self, text: str) -> None:
        if self.column + len(text) > WIDTH:
            print("\n  ", end="")
            self.column = 0
        self.column += len(text)
        print(self.plain(self.paint(text, "36")), end="", flush=True)


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


# ---------------------------------------------------------------- the story


async def ask(screen: Screen, proxy: RunningProxy) -> str:
    """What any program does: it knows of no proxy, only its environment does. Returns the answer."""
    os.environ |= {"HTTPS_PROXY": proxy.url, "SSL_CERT_FILE": str(proxy.ca_file), "OPENAI_API_KEY": "client-key"}
    for name in ("NO_PROXY", "no_proxy", "https_proxy", "ALL_PROXY", "all_proxy", "OPENAI_BASE_URL"):
        os.environ.pop(name, None)
    async with AsyncOpenAI(max_retries=0, timeout=20) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model=MODEL, stream=True, messages=[{"role": "user", "content": QUESTION}]
        )
        screen.served(raw.headers["x-omniroute-attempts"], raw.headers["x-omniroute-connection"])
        answer = ""
        print("  ", end="")
        async for chunk in raw.parse():
            for choice in chunk.choices:
                screen.word(choice.delta.content or "")
                answer += choice.delta.content or ""
        screen.line()
        screen.line()
        return answer.strip()


def narrator() -> ModuleType:
    """The plugin, as the proxy has loaded it."""
    return sys.modules["omniroute_addon.plugins.narrator"]


async def main() -> int:
    """Play it, and compare what happened with what was promised."""
    screen = Screen()
    os.environ |= {f"DEMO_KEY_{n}": f"demo-key-{n}" for n in range(1, 5)}
    async with AsyncExitStack() as stack:
        names = ("agentrouter.org", "openrouter.ai", "api.openai.com")
        first = await stack.enter_async_context(FakeUpstream(names=names))
        second = await stack.enter_async_context(FakeUpstream(names=names))
        first.script(lambda request: broken(request.authority))
        second.script(good())
        proxy = await stack.enter_async_context(
            running_proxy(
                config=CONFIG,
                options={"omniroute_plugins": str(HERE / "demo_plugins")},
                rehost={
                    "agentrouter.org:443": first.address,
                    "openrouter.ai:443": first.address,
                    "api.deepseek.com:443": ("127.0.0.1", stack.enter_context(closed_port())),
                    "api.openai.com:443": second.address,
                },
            )
        )
        told = narrator().plugin
        told.on_failed = lambda story: screen.failed(story, _what(len(told.stories)))
        screen.head(proxy)
        answer = await ask(screen, proxy)
        flow = await proxy.finished(1)
    screen.line(f"  The client saw one answer, status {flow.response.status_code}. mitmproxy's comment on it:")
    screen.line("  " + screen.paint(flow.comment.replace("\n", "\n  "), "2"))
    failures = [(s.attempt.target.connection.id, s.verdict.kind, s.verdict.status) for s in told.stories]
    wanted = [row[:3] for row in EXPECTED]
    if failures != wanted or answer != WORDS:
        screen.line(f"\n  This is not what should have happened: {failures} instead of {wanted}")
        return 1
    return 0


def _what(number: int) -> str:
    return EXPECTED[number - 1][3] if number <= len(EXPECTED) else "unexpected"


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
