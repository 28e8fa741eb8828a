"""Real clients behind the proxy, set up as their users would: two environment variables, nothing else.

Each test runs once per fault of the first connection; whatever that is, the client must see the second one's answer.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import pytest

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import ToolCall, error, error_in_stream, good
from omniroute_addon.testing.script import Reply
from omniroute_addon.testing.stage import Stage, stage
from omniroute_addon.testing.upstream import closed_port

FAULTS = ["rate limit", "quota as 403", "error in a 200", "refused"]
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_QUICK = {"settings": {"retry_pause_ms": 1}}
_PROVIDERS: dict[DialectName, str] = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
    "gemini": "gemini",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A stage whose connection `a` has a fault, and whose connection `b` gives this answer."""

    stage: Stage
    fault: str | None
    key: str = "sk-client"
    """What the client believes to be its credential."""
    text: str = "Grüße from the second connection."
    reasoning: str = "They greet, so I greet."
    tool: ToolCall = field(default_factory=lambda: ToolCall(name="get_weather", arguments={"city": "Zürich"}))

    async def check(self) -> None:
        """Both connections were asked in turn, the client's own credential went nowhere, and the answer says so."""
        flow = await self.stage.proxy.finished(1)
        upstream = self.stage.upstream
        assert upstream.keys == (["sk-b"] if self.fault == "refused" else ["sk-a", "sk-b"])
        assert upstream.unscripted == []
        assert flow.response is not None
        assert flow.response.headers["x-omniroute-connection"] == "b"
        assert flow.response.headers["x-omniroute-attempts"] == "2"
        assert self.key not in str([request.headers for request in upstream.requests])


OpenScene = Callable[..., Awaitable[Scene]]


@pytest.fixture(params=FAULTS)
def fault(request: pytest.FixtureRequest) -> str:
    """What is wrong with the first connection."""
    return str(request.param)


@pytest.fixture
def providers() -> dict[DialectName, str]:
    """Dialect -> the provider whose connections are used."""
    return _PROVIDERS


@pytest.fixture
def go_through(monkeypatch: pytest.MonkeyPatch) -> Callable[[Stage], None]:
    """`go_through(stage)`: this process's clients go through the stage's proxy from now on."""
    return lambda s: _go_through(s, monkeypatch)


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenScene]:
    """`s = await scene("openai-chat", fault, stream=True)`: connection `a` has the fault, `b` answers."""
    async with AsyncExitStack() as stack:

        async def open_scene(dialect: DialectName, fault: str, *, stream: bool, tool_call: bool = False) -> Scene:
            refused = {"base_url": f"http://127.0.0.1:{stack.enter_context(closed_port())}"}
            first = {"id": "a", "priority": 1, **(refused if fault == "refused" else {})}
            second = {"id": "b", "priority": 2}
            opened = await stack.enter_async_context(stage(first, second, provider=_PROVIDERS[dialect], config=_QUICK))
            scene = Scene(stage=opened, fault=fault)
            if fault != "refused":
                opened.upstream.script(_broken(dialect, fault, stream=stream), key="sk-a")
            call = scene.tool if tool_call else None
            answer = good(dialect, scene.text, stream=stream, reasoning=scene.reasoning, tool_call=call)
            opened.upstream.script(answer, key="sk-b")
            _go_through(opened, monkeypatch)
            return scene

        yield open_scene


@pytest.fixture
async def held(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """`s = await held("openai", keep_alive=True)`: one connection, nothing tried in place, signs of life every second."""
    async with AsyncExitStack() as stack:

        async def open_stage(provider: str, **waiting: object) -> Stage:
            settings = {
                "own_credential": "never",
                "retries_in_place": 0,
                "cooldown_wait": {"enabled": True, "keep_alive_ms": 1000, **waiting},
            }
            opened = await stack.enter_async_context(stage("a", provider=provider, config={"settings": settings}))
            _go_through(opened, monkeypatch)
            return opened

        yield open_stage


def _broken(dialect: DialectName, fault: str, *, stream: bool) -> Reply:
    if fault == "rate limit":
        return error(dialect, 429, "Rate limit reached. Please try again in 20s.", headers={"retry-after": "20"})
    if fault == "quota as 403":
        return error(dialect, 403, _QUOTA, code="insufficient_quota")
    if stream:
        return error_in_stream(dialect, "Rate limit is exceeded. Try again in 17 seconds.")
    # The same trouble without a stream: an error object where the answer should be (A10).
    inner = error(dialect, 429, "Rate limit is exceeded. Try again in 17 seconds.")
    return replace(inner, status=200)


def _go_through(s: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", s.proxy.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(s.proxy.ca_file))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(s.proxy.ca_file))
