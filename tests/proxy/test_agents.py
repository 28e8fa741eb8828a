"""The proxy user names the agent, and its token proves it: through a real proxy (`clients.md` 16, design.md §7.1)."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from mitmproxy.connection import Client as ClientConnection
from mitmproxy.io import FlowWriter

from omniroute_addon import hookimpl
from omniroute_addon.agents import token_hash
from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.client import Client, TunnelRefused
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]
TOKEN = "planted-agent-token"
AGENTS = {"agents": [{"name": "ada", "token": f"sha256:{token_hash(TOKEN).hex()}"}]}
REQUIRED: dict[str, Any] = {**AGENTS, "settings": {"require_agent": True, "own_credential": "never"}}
OPTIONAL: dict[str, Any] = {**AGENTS, "settings": {"own_credential": "never"}}


def url(s: Stage, login: str | None) -> str:
    return s.proxy.url.replace("//", f"//{login}@") if login is not None else s.proxy.url


async def ask(s: Stage, login: str | None, *, plain: bool = False, http2: bool = False) -> Exchange:
    q = question()
    origin = f"http://{q.host}:443" if plain else q.origin
    async with Client(origin, proxy=url(s, login), ca_file=s.proxy.ca_file, http2=http2) as client:
        return await client.request(q.method, q.path, headers=q.headers, body=q.body)


def calls(proxy: RunningProxy) -> list[Any]:
    """Every `ModelCall` from now on."""
    seen: list[Any] = []

    class Listener:
        @hookimpl
        def finish(self, call: Any) -> None:
            seen.append(call)

    proxy.master.addons.get("omniroute").engine.plugins.register(Listener(), name="listener")  # type: ignore[no-untyped-call]
    return seen


class FromElsewhere:
    """Makes every client one of another machine."""

    def client_connected(self, client: ClientConnection) -> None:
        client.peername = ("192.0.2.7", 40_000)


def elsewhere(s: Stage) -> None:
    s.proxy.master.addons.add(FromElsewhere())


# ------------------------------------------------------------ a name


@pytest.mark.parametrize("http2", [False, True])
async def test_the_proxy_user_names_the_agent(http2: bool, open_stage: OpenStage) -> None:
    """Unasked and unproved: for logs, and as the session of a client that names none (`clients.md` 14)."""
    s = await open_stage("a")
    s.upstream.script(error("openai-chat", 400, "no"))
    seen = calls(s.proxy)
    await ask(s, "ada:x", http2=http2)
    await s.proxy.finished(1)
    assert (seen[0].agent, seen[0].session) == ("ada", "agent:ada")
    assert "agent=ada" in next(line for line in s.proxy.log if "attempt failed" in line)


@pytest.mark.parametrize("login", [None, "", ":", "no%20name:x"])
async def test_without_a_name_it_is_anonymous(login: str | None, open_stage: OpenStage) -> None:
    s = await open_stage("a")
    s.upstream.script(error("openai-chat", 400, "no"))
    seen = calls(s.proxy)
    assert (await ask(s, login)).status == 400
    await s.proxy.finished(1)
    assert seen[0].agent is None and seen[0].session.startswith("input:")
    assert "agent=" not in "\n".join(s.proxy.log)


async def test_over_plain_http_every_request_names_its_own_agent(open_stage: OpenStage) -> None:
    """One connection, three requests: the second names nobody, so it is nobody's."""
    s = await open_stage("a", config=OPTIONAL)
    s.upstream.script(openai_chat())
    seen = calls(s.proxy)
    q = question()
    logins = [f"ada:{TOKEN}", None, "bob:x"]
    async with Client(f"http://{q.host}:443", proxy=s.proxy.url) as client:
        for login in logins:
            more = {"proxy-authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
            assert (await client.request(q.method, q.path, headers=q.headers | more, body=q.body)).status == 200
    await s.proxy.finished(3)
    assert [call.agent for call in seen] == ["ada", None, "bob"]
    assert [r.header("proxy-authorization") for r in s.upstream.requests] == [None] * 3


# ------------------------------------------------------------ a proof


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("config", [REQUIRED, OPTIONAL], ids=["required", "optional"])
async def test_the_right_token_comes_in(config: dict[str, Any], plain: bool, open_stage: OpenStage) -> None:
    s = await open_stage("a", config=config)
    s.upstream.script(openai_chat())
    assert (await ask(s, f"ada:{TOKEN}", plain=plain)).status == 200
    assert s.upstream.keys == ["sk-a"]


@pytest.mark.parametrize("config", [REQUIRED, OPTIONAL], ids=["required", "optional"])
async def test_a_wrong_token_gets_407_before_anything_is_dialled(config: dict[str, Any], open_stage: OpenStage) -> None:
    s = await open_stage("a", config=config)
    with pytest.raises(TunnelRefused) as refused:
        await ask(s, "ada:wrong")
    assert refused.value.status == 407
    seen = await ask(s, "ada:wrong", plain=True)
    assert (seen.status, seen.header("proxy-authenticate")) == (407, 'Basic realm="omniroute"')
    assert s.upstream.requests == []
    assert sum("wrong token for agent 'ada'" in line for line in s.proxy.log) == 2
    assert "wrong" not in repr([flow.get_state() for flow in s.proxy.flows])


@pytest.mark.parametrize("login", [None, "eve:x", f"eve:{TOKEN}"])
async def test_where_agents_are_required_nobody_else_comes_in(login: str | None, open_stage: OpenStage) -> None:
    """Neither to a provider nor to any other host, whose TLS stays closed to us."""
    s = await open_stage("a", config=REQUIRED)
    for plain in (False, True):
        if plain:
            assert (await ask(s, login, plain=True)).status == 407
        else:
            with pytest.raises(TunnelRefused):
                await ask(s, login)
    with pytest.raises(TunnelRefused):
        async with Client("https://example.org", proxy=url(s, login), ca_file=s.proxy.ca_file):
            pass
    assert s.upstream.requests == []


async def test_a_407_is_no_end_the_same_client_may_name_itself_then(open_stage: OpenStage) -> None:
    """As git does: it names itself when it is asked to."""
    s = await open_stage("a", config=REQUIRED)
    s.upstream.script(openai_chat())
    q = question()
    async with Client(f"http://{q.host}:443", proxy=s.proxy.url) as client:
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 407
        login = {"proxy-authorization": f"Basic {base64.b64encode(f'ada:{TOKEN}'.encode()).decode()}"}
        assert (await client.request(q.method, q.path, headers=q.headers | login, body=q.body)).status == 200


async def test_from_another_machine_only_a_proved_agent_gets_configured_credentials(open_stage: OpenStage) -> None:
    """§7.1. An unproved name is as good as none."""
    s = await open_stage("a", config=OPTIONAL)
    elsewhere(s)
    s.upstream.script(openai_chat())
    await ask(s, f"ada:{TOKEN}")
    await ask(s, f"ada:{TOKEN}", plain=True)
    await ask(s, "eve:x")
    await ask(s, None)
    assert s.upstream.keys == ["sk-a", "sk-a", "sk-client", "sk-client"]


async def test_a_login_from_another_machine_ends_with_the_next_edit(open_stage: OpenStage) -> None:
    """An agent is taken off the list while its tunnel is open: the tunnel stays, its trust does not."""
    s = await open_stage("a", config=OPTIONAL)
    elsewhere(s)
    s.upstream.script(openai_chat())
    q = question()
    async with Client(q.origin, proxy=url(s, f"ada:{TOKEN}"), ca_file=s.proxy.ca_file) as client:
        await client.request(q.method, q.path, headers=q.headers, body=q.body)
        text = s.proxy.config_file.read_text().replace("name: ada", "name: bob")
        s.proxy.config_file.write_text(text)
        async with asyncio.timeout(10):
            while not any("were reloaded" in line for line in s.proxy.log):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert s.upstream.keys == ["sk-a", "sk-client"]


async def test_where_agents_are_required_a_tunnel_ends_with_its_agent(open_stage: OpenStage) -> None:
    s = await open_stage("a", config=REQUIRED)
    s.upstream.script(openai_chat())
    q = question()
    async with Client(q.origin, proxy=url(s, f"ada:{TOKEN}"), ca_file=s.proxy.ca_file) as client:
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 200
        core = s.proxy.master.addons.get("omniroute").engine.core  # type: ignore[no-untyped-call]
        object.__setattr__(core.config, "agents", {"bob": b"x"})
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 407


# ------------------------------------------------------------ beside mitmproxy's own


async def test_mitmproxys_own_proxyauth_works_beside_it(open_stage: OpenStage) -> None:
    """Its user is the agent's name; whom it refuses is refused."""
    s = await open_stage("a", options={"proxyauth": "carl:pw"})
    s.upstream.script(openai_chat())
    seen = calls(s.proxy)
    assert (await ask(s, "carl:pw")).status == 200
    assert (await ask(s, "carl:pw", plain=True)).status == 200
    with pytest.raises(TunnelRefused) as refused:
        await ask(s, "carl:wrong")
    assert refused.value.status == 407
    await s.proxy.finished(2)
    assert [call.agent for call in seen] == ["carl", "carl"]


async def test_who_is_let_in_by_mitmproxy_must_still_be_an_agent_where_that_is_required(open_stage: OpenStage) -> None:
    s = await open_stage("a", config=REQUIRED, options={"proxyauth": "any"})
    s.upstream.script(openai_chat())
    assert (await ask(s, f"ada:{TOKEN}")).status == 200
    assert (await ask(s, f"ada:{TOKEN}", plain=True)).status == 200
    for plain in (True, False):
        try:
            assert (await ask(s, "ada:wrong", plain=plain)).status == 407
        except TunnelRefused as refused:
            assert refused.status == 407


async def test_any_is_no_proof_for_a_peer_from_elsewhere(open_stage: OpenStage) -> None:
    s = await open_stage("a", config={"settings": {"own_credential": "never"}}, options={"proxyauth": "any"})
    elsewhere(s)
    s.upstream.script(openai_chat())
    assert (await ask(s, "carl:pw")).status == 200
    assert s.upstream.keys == ["sk-client"]


# ------------------------------------------------------------ where the token may be seen


@pytest.mark.parametrize("plain", [False, True])
async def test_the_token_is_in_no_flow_log_or_request(plain: bool, open_stage: OpenStage) -> None:
    tunnels: list[Any] = []

    class Connects:
        def http_connected(self, flow: Any) -> None:
            tunnels.append(flow)

    async with FakeUpstream(tls=False) as other:
        s = await open_stage("a", config=REQUIRED, rehost={"other.example:80": other.address})
        s.proxy.master.addons.add(Connects())
        s.upstream.script(openai_chat())
        other.script(json_reply({}))
        await ask(s, f"ada:{TOKEN}", plain=plain)
        async with Client("http://other.example", proxy=url(s, f"ada:{TOKEN}")) as client:
            assert (await client.request("GET", "/")).status == 200
        await s.proxy.finished(2)
        dump = io.BytesIO()
        for flow in [*s.proxy.flows, *tunnels]:
            FlowWriter(dump).add(flow)
        sent = repr([r.headers for r in [*s.upstream.requests, *other.requests]])
    assert len(tunnels) == (0 if plain else 1)
    coded = base64.b64encode(f"ada:{TOKEN}".encode()).decode()
    for place in (dump.getvalue().decode("latin-1"), sent, "\n".join(s.proxy.log)):
        assert TOKEN not in place and coded not in place


async def test_a_login_that_is_not_for_us_passes_to_an_unmanaged_host_as_without_us(open_stage: OpenStage) -> None:
    """A30: without `agents:` the header is none of our business there."""
    async with FakeUpstream(tls=False) as other:
        s = await open_stage("a", rehost={"other.example:80": other.address})
        other.script(json_reply({}))
        async with Client("http://other.example", proxy=url(s, "ada:x")) as client:
            assert (await client.request("GET", "/")).status == 200
        assert other.requests[0].header("proxy-authorization") is not None


# ------------------------------------------------------------ modes in which nobody can name itself


async def test_where_nobody_can_name_itself_a_demand_lets_nobody_in(open_stage: OpenStage) -> None:
    """Reverse mode knows no proxy user; the demand is not forgotten there."""
    s = await open_stage("a", config=REQUIRED, mode=["reverse:https://api.openai.com"])
    q = question()
    async with Client(f"http://127.0.0.1:{s.proxy.port}") as client:
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 407
    assert s.upstream.requests == []
