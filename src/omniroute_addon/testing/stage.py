"""One fake provider, one proxy with our addon, and connections between them: the scene of most tests.

    async with stage("a", "b") as s:
        s.upstream.script(error("openai-chat", 429), key="sk-a")
        s.upstream.script(openai_chat("from b"), key="sk-b")
        seen = await s.ask(question("openai-chat"))
        assert seen.header("x-omniroute-connection") == "b"
        assert s.upstream.keys == ["sk-a", "sk-b"]

A connection `a` has the credential `sk-a`. All `PROVIDER_HOSTS` lead to the one upstream.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .ca import PROVIDER_HOSTS
from .client import Client
from .exchange import Exchange
from .proxy import RunningProxy, running_proxy
from .questions import Question
from .rehost import Address
from .upstream import FakeUpstream


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a test plays with."""

    upstream: FakeUpstream
    proxy: RunningProxy

    def client(self, question: Question, *, http2: bool = False) -> Client:
        """A client of the question's host, through the proxy: `async with s.client(q) as client`."""
        return Client(question.origin, proxy=self.proxy.url, ca_file=self.proxy.ca_file, http2=http2)

    async def ask(self, question: Question, *, http2: bool = False, within_s: float = 10.0) -> Exchange:
        """Ask on a connection of its own and wait for the end of the answer. Raises TimeoutError."""
        async with self.client(question, http2=http2) as client:
            sent = await client.send(question.method, question.path, headers=question.headers, body=question.body)
            return await sent.finished(within_s=within_s)


@asynccontextmanager
async def stage(
    *connections: str | Mapping[str, Any],
    provider: str = "openai",
    http2: bool = False,
    config: Mapping[str, Any] | None = None,
    rehost: Mapping[str, Address] | None = None,
    **proxy: Any,
) -> AsyncIterator[Stage]:
    """Open a stage.

    `connections`: ids, or mappings as in `omniroute.yaml` whose `provider` and `key` are filled in when missing
    (`key: None` leaves it out). `config` is the rest of `omniroute.yaml`; `rehost` adds names; `proxy` goes to
    `running_proxy`. `http2`: the upstream speaks it.
    """
    with TemporaryDirectory(prefix="omniroute-test-keys-") as keys:
        entries = [_entry(connection, provider, Path(keys)) for connection in connections]
        whole: dict[str, Any] = {**({"connections": entries} if entries else {}), **(config or {})}
        async with FakeUpstream(http2=http2) as upstream:
            names = {f"{host}:443": upstream.address for host in PROVIDER_HOSTS} | dict(rehost or {})
            async with running_proxy(config=whole, rehost=names, **proxy) as running:
                yield Stage(upstream=upstream, proxy=running)


def _entry(connection: str | Mapping[str, Any], provider: str, keys: Path) -> dict[str, Any]:
    given = {"id": connection} if isinstance(connection, str) else dict(connection)
    if "key" not in given:
        file = keys / f"{given['id']}.key"
        file.touch(mode=0o600)
        file.write_text(f"sk-{given['id']}\n", encoding="utf-8")
        given["key"] = f"file:{file}"
    return {"provider": provider, **{name: value for name, value in given.items() if value is not None}}
