"""The stage itself: one connection fails, the next answers, over every pair of HTTP versions."""

from __future__ import annotations

from omniroute_addon.testing.answers import error, good, openai_chat
from omniroute_addon.testing.client import fetch
from omniroute_addon.testing.process import proxy_process
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Reply
from omniroute_addon.testing.upstream import FakeUpstream


def bytes_of(reply: Reply) -> bytes:
    return b"".join(step for step in reply.steps if isinstance(step, bytes))


async def test_the_next_connection_answers_and_the_flow_tells_the_story(open_stage, http_versions):
    client_h2, upstream_h2 = http_versions
    s = await open_stage("a", {"id": "b", "priority": 5}, http2=upstream_h2)
    s.upstream.script([error("openai-chat", 429)], key="sk-a")
    s.upstream.script([openai_chat("from b")], key="sk-b")
    seen = await s.ask(question("openai-chat"), http2=client_h2)
    assert (seen.status, seen.end, len(seen.heads), seen.body) == (200, "complete", 1, bytes_of(openai_chat("from b")))
    assert (seen.header("x-omniroute-connection"), seen.header("x-omniroute-attempts")) == ("b", "2")
    assert s.upstream.keys == ["sk-a", "sk-b"]
    flow = await s.proxy.finished(1)
    assert "sk-" not in str(flow.get_state()).replace("sk-client", "")
    assert s.proxy.errors == []


async def test_without_configuration_the_clients_own_credential_is_the_only_connection(open_stage):
    s = await open_stage()
    s.upstream.script([good("anthropic-messages", "mine")], key="sk-client")
    seen = await s.ask(question("anthropic-messages"))
    assert (seen.status, seen.body) == (200, bytes_of(good("anthropic-messages", "mine")))
    assert s.upstream.keys == ["sk-client"]


async def test_mitmdump_with_the_addon_as_a_process():
    async with FakeUpstream() as upstream:
        upstream.script([error("openai-chat", 429)], key="sk-a")
        upstream.script([openai_chat("from b")], key="sk-b")
        connections = [{"id": name, "provider": "openai", "key": f"env:KEY_{name}"} for name in "ab"]
        async with proxy_process(
            config={"connections": connections},
            rehost={"api.openai.com:443": upstream.address},
            env={"KEY_a": "sk-a", "KEY_b": "sk-b"},
        ) as proxy:
            q = question("openai-chat")
            seen = await fetch(
                q.url, method="POST", headers=q.headers, body=q.body, proxy=proxy.url, ca_file=proxy.ca_file
            )
            assert (seen.status, seen.body) == (200, bytes_of(openai_chat("from b")))
            await proxy.logged("connection=a")
        assert not any("sk-a" in line or "sk-b" in line for line in proxy.log)
