"""A user's plugin folder through a running proxy (issue points 19 to 21), and what the client sees of it all."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import error, good, openai_chat
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import json_reply
from omniroute_addon.testing.stage import Stage, stage

OpenStage = Callable[..., Awaitable[Stage]]
NEVER = {"own_credential": "never", "retry_pause_ms": 1, "retry_pause_max_ms": 1}
HEAD = "from omniroute_addon import hookimpl\nfrom omniroute_addon.model import Exclusion\n\n\n"


@pytest.fixture
async def open_with(tmp_path: Path) -> Any:
    """`s = await open_with({"name": "source"}, "a", "b", …)`: a stage with a user's plugin folder."""
    folder = tmp_path / "user-plugins"
    folder.mkdir()
    async with AsyncExitStack() as stack:

        async def open_(plugins: dict[str, str], *connections: Any, settings: Any = None, **more: Any) -> Stage:
            for name, source in plugins.items():
                (folder / f"{name}.py").write_text(HEAD + source)
            config = {"settings": {**NEVER, **(settings or {})}}
            options = {"omniroute_plugins": str(folder)}
            return await stack.enter_async_context(stage(*connections, config=config, options=options, **more))

        yield open_


def state_of(s: Stage, name: str) -> Any:
    host = s.proxy.master.addons.get("omniroute").engine.plugins  # type: ignore[no-untyped-call]
    return next(info for info in host.plugins() if info.name == name)


# ------------------------------------------------------------ a user's own


EXCLUDE = """\
@hookimpl
def exclude(targets):
    return [Exclusion(target=t, label="night_shift", detail="asleep") for t in targets if t.connection.id == "a"]
"""
ORDER = """\
@hookimpl
def order(targets):
    return list(reversed(targets))
"""
PREPARE = """\
@hookimpl
def prepare(target, headers):
    headers["x-team"] = f"research at {target.connection.id}"
    headers.pop("user-agent", None)
    headers["content-type"] = "application/json; charset=utf-8"
    headers["host"] = "elsewhere.example.org"
    headers["content-length"] = "1"
"""
RAISES = """\
@hookimpl
def exclude():
    raise RuntimeError("the plugin is broken")


@hookimpl
def classify(answer):
    raise RuntimeError("here, too")
"""


async def test_exclude_order_and_prepare_of_a_users_plugins(open_with: Any) -> None:
    """Point 19: files in a folder, nothing else; header rules of the wire hold for plugins, too."""
    s = await open_with({"night": EXCLUDE, "upside_down": ORDER, "team": PREPARE}, "a", "b", "c")
    s.upstream.script(openai_chat())
    q = question()
    async with s.client(q) as client:
        headers = {**q.headers, "user-agent": "agent/1"}
        seen = await client.request(q.method, q.path, headers=headers, body=q.body)
    assert (seen.status, seen.header("x-omniroute-connection"), s.upstream.keys) == (200, "c", ["sk-c"])
    asked = s.upstream.requests[0]
    assert asked.header("x-team") == "research at c"
    assert asked.header("user-agent") is None
    assert [v for k, v in asked.headers if k == "content-type"] == ["application/json; charset=utf-8"]
    assert (asked.authority, asked.body) == ("api.openai.com", q.body)


async def test_an_exclusion_is_told_in_the_final_error(open_with: Any) -> None:
    s = await open_with({"night": EXCLUDE}, "a")
    seen = await s.ask(question())
    assert (seen.status, s.upstream.requests) == (503, [])
    told = seen.json()["error"]
    assert told["code"] == "all_targets_excluded" and "a: night_shift (asleep)" in told["message"]
    [excluded] = seen.json()["diagnostics"]["excluded"]
    assert (excluded["connection"], excluded["reason"], excluded["detail"]) == ("a", "night_shift", "asleep")
    assert excluded["until"] is None


async def test_a_plugin_that_raises_is_skipped_named_and_at_last_quarantined(open_with: Any) -> None:
    """design.md §7.7: its answer is skipped, the request goes on; after `plugins.max_faults` in a row it is out."""
    s = await open_with({"broken": RAISES}, "a", "b", settings={"plugins": {"max_faults": 3}})
    s.upstream.script(openai_chat())
    for number in range(1, 5):
        assert (await s.ask(question())).header("x-omniroute-connection") == "a"
        assert state_of(s, "broken").state == ("on" if number < 3 else "quarantined")
    faults = [line for line in s.proxy.errors if "plugin broken failed in exclude" in line]
    assert len(faults) == 3
    assert "the plugin is broken" in faults[0]
    assert any("plugin broken is quarantined" in line for line in s.proxy.errors)


async def test_a_classify_that_raises_leaves_the_verdict_to_the_next(open_with: Any) -> None:
    s = await open_with({"broken": RAISES}, "a", "b")
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    assert (await s.ask(question())).header("x-omniroute-connection") == "b"


@pytest.mark.parametrize(
    "source",
    [
        "@hookimpl\ndef exclude():\n    return 7\n",
        "@hookimpl\ndef exclude():\n    return ['b', None]\n",
        "@hookimpl\ndef order(targets):\n    return 'ab'\n",
        "@hookimpl\ndef order(targets):\n    return 5\n",
        "@hookimpl\ndef resolve(call, targets):\n    return 5\n",
        "@hookimpl\ndef resolve(call, targets):\n    return ['a']\n",
        "@hookimpl\ndef identify(call):\n    return 'me'\n",
        "@hookimpl\ndef admit(call):\n    return 5\n",
        "@hookimpl\ndef wait(call):\n    return 'soon'\n",
        "@hookimpl\ndef restate(call):\n    return 'no'\n",
        "@hookimpl\ndef classify(call):\n    return 'no'\n",
        "@hookimpl\ndef prepare(headers):\n    headers['x-a'] = None\n    headers[5] = 'x'\n",
        "@hookimpl\ndef prepare(headers):\n    headers['x-a'] = 'line\\r\\nx-smuggled: 1'\n",
        "@hookimpl\ndef prepare(headers):\n    headers['x-ü'] = 'ü€'\n",
        "@hookimpl\ndef intercept(host):\n    return 'maybe'\n",
    ],
    ids=lambda source: source.partition("def ")[2].replace("\n    ", " ").strip()[:40],
)
async def test_a_plugin_that_answers_nonsense_costs_nobody_a_request(source: str, open_with: Any) -> None:
    s = await open_with({"nonsense": source}, "a", "b")
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    seen = await s.ask(question(), within_s=4)
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    assert all(r.header("x-smuggled") is None for r in s.upstream.requests)


async def test_a_plugin_that_cannot_be_loaded_is_told_and_left_out(tmp_path: Path, open_stage: OpenStage) -> None:
    s = await open_stage("a", config={"settings": NEVER})
    from omniroute_addon.plugin_host import PluginHost

    (tmp_path / "half.py").write_text("def exclude(:\n")
    host = PluginHost()
    host.load(bundled=tmp_path / "none", user=tmp_path, entry_points=False)
    assert [(i.name, i.state) for i in host.plugins()] == [("half", "broken")]
    assert any("plugin half (user) was not loaded" in line and "half.py" in line for line in s.proxy.log)


@pytest.mark.parametrize("off", [["connection_cooldown"], ["connection_cooldown", "classification", "restatement"]])
async def test_without_the_bundled_mechanisms_it_is_a_working_proxy(off: list[str], open_with: Any) -> None:
    """`style.md` §6: no back door. Without the cooldown a failed connection is asked again by the next request."""
    s = await open_with({}, "a", "b", settings={"plugins": {"disabled": off}})
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    for _ in range(2):
        seen = await s.ask(question())
        assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    assert s.upstream.keys == ["sk-a", "sk-b"] * 2
    assert {state_of(s, name).state for name in off} == {"off"}


async def test_with_it_a_failed_connection_rests(open_with: Any) -> None:
    """Point 20; the counterpart of the test above."""
    s = await open_with({}, "a", "b")
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    for _ in range(2):
        assert (await s.ask(question())).status == 200
    assert s.upstream.keys == ["sk-a", "sk-b", "sk-b"]


# ------------------------------------------------------------ what the client sees (design.md §8)


async def test_the_answer_says_where_it_came_from_and_the_flow_tells_the_story(open_with: Any) -> None:
    s = await open_with({}, "a", "b")
    s.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.upstream.script(openai_chat(), key="sk-b")
    seen = await s.ask(question())
    assert [seen.header(f"x-omniroute-{n}") for n in ("connection", "attempts", "restated-from")] == ["b", "2", None]
    first, second = (await s.proxy.finished(1)).comment.split("\n")
    assert first.startswith("#1 a: rate_limit 429 [")
    assert second == "#2 b: answered 200"


async def test_a_restated_status_is_told(open_with: Any) -> None:
    """`SR-21`, `SR-23`: a quota behind a 403 is a 429, with an honest wait and the status that it had."""
    pack = """\
id: openai
restate:
  - id: lying-403
    when: {status: [403], text: [allowance used up]}
    status: 429
    retry_after: 61s
    examples:
      - {status: 403, body: '{"error":{"message":"allowance used up"}}', expect: {status: 429}}
"""
    s = await open_with({}, "a")
    (s.proxy.folder / "rules" / "openai.yaml").write_text(pack)
    addon = s.proxy.master.addons.get("omniroute")
    addon._use(addon._sources.load())
    s.upstream.script(json_reply({"error": {"message": "allowance used up"}}, status=403))
    seen = await s.ask(question())
    assert (seen.status, seen.header("x-omniroute-restated-from"), seen.header("retry-after")) == (429, "403", "61")
    assert seen.json()["error"]["code"] == "rate_limit_exceeded"
    assert "allowance used up" in seen.json()["error"]["message"]
    assert "403→429" in (await s.proxy.finished(1)).comment


@pytest.mark.parametrize("stream", [True, False])
async def test_our_own_error_speaks_the_clients_dialect(stream: bool, dialect: DialectName, open_with: Any) -> None:
    """§8: every key of the pool is refused. Never a 401, which an agent takes for its own login (`clients.md`, 4)."""
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    s = await open_with({}, "a", "b", provider=provider)
    s.upstream.script(error(dialect, 401, "invalid key"))
    seen = await s.ask(question(dialect, stream=stream))
    assert (seen.status, seen.header("content-type"), seen.end) == (503, "application/json", "complete")
    body = seen.json()
    told = body["error"]
    if dialect == "anthropic-messages":
        assert (body["type"], isinstance(told["type"], str)) == ("error", True)
    if dialect == "gemini":
        assert (told["code"], told["status"]) == (503, "UNAVAILABLE")
    found = [v for v in (told.get("code"), told.get("reason"), body.get("code")) if isinstance(v, str)]
    assert "connections_rejected" in found or "connections_rejected" in seen.text
    assert isinstance(told["message"], str)
    attempts = _diagnostics(body)["attempts"]
    assert [(a["connection"], a["status"]) for a in attempts] == [("a", 401), ("b", 401)]


def _diagnostics(body: Any) -> Any:
    """Wherever the dialect puts it: Gemini in an `ErrorInfo`."""
    if isinstance(body, dict):
        if "attempts" in body:
            found = body["attempts"]  # Google's clients read a map of texts
            return {"attempts": json.loads(found)} if isinstance(found, str) else body
        body = list(body.values())
    if isinstance(body, list):
        return next((found for value in body if (found := _diagnostics(value))), None)
    return None


async def test_all_resting_is_an_honest_429_with_the_earliest_way_out(open_with: Any) -> None:
    s = await open_with({}, "a", "b")
    s.upstream.script(error("openai-chat", 429, "slow down", headers={"retry-after": "50"}), key="sk-a")
    s.upstream.script(error("openai-chat", 429, "slow down", headers={"retry-after": "20"}), key="sk-b")
    first = await s.ask(question())
    assert (first.status, first.header("retry-after")) == (429, "20")
    second = await s.ask(question())
    assert second.status == 429
    assert 18 <= int(second.header("retry-after") or 0) <= 20
    assert second.json()["error"]["code"] == "all_targets_cooling_down"
    assert second.header("x-omniroute-attempts") == "0"
    assert len(s.upstream.requests) == 2


async def test_every_dialect_gets_its_answer_after_a_failover(dialect: DialectName, open_with: Any) -> None:
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    s = await open_with({}, "a", "b", provider=provider)
    s.upstream.script(error(dialect, 529, "overloaded"), key="sk-a")
    s.upstream.script(good(dialect), key="sk-b")
    seen = await s.ask(question(dialect))
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
