"""Edits of configuration and packs reach the running proxy within two seconds; a bad one changes nothing (point 15)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from omniroute_addon import addon
from omniroute_addon.testing.answers import openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]
NEVER = {"settings": {"own_credential": "never"}}
PACK = """\
id: nearby
hosts: [{host}]
category: api_key
endpoints:
  openai-chat: https://{host}/v1/chat/completions
auth: {{header: x-nearby-key}}
"""


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for edits all the time; how often it really looks is a test of its own."""
    monkeypatch.setattr(addon, "RELOAD_EVERY_S", 0.01)


@asynccontextmanager
async def logged(proxy: RunningProxy, text: str) -> AsyncIterator[None]:
    """Wait behind the block until the log says it once more."""
    before = sum(text in line for line in proxy.log)
    yield
    async with asyncio.timeout(5):
        while sum(text in line for line in proxy.log) == before:  # noqa: ASYNC110 (a log has no event)
            await asyncio.sleep(0.005)


def config_of(s: Stage) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(s.proxy.config_file.read_text())
    return found


def write(path: Path, text: str) -> None:
    """As editors do: a new file takes the place of the old one."""
    new = path.with_name(path.name + "~")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


async def used(s: Stage) -> str | None:
    return (await s.ask(question())).header("x-omniroute-connection")


def test_it_looks_often_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert addon.RELOAD_EVERY_S <= 1.0


async def test_an_edited_configuration_is_used_by_the_next_request(open_stage: OpenStage) -> None:
    s = await open_stage("a", "b", config=NEVER)
    s.upstream.script(openai_chat())
    assert await used(s) == "a"
    edited = config_of(s)
    edited["connections"].reverse()
    async with logged(s.proxy, "were reloaded"):
        write(s.proxy.config_file, yaml.safe_dump(edited))
    assert await used(s) == "b"


async def test_a_request_under_way_is_not_disturbed(open_stage: OpenStage) -> None:
    """It keeps the targets it began with, and its connection to the client."""
    s = await open_stage("a", "b", config=NEVER)
    s.upstream.script(json_reply({"error": {"message": "slow down"}}, status=429), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    q = question()
    async with s.client(q) as client:
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 200
        edited = config_of(s)
        edited["connections"] = edited["connections"][1:]
        async with logged(s.proxy, "were reloaded"):
            write(s.proxy.config_file, yaml.safe_dump(edited))
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    assert (seen.status, seen.header("x-omniroute-attempts")) == (200, "1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("connections: [{id: a", "not valid YAML"),
        ("connections: [{id: a, provider: opnai, key: 'env:X'}]", "Did you mean 'openai'?"),
        ("settings: {deadline_ms: -1}", "deadline_ms"),
        ("conections: []", "conections"),
    ],
)
async def test_a_bad_configuration_leaves_the_last_good_one_in_force(
    text: str, said: str, open_stage: OpenStage
) -> None:
    s = await open_stage("a", config=NEVER)
    s.upstream.script(openai_chat())
    async with logged(s.proxy, "the configuration of before the edit stays in force"):
        write(s.proxy.config_file, text + "\n")
    assert any(said in line and f"{s.proxy.config_file}:" in line for line in s.proxy.log)
    assert await used(s) == "a"


async def test_an_error_is_told_once_and_a_mended_file_is_used(open_stage: OpenStage) -> None:
    s = await open_stage("a", "b", config=NEVER)
    s.upstream.script(openai_chat())
    good = config_of(s)
    async with logged(s.proxy, "stays in force"):
        write(s.proxy.config_file, "connections: [")
    await asyncio.sleep(0.1)
    assert sum("not valid YAML" in line for line in s.proxy.log) == 1
    good["connections"].reverse()
    async with logged(s.proxy, "were reloaded"):
        write(s.proxy.config_file, yaml.safe_dump(good))
    assert await used(s) == "b"


async def test_a_key_file_that_changes_is_read_again(open_stage: OpenStage, tmp_path: Path) -> None:
    key = tmp_path / "a.key"
    key.touch(mode=0o600)
    key.write_text("sk-old\n")
    s = await open_stage({"id": "a", "key": f"file:{key}"}, config=NEVER)
    s.upstream.script(openai_chat())
    await used(s)
    async with logged(s.proxy, "were reloaded"):
        key.write_text("sk-newer\n")
    await used(s)
    assert s.upstream.keys == ["sk-old", "sk-newer"]


async def test_a_pack_that_appears_makes_a_host_ours_and_one_that_goes_lets_it_go(open_stage: OpenStage) -> None:
    host = "llm.nearby.example"
    async with FakeUpstream(names=(host,)) as there:
        s = await open_stage(rehost={f"{host}:443": there.address})
        there.script(openai_chat())
        pack = s.proxy.folder / "rules" / "nearby.yaml"
        q = question()

        async def ask(ca_file: Path) -> str | None:
            async with Client(f"https://{host}", proxy=s.proxy.url, ca_file=ca_file) as client:
                seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
                return seen.header("x-omniroute-attempts")

        assert await ask(there.ca_file) is None  # not decrypted
        async with logged(s.proxy, "were reloaded"):
            write(pack, PACK.format(host=host))
        assert await ask(s.proxy.ca_file) == "1"
        async with logged(s.proxy, "were reloaded"):
            pack.unlink()
        assert await ask(there.ca_file) is None


async def test_a_bad_pack_leaves_its_last_good_version_in_force(open_stage: OpenStage) -> None:
    host = "llm.nearby.example"
    async with FakeUpstream(names=(host,)) as there:
        s = await open_stage(rehost={f"{host}:443": there.address})
        there.script(openai_chat())
        pack, q = s.proxy.folder / "rules" / "nearby.yaml", question()
        async with logged(s.proxy, "were reloaded"):
            write(pack, PACK.format(host=host))
        async with logged(s.proxy, "the version of before the edit stays in force"):
            write(pack, PACK.format(host=host).replace("category: api_key", "category: apikey"))
        assert any("nearby.yaml:3:" in line and "'api_key'" in line for line in s.proxy.log)
        async with Client(f"https://{host}", proxy=s.proxy.url, ca_file=s.proxy.ca_file) as client:
            seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
        assert seen.header("x-omniroute-attempts") == "1"


async def test_rules_of_an_edited_pack_judge_the_next_answer(open_stage: OpenStage) -> None:
    """A user's rule overrides the bundled ones without a restart."""
    s = await open_stage("a", "b", config=NEVER)
    s.upstream.script(json_reply({"error": {"message": "the parrot is resting"}}, status=418), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    assert (await s.ask(question())).status == 418
    rule = """\
id: openai
restate:
  - id: parrot
    when: {status: [418], text: [the parrot is resting]}
    status: 429
    examples:
      - {status: 418, body: '{"error":{"message":"the parrot is resting"}}', expect: {status: 429}}
"""
    async with logged(s.proxy, "were reloaded"):
        write(s.proxy.folder / "rules" / "openai.yaml", rule)
    seen = await s.ask(question())
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    flow = await s.proxy.finished(2)
    assert "418→429" in flow.comment
