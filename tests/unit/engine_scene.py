"""One call and one engine without a network: what the tests of the engine's decisions stand on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from omniroute_addon import hookimpl
from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.engine import Engine
from omniroute_addon.exchange import Exchange, Pause, RawAnswer, Reply, Send, Step
from omniroute_addon.model import Connection, Endpoint, Provider, RetryAfter, Verdict
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import make_answer, make_connection, make_provider, make_verdict
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.wire import Incoming

START = 1000.0
PATH = "/v1/chat/completions"
BODY = b'{"model": "gpt-5.4", "messages": [{"role": "user", "content": "hi"}], "tools": [{}], "prompt_cache_key": "s1"}'


@dataclass
class FakePacks:
    """Each provider's hosts, every path of its first endpoint."""

    providers: Mapping[str, Provider]

    def for_host(self, host: str, port: int) -> Provider | None:
        return next((p for p in self.providers.values() if host in p.hosts), None)

    def match_call(self, host: str, port: int, path: str) -> tuple[Provider, Endpoint] | None:
        provider = self.for_host(host, port)
        return (provider, provider.endpoints[0]) if provider and path.partition("?")[0] == PATH else None


def wait_for(seconds: float) -> RetryAfter:
    return RetryAfter(seconds=seconds, source="header:retry-after")


def headers(**fields: str) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.replace("_", "-").encode(), value.encode()) for name, value in fields.items())


def connections(*names: str, **fields: Any) -> tuple[Connection, ...]:
    """Connections of one provider, all at its own address."""
    return tuple(make_connection(name, **fields) for name in names)


def elsewhere(name: str, **fields: Any) -> Connection:
    """A connection of the same provider at an address of its own."""
    return make_connection(name, base_url=f"https://{name}.example", **fields)


@dataclass
class Scene:
    """`verdicts` are what `classify` says, in turn; the last one holds on. `heard` is what plugins were told."""

    connections: tuple[Connection, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    providers: tuple[Provider, ...] = (make_provider(),)
    incoming: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = ManualClock(START)
        self.plugins = PluginHost()
        self.heard: list[tuple[Any, ...]] = []
        config = Config(connections=self.connections, settings=Settings(**{"own_credential": "never", **self.settings}))
        packs: Any = FakePacks({p.id: p for p in self.providers})
        rules: Any = None
        self.core = Core(config=config, packs=packs, rules=rules, clock=self.clock.clock)
        self.engine = Engine(self.core, self.plugins)
        if self.verdicts:
            self.plug(classify=lambda: self.verdicts.pop(0) if len(self.verdicts) > 1 else self.verdicts[0])
        self.plug(
            failed=lambda call, story, now: self.heard.append(("failed", story.verdict.kind, now)),
            succeeded=lambda call, attempt, now: self.heard.append(("succeeded", attempt.number, now)),
            finish=lambda call, stories, status, now: self.heard.append(("finish", len(stories), status, now)),
        )

    def plug(self, **hooks: Any) -> None:
        """One more plugin, asked before the ones that are there."""
        self.plugins.register(
            SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()}),
            name=f"plugin-{len(self.plugins.plugins())}",
        )

    def request(self, **fields: Any) -> Incoming:
        defaults = {
            "method": "POST",
            "scheme": "https",
            "host": "api.openai.com",
            "port": 443,
            "path": PATH,
            "headers": headers(authorization="Bearer sk-client", content_type="application/json"),
            "body": BODY,
        }
        return Incoming(**{**defaults, **self.incoming, **fields})

    def call(
        self, *, trusted: bool = True, meant: str = "api.openai.com", peer: str | None = "127.0.0.1", **fields: Any
    ) -> Exchange:
        """The exchange of one request; `meant` is the host's name, `fields` are those of `Incoming`."""
        exchange = self.engine.identify(self.request(**fields), host=meant, peer=peer, trusted=trusted)
        assert exchange is not None
        return exchange

    def next(self, ex: Exchange) -> Step:
        """The next step that is no pause; pauses pass on the clock."""
        step = self.engine.advance(ex)
        while isinstance(step, Pause):
            self.clock.advance(step.seconds)
            step = self.engine.advance(ex)
        return step

    def play(self, ex: Exchange, answer: Any = None, raw: RawAnswer | None = None, most: int = 50) -> list[str]:
        """Let every attempt fail with the answer; the ids of the connections asked, then the status of the reply."""
        asked: list[str] = []
        while len(asked) < most:
            step = self.next(ex)
            if isinstance(step, Reply):
                return [*asked, str(step.status)]
            assert isinstance(step, Send)
            asked.append(step.attempt.target.connection.id)
            self.engine.failed(ex, answer or make_answer(429), raw)
        raise AssertionError(f"no end after {most} attempts")

    def send(self, ex: Exchange) -> Send:
        step = self.next(ex)
        assert isinstance(step, Send), step
        return step

    def reply(self, ex: Exchange) -> Reply:
        step = self.next(ex)
        assert isinstance(step, Reply), step
        return step


def overloaded(**fields: Any) -> Verdict:
    """An overload that is worth a try in place (`A07`)."""
    return make_verdict("overloaded", **{**_PROVIDERS, "status": 529, **fields})


def server_fault(kind: str = "server_error", **fields: Any) -> Verdict:
    """A 500 of the provider, worth a try in place too."""
    return make_verdict(kind, **{**_PROVIDERS, "status": 500, **fields})


_PROVIDERS: dict[str, Any] = {"scope": "provider", "retry_same": True, "breaker": True}


def bad_request(**fields: Any) -> Verdict:
    """The request's own fault (`A21`)."""
    return make_verdict("invalid_request", **{"scope": "request", "retry_other": False, "status": 400, **fields})


def raw(status: int = 429, body: bytes = b'{"error": {}}', fields: Iterable[tuple[bytes, bytes]] = ()) -> RawAnswer:
    return RawAnswer(status=status, headers=tuple(fields), body=body)
