"""What must always hold (design.md §7, issue point 22), through a real proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.connection import Client as ClientConnection

from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.ca import TestCA, shared_ca
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.proxy import RunningProxy, shared_confdir, write_config
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Reply, json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream, closed_port

StartProxy = Callable[..., Awaitable[RunningProxy]]
OpenStage = Callable[..., Awaitable[Stage]]
NEVER = {"settings": {"own_credential": "never"}}


# ------------------------------------------------------------ who may come


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ([], "127.0.0.1"),
        (["--listen-host", "127.0.0.2"], "127.0.0.2"),
        (["--mode", "regular@127.0.0.3:{port}"], "127.0.0.3"),
    ],
    ids=["nothing said", "option", "mode"],
)
async def test_it_listens_on_loopback_unless_somebody_said_otherwise(
    given: list[str], host: str, tmp_path: Path
) -> None:
    """§7.1: mitmproxy's own default is every interface, and it takes these before it loads a script."""
    with closed_port() as port:
        pass
    options = {"confdir": shared_confdir(), "listen_port": port, **write_config(tmp_path, None)}
    (tmp_path / "omniroute_addon").write_text("from omniroute_addon.addon import addons\n")
    command = [sys.executable, "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()"]
    command += ["-s", str(tmp_path / "omniroute_addon"), *(argument.format(port=port) for argument in given)]
    for name, value in options.items():
        command += ["--set", f"{name}={value}"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout
        async with asyncio.timeout(20):
            while f"listening at {host}:{port}." not in (line := (await process.stdout.readline()).decode()):
                assert line, "mitmdump ended"
        assert listeners(port) == [host]
    finally:
        process.terminate()
        await process.wait()


def listeners(port: int) -> list[str]:
    """Addresses on which somebody takes connections to this port."""
    tried = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"]
    return [address for address in tried if _answers(address, port)]


def _answers(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as sock:
        return sock.connect_ex((address, port)) == 0


class FromElsewhere:
    """Makes every client one of another machine, as far as mitmproxy and we can know."""

    def __init__(self, address: str) -> None:
        self.address = address

    def client_connected(self, client: ClientConnection) -> None:
        client.peername = (self.address, 40_000)


def elsewhere(s: Stage, address: str) -> None:
    s.proxy.master.addons.add(FromElsewhere(address))


@pytest.mark.parametrize("address", ["192.0.2.7", "::ffff:192.0.2.7", "2001:db8::7", "fe80::1%eth0"])
async def test_a_peer_from_elsewhere_gets_no_configured_credential(address: str, open_stage: OpenStage) -> None:
    """§7.1: its own credential is all it has, even where the operator wants that never used."""
    s = await open_stage("a", "b", config=NEVER)
    elsewhere(s, address)
    s.upstream.script(error("openai-chat", 401, "Incorrect API key provided."))
    seen = await s.ask(question())
    assert (seen.status, s.upstream.keys) == (401, ["sk-client"])


async def test_a_peer_from_elsewhere_without_a_credential_sends_none(open_stage: OpenStage) -> None:
    s = await open_stage("a")
    elsewhere(s, "192.0.2.7")
    s.upstream.script(error("openai-chat", 401, "No key."))
    assert (await s.ask(question(key=None))).status == 401
    assert s.upstream.keys == [None]


async def test_no_plugin_can_give_a_peer_from_elsewhere_a_configured_credential(open_stage: OpenStage) -> None:
    s = await open_stage("a", config=NEVER)
    elsewhere(s, "192.0.2.7")
    s.upstream.script(openai_chat())
    asked: list[Any] = []

    class Generous:
        def resolve(self, call: Any, targets: Any) -> None:
            asked.append(targets)

    from omniroute_addon import hookimpl

    Generous.resolve = hookimpl(Generous.resolve)  # type: ignore[method-assign]
    engine_of(s.proxy).plugins.register(Generous(), name="generous")
    await s.ask(question())
    assert (asked, s.upstream.keys) == ([], ["sk-client"])


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"])
async def test_a_peer_on_loopback_may_use_them(address: str, open_stage: OpenStage) -> None:
    s = await open_stage("a", config=NEVER)
    elsewhere(s, address)
    s.upstream.script(openai_chat())
    assert (await s.ask(question())).status == 200
    assert s.upstream.keys == ["sk-a"]


# ------------------------------------------------------------ where a credential may go


async def test_an_untrusted_certificate_is_a_network_failure(open_stage: OpenStage, tmp_path: Path) -> None:
    """§7.4: TLS is verified before the credential leaves; the next connection serves."""
    async with FakeUpstream(ca=TestCA(tmp_path)) as impostor:
        s = await open_stage(
            "a", {"id": "b", "provider": "groq"}, config={"routes": [{"connections": ["a", "b"]}], **NEVER}
        )
        _rehost(s, "api.openai.com:443", impostor)
        impostor.script(openai_chat("from the impostor"))
        s.upstream.script(openai_chat("from b"), key="sk-b")
        seen = await s.ask(question())
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
        assert impostor.requests == []
        flow = await s.proxy.finished(1)
        assert "#1 a: network" in flow.comment


async def test_a_certificate_for_another_name_is_a_network_failure(open_stage: OpenStage) -> None:
    async with FakeUpstream(names=("somebody.example.org",)) as other:
        s = await open_stage("a", config=NEVER)
        _rehost(s, "api.openai.com:443", other)
        other.script(openai_chat())
        seen = await s.ask(question())
        assert (seen.status, other.requests) == (502, [])
        assert seen.json()["error"]["code"] == "upstream_unreachable"


async def test_without_verification_configured_credentials_stay_at_home(open_stage: OpenStage) -> None:
    """§7.4: `ssl_insecure` is for looking at things, not for sending keys to whoever answers."""
    s = await open_stage("a", config=NEVER, options={"ssl_insecure": True})
    s.upstream.script(openai_chat())
    seen = await s.ask(question())
    assert (seen.status, s.upstream.requests) == (503, [])
    excluded = seen.json()["diagnostics"]["excluded"]
    assert [(e["connection"], e["reason"]) for e in excluded] == [("a", "unverified_tls")]


async def test_without_verification_the_clients_own_credential_goes_as_without_us(open_stage: OpenStage) -> None:
    s = await open_stage("a", options={"ssl_insecure": True})
    s.upstream.script(openai_chat())
    assert (await s.ask(question())).status == 200
    assert s.upstream.keys == ["sk-client"]


async def test_without_verification_an_operator_may_consent(open_stage: OpenStage) -> None:
    s = await open_stage({"id": "a", "allow_insecure": True}, config=NEVER, options={"ssl_insecure": True})
    s.upstream.script(openai_chat())
    assert (await s.ask(question())).status == 200
    assert s.upstream.keys == ["sk-a"]


async def test_switching_verification_off_at_run_time_counts_at_once(open_stage: OpenStage) -> None:
    s = await open_stage("a", config=NEVER)
    s.upstream.script(openai_chat())
    assert (await s.ask(question())).status == 200
    s.proxy.master.options.update(ssl_insecure=True)
    assert (await s.ask(question())).status == 503
    s.proxy.master.options.update(ssl_insecure=False)
    assert (await s.ask(question())).status == 200
    assert s.upstream.keys == ["sk-a", "sk-a"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_redirect_is_not_followed_and_reaches_the_client(
    status: int, stream: bool, open_stage: OpenStage
) -> None:
    """Issue point 22: wherever it points, the credential is not carried there."""
    async with FakeUpstream() as thief:
        s = await open_stage("a", config=NEVER, rehost={"thief.example.org:443": thief.address})
        thief.script(openai_chat())
        location = "https://thief.example.org/v1/chat/completions"
        s.upstream.script(Reply(status=status, headers=(("location", location),), body=b"moved"))
        seen = await s.ask(question(stream=stream))
        assert (seen.status, seen.header("location"), seen.body) == (status, location, b"moved")
        assert (thief.requests, s.upstream.keys) == ([], ["sk-a"])


async def test_every_credential_goes_to_its_own_host_only(open_stage: OpenStage) -> None:
    """§7.4, over all attempts of one call and three hosts."""
    async with FakeUpstream() as groq, FakeUpstream(tls=False) as local:
        entries: list[Any] = ["x", {"id": "y", "provider": "groq"}, {"id": "z", "base_url": local.url}]
        route = {"routes": [{"connections": ["x", "y", "z", "client"]}]}
        s = await open_stage(*entries, config=route, rehost={"api.groq.com:443": groq.address})
        for upstream in (s.upstream, groq, local):
            upstream.script(error("openai-chat", 429, "slow down"))
        await s.ask(question())
        for upstream, own in ((s.upstream, ["sk-x", "sk-client"]), (groq, ["sk-y"]), (local, ["sk-z"])):
            assert upstream.keys == own
            sent = repr([(r.headers, r.path, r.body) for r in upstream.requests])
            assert [k for k in ("sk-x", "sk-y", "sk-z", "sk-client") if k in sent] == own


async def test_a_host_header_cannot_redirect_a_credential(open_stage: OpenStage) -> None:
    """The name in `Host` picks the provider; the address of a configured credential is the pack's, never the client's."""
    async with FakeUpstream(tls=False) as thief:
        s = await open_stage("a", rehost={"thief.example.org": thief.address})
        thief.script(openai_chat())
        s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
        s.upstream.script(openai_chat(), key="sk-client")
        q = question()
        async with Client("http://thief.example.org:443", proxy=s.proxy.url) as client:
            headers = {**q.headers, "host": "api.openai.com"}
            await client.request(q.method, q.path, headers=headers, body=q.body)
        assert "sk-a" not in repr([r.headers for r in thief.requests])


# ------------------------------------------------------------ what is decrypted


@pytest.mark.parametrize("host", ["example.org", "api.openai.com.example.org", "notapi.openai.com", "openai.com"])
async def test_hosts_of_no_pack_are_never_decrypted(host: str, open_stage: OpenStage) -> None:
    """§7.3: neither an unknown name nor one that looks like a provider's."""
    async with FakeUpstream(names=(host,)) as there:
        s = await open_stage("a", rehost={f"{host}:443": there.address})
        there.script(json_reply({}))
        async with Client(f"https://{host}", proxy=s.proxy.url, ca_file=shared_ca().pem_file) as client:
            assert (await client.request("GET", "/")).status == 200
        with pytest.raises(ssl.SSLError):
            async with Client(f"https://{host}", proxy=s.proxy.url, ca_file=s.proxy.ca_file):
                pass


def engine_of(proxy: RunningProxy) -> Any:
    return proxy.master.addons.get("omniroute").engine  # type: ignore[no-untyped-call]


def _rehost(s: Stage, name: str, upstream: FakeUpstream) -> None:
    s.proxy.master.addons.get("rehost").names[name] = upstream.address  # type: ignore[no-untyped-call]
