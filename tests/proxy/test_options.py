"""The addon's mitmproxy options at start and at run time (issue points 5 and 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mitmproxy.proxy.layers.http as http_layers
import pytest
from mitmproxy import exceptions

from omniroute_addon.addon import OPTIONS
from omniroute_addon.stream import AttemptStream
from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.proxy import ProxyFailed, RunningProxy, running_proxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Await, Reply, json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]
StartProxy = Callable[..., Awaitable[RunningProxy]]
NEVER = {"settings": {"own_credential": "never"}}
SIDE_HOST = "files.example.org"


async def test_every_option_has_a_help_text_and_is_known_to_mitmproxy(omniroute_proxy: StartProxy) -> None:
    proxy = await omniroute_proxy()
    for name, (_, _, text, _) in OPTIONS.items():
        assert name in proxy.master.options
        assert text.endswith(".")
        assert len(text) > 30


async def test_switched_off_it_behaves_as_bare(open_stage: OpenStage) -> None:
    s = await open_stage("a", options={"omniroute_enabled": False})
    assert http_layers.HttpStream is not AttemptStream
    failed = error("openai-chat", 429, "slow down", headers={"retry-after": "60"})
    s.upstream.script(failed)
    seen = await s.ask(question())
    assert (seen.status, seen.body, s.upstream.keys) == (429, failed.body, ["sk-client"])
    assert seen.header("x-omniroute-attempts") is None
    flow = await s.proxy.finished(1)
    assert flow.request.headers["authorization"] == "Bearer sk-client"


async def test_switched_off_it_opens_every_tls_connection_as_mitmproxy_does(omniroute_proxy: StartProxy) -> None:
    async with FakeUpstream(names=(SIDE_HOST,)) as there:
        proxy = await omniroute_proxy(rehost={SIDE_HOST: there.address}, options={"omniroute_enabled": False})
        there.script(json_reply({}))
        async with Client(f"https://{SIDE_HOST}", proxy=proxy.url, ca_file=proxy.ca_file) as client:
            assert (await client.request("GET", "/")).status == 200


async def test_it_can_be_switched_at_run_time(open_stage: OpenStage) -> None:
    """Requests under way end as they began; the next ones are served as the option says."""
    s = await open_stage("a", config=NEVER)
    s.upstream.script(openai_chat())
    for enabled, key in ((True, "sk-a"), (False, "sk-client"), (True, "sk-a")):
        s.proxy.master.options.update(omniroute_enabled=enabled)
        assert (await s.ask(question())).status == 200
        assert s.upstream.keys[-1] == key
    assert http_layers.HttpStream is AttemptStream


async def test_a_request_under_way_survives_the_switch(open_stage: OpenStage) -> None:
    s, go = await open_stage("a", "b", config=NEVER), asyncio.Event()
    failed = error("openai-chat", 429, "slow down")
    s.upstream.script(Reply(status=429, headers=failed.headers, before=(Await(go),), body=failed.body), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    q = question()
    async with s.client(q) as client:
        sent = await client.send(q.method, q.path, headers=q.headers, body=q.body)
        await s.upstream.received(1)
        s.proxy.master.options.update(omniroute_enabled=False)
        go.set()
        seen = await sent.finished()
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")


async def test_after_the_end_nothing_of_us_is_left_in_mitmproxy() -> None:
    before = http_layers.HttpStream
    async with running_proxy():
        assert http_layers.HttpStream is AttemptStream
    assert http_layers.HttpStream is before


@pytest.mark.parametrize("intercept", ["providers", "all"])
async def test_intercept_says_which_tls_is_opened(intercept: str, omniroute_proxy: StartProxy) -> None:
    async with FakeUpstream(names=(SIDE_HOST,)) as there:
        proxy = await omniroute_proxy(rehost={SIDE_HOST: there.address}, options={"omniroute_intercept": intercept})
        there.script(json_reply({"a": 1}))
        ca_file: Path = proxy.ca_file if intercept == "all" else there.ca_file
        async with Client(f"https://{SIDE_HOST}", proxy=proxy.url, ca_file=ca_file) as client:
            seen = await client.request("GET", "/", headers={"authorization": "Bearer sk-client"})
        assert (seen.json(), there.keys) == ({"a": 1}, ["sk-client"])


async def test_intercept_can_be_changed_at_run_time(omniroute_proxy: StartProxy) -> None:
    async with FakeUpstream(names=(SIDE_HOST,)) as there:
        proxy = await omniroute_proxy(rehost={SIDE_HOST: there.address})
        there.script(json_reply({}))
        for intercept, ca_file in (("providers", there.ca_file), ("all", proxy.ca_file)):
            proxy.master.options.update(omniroute_intercept=intercept)
            async with Client(f"https://{SIDE_HOST}", proxy=proxy.url, ca_file=ca_file) as client:
                assert (await client.request("GET", "/")).status == 200


async def test_an_unknown_intercept_is_refused() -> None:
    with pytest.raises(ProxyFailed, match="omniroute_intercept: unknown value 'provider'"):
        async with running_proxy(options={"omniroute_intercept": "provider"}):
            pass


async def test_an_unknown_intercept_at_run_time_changes_nothing(omniroute_proxy: StartProxy) -> None:
    proxy = await omniroute_proxy(options={"omniroute_intercept": "all"})
    with pytest.raises(exceptions.OptionsError, match="unknown value 'none'"):
        proxy.master.options.update(omniroute_intercept="none")
    assert proxy.master.options.omniroute_intercept == "all"


async def test_a_configuration_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ProxyFailed, match="the file does not exist"):
        async with running_proxy(options={"omniroute_config": str(tmp_path / "nowhere.yaml")}):
            pass


async def test_another_configuration_can_be_named_at_run_time(open_stage: OpenStage, tmp_path: Path) -> None:
    s = await open_stage("a", "b", config=NEVER)
    s.upstream.script(openai_chat())
    other = tmp_path / "other.yaml"
    text = s.proxy.config_file.read_text()
    other.write_text(text.replace("id: a", "id: was-a"))
    s.proxy.master.options.update(omniroute_config=str(other))
    assert (await s.ask(question())).header("x-omniroute-connection") == "was-a"


async def test_dialling_waits_until_a_target_is_known(open_stage: OpenStage) -> None:
    """The original host is never dialled for a call that other hosts serve (`connection_strategy` is lazy)."""
    async with FakeUpstream(tls=False) as local:
        s = await open_stage({"id": "a", "base_url": local.url}, config=NEVER)
        local.script(openai_chat())
        assert (await s.ask(question())).status == 200
        assert s.upstream.connections == 0


async def test_mitmproxys_own_features_work_beside_us(open_stage: OpenStage) -> None:
    """Point 5: block lists, header changes and a script that answers by itself come before us, and are respected."""
    options: dict[str, Any] = {
        "block_list": [":~u /v1/responses:444"],
        "modify_headers": ["/~q/x-from-mitmproxy/yes"],
        "anticomp": True,
    }
    s = await open_stage("a", config=NEVER, options=options)
    s.upstream.script(openai_chat())
    assert (await s.ask(question())).status == 200
    assert s.upstream.requests[0].header("x-from-mitmproxy") == "yes"
    q = question("openai-responses")
    async with s.client(q) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert seen.status != 200
    assert len(s.upstream.requests) == 1


async def test_a_script_may_change_the_question_before_us_and_the_answer_behind_us(open_stage: OpenStage) -> None:
    class Script:
        def request(self, flow: Any) -> None:
            flow.request.text = flow.request.text.replace("Say hello.", "Say goodbye.")

        def responseheaders(self, flow: Any) -> None:
            flow.response.headers["x-script"] = "was here"

    s = await open_stage("a", "b", config=NEVER)
    s.proxy.master.addons.add(Script())
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    seen = await s.ask(question())
    assert (seen.status, seen.header("x-script")) == (200, "was here")
    assert [b"Say goodbye." in r.body for r in s.upstream.requests] == [True, True]
    assert all(r.header("content-length") == str(len(r.body)) for r in s.upstream.requests)
