"""No secret in a flow, dump, HAR, log, error or repr (design.md §7.2): plant some, use them, look everywhere.

What passes as not ours shows the client's own credential exactly as in a bare mitmproxy; that is the one exception.
"""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.addons.savehar import SaveHar
from mitmproxy.io import FlowWriter

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import error, good
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Hang, Reply, Reset, json_reply
from omniroute_addon.testing.stage import Stage
from omniroute_addon.testing.upstream import FakeUpstream

OpenStage = Callable[..., Awaitable[Stage]]

CLIENT, QUERY, COOKIE, PASSWORD, POOL_A, POOL_B = PLANTED = (
    "planted-client-key-1",
    "planted-query-key-2",
    "planted-cookie-3",
    "planted-password-4",
    "planted-pool-key-5",
    "planted-pool-key-6",
)
ENCODED = {s: base64.b64encode(f"agent:{s}".encode()).decode() for s in PLANTED}
PROVIDER: Mapping[DialectName, str] = {"anthropic-messages": "anthropic", "gemini": "gemini"}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOL_A", POOL_A)
    monkeypatch.setenv("POOL_B", POOL_B)


async def open_with_pool(open_stage: OpenStage, provider: str, **more: Any) -> Stage:
    pool = ({"id": "a", "key": "env:POOL_A"}, {"id": "b", "key": "env:POOL_B"})
    config = {"settings": {"retry_pause_ms": 1, "retry_pause_max_ms": 1, **more.pop("settings", {})}}
    return await open_stage(*pool, provider=provider, config=config, **more)


async def ask(s: Stage, q: Question, *, until: bytes | None = None, more: Mapping[str, str] | None = None) -> Exchange:
    """Ask with every kind of credential that a client can send; `until`: go away after these bytes."""
    path = f"{q.path}{'&' if '?' in q.path else '?'}key={QUERY}&x=1"
    headers = {**q.headers, "cookie": f"session={COOKIE}", "x-api-key": CLIENT, **(more or {})}
    url = s.proxy.url.replace("//", f"//agent:{PASSWORD}@")
    async with Client(q.origin, proxy=url, ca_file=s.proxy.ca_file) as client:
        seen = await client.send(q.method, path, headers=headers, body=q.body)
        if until is None:
            return await seen.finished()
        await seen.has_body(until)
        seen.cancel()
        return seen


def found(proxy: RunningProxy, seen: Exchange | None = None, *more: object) -> dict[str, list[str]]:
    """Place -> planted secrets that are there."""
    dump = io.BytesIO()
    writer = FlowWriter(dump)
    for flow in proxy.flows:
        writer.add(flow)
    engine = proxy.master.addons.get("omniroute").engine  # type: ignore[no-untyped-call]
    core = engine.core
    assert core.store.flush()  # the state's file and its -wal are among the files that are searched
    places = {
        "flow dump": dump.getvalue().decode("latin-1"),
        "HAR": json.dumps(SaveHar().make_har(proxy.flows)),
        "log": "\n".join(proxy.log),
        "flow repr": repr([(f, f.request, f.response, f.error, f.comment, f.metadata) for f in proxy.flows]),
        "engine repr": repr((engine, core, core.config, core.packs, core.rules, core.config.connections)),
        "answer": repr((seen.heads, seen.body)) if seen else "",
        "more": repr(more),
        "state": "".join(p.read_bytes().decode("latin-1") for p in proxy.folder.rglob("*") if p.is_file()),
    }
    hits = {place: [s for s in PLANTED if s in text or ENCODED[s] in text] for place, text in places.items()}
    return {place: secrets for place, secrets in hits.items() if secrets}


async def test_the_search_can_find_something(open_stage: OpenStage, keys: None) -> None:
    """A side call passes as in a bare mitmproxy, so its flow does hold the client's own credential (and only that)."""
    s = await open_with_pool(open_stage, "openai")
    s.upstream.script(json_reply({}))
    q = question(key=CLIENT)
    side = Question(dialect=q.dialect, host=q.host, path="/v1/files", headers=q.headers, body=q.body)
    await ask(s, side)
    await s.proxy.finished(1)
    assert found(s.proxy)["flow dump"] == [CLIENT, QUERY, COOKIE]
    assert found(s.proxy, None, POOL_A)["more"] == [POOL_A]


@pytest.mark.parametrize("stream", [True, False])
async def test_after_a_failover(stream: bool, dialect: DialectName, open_stage: OpenStage, keys: None) -> None:
    s = await open_with_pool(open_stage, PROVIDER.get(dialect, "openai"))
    s.upstream.script(error(dialect, 429, "slow down"), key=POOL_A)
    s.upstream.script(good(dialect, stream=stream), key=POOL_B)
    seen = await ask(s, question(dialect, key=CLIENT, stream=stream))
    await s.proxy.finished(1)
    assert (seen.status, s.upstream.keys) == (200, [POOL_A, POOL_B])
    assert found(s.proxy, seen) == {}


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500, 529])
async def test_after_everything_failed(status: int, open_stage: OpenStage, keys: None) -> None:
    s = await open_with_pool(open_stage, "openai", settings={"retries_in_place": 0})
    s.upstream.script(error("openai-chat", status, "no"))
    seen = await ask(s, question(key=CLIENT))
    await s.proxy.finished(1)
    assert seen.status >= 400
    assert found(s.proxy, seen) == {}


async def test_after_network_failures(open_stage: OpenStage, keys: None) -> None:
    s = await open_with_pool(open_stage, "openai", settings={"retries_in_place": 0})
    s.upstream.script(Reply(before=(Reset(),)))
    seen = await ask(s, question(key=CLIENT))
    await s.proxy.finished(1)
    assert seen.status == 502
    assert found(s.proxy, seen) == {}


async def test_the_state_file_holds_what_was_learned_and_no_secret(open_stage: OpenStage, keys: None) -> None:
    """Rests, terminal states, locks and breakers, of the pool and of clients; the upstream repeats every key."""

    def repeat(request: Any) -> Reply:
        seen = f"{request.key} {request.header('x-api-key')} {request.header('cookie')} {request.path}"
        status = 402 if request.key == POOL_A else 429
        message = f"You are out of credits, {seen}" if status == 402 else f"slow down: {seen}"
        return json_reply({"error": {"message": message}}, status=status)

    settings = {"retries_in_place": 0, "model_lockout": {"enabled": True}}
    s = await open_with_pool(open_stage, "openai", settings=settings)
    s.upstream.script(repeat)
    seen = await ask(s, question(key=CLIENT))
    await s.proxy.finished(1)
    core = s.proxy.master.addons.get("omniroute").engine.core  # type: ignore[no-untyped-call]
    assert core.store.flush()
    written = b"".join(p.read_bytes() for p in s.proxy.folder.rglob("state.db*"))
    assert b"credits_exhausted" in written and b"client:" in written
    hits = found(s.proxy, seen)
    # The client's own key comes back to the client as the upstream said it, as without us; never into what is kept.
    assert {place: hits.get(place, []) for place in ("state", "log", "engine repr")} == {
        "state": [],
        "log": [],
        "engine repr": [],
    }


async def test_after_the_client_went_away(open_stage: OpenStage, keys: None) -> None:
    s = await open_with_pool(open_stage, "openai")
    answer = good("openai-chat", "one two three")
    s.upstream.script(Reply(headers=answer.headers, chunks=(*answer.chunks[:3], Hang())))
    seen = await ask(s, question(key=CLIENT), until=b"one")
    await s.proxy.finished(1)
    assert found(s.proxy, seen) == {}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", [200, 401, 429])
async def test_with_the_clients_own_credential(status: int, stream: bool, open_stage: OpenStage) -> None:
    s = await open_stage()
    s.upstream.script(good("openai-chat", stream=stream) if status == 200 else error("openai-chat", status, "no"))
    seen = await ask(s, question(key=CLIENT, stream=stream))
    await s.proxy.finished(1)
    asked = s.upstream.requests[0]
    assert (asked.header("authorization"), asked.header("x-api-key")) == (f"Bearer {CLIENT}", CLIENT)
    assert f"key={QUERY}" in asked.path
    assert COOKIE in (asked.header("cookie") or "")
    assert asked.header("proxy-authorization") is None
    assert found(s.proxy, seen) == {}


async def test_a_proxy_password_that_mitmproxy_asked_for(open_stage: OpenStage, keys: None) -> None:
    """mitmproxy notes user and password in the flow; of a model call only the user's name stays."""
    s = await open_with_pool(open_stage, "openai", options={"proxyauth": f"agent:{PASSWORD}"})
    s.upstream.script(good("openai-chat"))
    seen = await ask(s, question(key=CLIENT))
    flow = await s.proxy.finished(1)
    assert seen.status == 200
    assert flow.metadata["proxyauth"][0] == "agent"
    assert found(s.proxy, seen) == {}


async def test_over_plain_http_the_proxy_password_stays_behind(open_stage: OpenStage, keys: None) -> None:
    s = await open_with_pool(open_stage, "openai")
    s.upstream.script(good("openai-chat"))
    q = question(key=CLIENT)
    url = s.proxy.url.replace("//", f"//agent:{PASSWORD}@")
    async with Client(f"http://{q.host}:443", proxy=url) as client:
        seen = await client.request(q.method, q.path, headers=q.headers, body=q.body)
    await s.proxy.finished(1)
    assert seen.status == 200
    assert found(s.proxy, seen) == {}


class Blabbermouth:
    """Tells everything it is given, and fails. Wherever its words end up, no secret may be among them."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def _tell(self, *arguments: object) -> None:
        self.heard.append(repr(arguments))
        raise RuntimeError(repr(arguments))

    def identify(self, call: Any, headers: Any) -> None:
        self._tell(call, headers)

    def resolve(self, call: Any, targets: Any) -> None:
        self._tell(call, targets)

    def exclude(self, call: Any, targets: Any, now: Any) -> None:
        self._tell(call, targets)

    def order(self, call: Any, targets: Any, now: Any) -> None:
        self._tell(call, targets)

    def admit(self, call: Any, target: Any, now: Any) -> None:
        self._tell(call, target)

    def prepare(self, call: Any, target: Any, headers: Any) -> None:
        self._tell(call, target, headers)

    def restate(self, call: Any, target: Any, answer: Any) -> None:
        self._tell(call, target, answer)

    def classify(self, call: Any, target: Any, answer: Any, restatement: Any, now: Any) -> None:
        self._tell(call, target, answer, restatement)

    def failed(self, call: Any, story: Any, now: Any) -> None:
        self._tell(call, story)

    def succeeded(self, call: Any, attempt: Any, now: Any) -> None:
        self._tell(call, attempt)

    def finish(self, call: Any, stories: Any, status: Any, now: Any) -> None:
        self._tell(call, stories)


@pytest.mark.parametrize("own", [False, True])
async def test_after_faults_of_a_plugin_that_tells_all_it_knows(own: bool, open_stage: OpenStage, keys: None) -> None:
    from omniroute_addon import hookimpl

    s = await (
        open_stage() if own else open_with_pool(open_stage, "openai", settings={"plugins": {"max_faults": 1000}})
    )
    plugin = Blabbermouth()
    hooks = [n for n in vars(Blabbermouth) if not n.startswith("_")]
    loud = type("Loud", (Blabbermouth,), {n: hookimpl(getattr(Blabbermouth, n)) for n in hooks})()
    loud.heard = plugin.heard
    engine = s.proxy.master.addons.get("omniroute").engine  # type: ignore[no-untyped-call]
    engine.plugins.register(loud, name="blabbermouth")
    s.upstream.script([error("openai-chat", 429, "slow down"), good("openai-chat"), good("openai-chat")])
    for _ in range(2):
        seen = await ask(s, question(key=CLIENT))
    await s.proxy.finished(2)
    assert seen.status == 200
    assert len(plugin.heard) >= 10
    assert found(s.proxy, seen, *plugin.heard) == {}
    assert any("plugin blabbermouth failed in" in line for line in s.proxy.log)


@pytest.mark.parametrize("method", ["identify", "advance", "failed", "finish"])
async def test_after_a_fault_of_our_own(
    method: str, open_stage: OpenStage, keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    s = await open_with_pool(open_stage, "openai")
    engine = s.proxy.master.addons.get("omniroute").engine  # type: ignore[no-untyped-call]
    s.upstream.script(error("openai-chat", 429, "slow down"))
    told: list[str] = []

    def burst(*arguments: object, **named: object) -> None:
        told.append(repr((arguments, named)))
        raise RuntimeError(f"planned: {arguments!r} {named!r}")

    monkeypatch.setattr(engine, method, burst)
    seen = await ask(s, question(key=CLIENT))
    await s.proxy.finished(1)
    assert told
    assert seen.end == "complete"
    hits = found(s.proxy, seen, *told)
    if method == "identify":  # it passes as without us, and so it shows
        hits = {
            place: [h for h in secrets if "pool" in h] for place, secrets in hits.items() if place in ("log", "more")
        }
        assert not any(hits.values())
    else:
        assert hits == {}


@pytest.mark.parametrize("stream", [True, False])
async def test_an_upstream_that_repeats_our_key_is_not_quoted(stream: bool, open_stage: OpenStage, keys: None) -> None:
    """Gateways do: 'invalid key sk-…' in body or header. The client, its flows and our log get it without the key."""
    s = await open_with_pool(open_stage, "openai", settings={"own_credential": "never", "retries_in_place": 0})

    def repeat(request: Any) -> Reply:
        headers = {"x-echo": f"key={request.key}"}
        return json_reply({"error": {"message": f"too fast, {request.key}!"}}, status=429, headers=headers)

    s.upstream.script(repeat)
    seen = await ask(s, question(key=CLIENT, stream=stream))
    await s.proxy.finished(1)
    assert (seen.status, set(s.upstream.keys)) == (429, {POOL_A, POOL_B})
    assert "too fast" in seen.text
    assert found(s.proxy, seen) == {}


async def test_a_reload_tells_no_secret(open_stage: OpenStage, keys: None, tmp_path: Path) -> None:
    """A credential written where a reference belongs is refused without being repeated."""
    s = await open_with_pool(open_stage, "openai")
    addon = s.proxy.master.addons.get("omniroute")  # type: ignore[no-untyped-call]
    text = (
        f"connections: [{{id: a, provider: openai, key: {POOL_A}}}, {{id: b, provider: openai, key: '{POOL_B} x'}}]\n"
    )
    s.proxy.config_file.write_text(text)
    addon._use(addon._sources.load())
    assert any("by reference" in line for line in s.proxy.log)
    s.proxy.config_file.unlink()
    assert found(s.proxy) == {}


async def test_debug_logging_was_on(open_stage: OpenStage) -> None:
    """Without it the searches in the log would prove little."""
    s = await open_stage()
    logging.getLogger("omniroute_addon").debug("seen")
    assert any(line.startswith("DEBUG omniroute_addon") for line in s.proxy.log)


async def test_credentials_never_reach_another_upstreams_log(open_stage: OpenStage, keys: None) -> None:
    """The copy with the credential belongs to one attempt: the next one starts from the client's request again."""
    async with FakeUpstream() as groq:
        pool = ({"id": "a", "key": "env:POOL_A"}, {"id": "b", "key": "env:POOL_B", "provider": "groq"})
        route = {"routes": [{"connections": ["a", "b"]}]}
        s = await open_stage(*pool, config=route, rehost={"api.groq.com:443": groq.address})
        s.upstream.script(error("openai-chat", 429, "slow down"))
        groq.script(good("openai-chat"))
        seen = await ask(s, question(key=CLIENT))
        assert seen.status == 200
        sent = repr([(r.path, r.headers, r.body) for r in groq.requests])
        assert [secret for secret in PLANTED if secret in sent] == [POOL_B]
