"""The control endpoint of a real proxy: who may ask, what it shows and clears, and that nobody reaches it by a detour."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from omniroute_addon.api.run_file import RunFile, read_all
from omniroute_addon.testing.answers import error, good
from omniroute_addon.testing.proxy import RunningProxy
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
Q = question(stream=False)
LIMIT = error("openai-chat", 429, "slow down", headers={"retry-after": "18000"})


async def run_file_of(proxy: RunningProxy) -> RunFile:
    async with asyncio.timeout(20):
        while not (found := list(read_all(proxy.folder / "state"))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found[0]


class Seen:
    """A status, a JSON body, and headers."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers
        self.json: Any = json.loads(body)


async def ask(
    run: RunFile,
    path: str,
    method: str = "GET",
    body: Any = None,
    *,
    token: str | None = "",
    through: str = "",
    url: str = "",
    **headers: str,
) -> Seen:
    """`token`: empty for the right one, None for none. `through`: a proxy. A body of bytes is sent as it is."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        fields["authorization"] = f"Bearer {token or run.token}"
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    request = Request((url or run.url) + path, data=data, method=method, headers=fields)
    opener = build_opener(ProxyHandler({"http": through} if through else {}))

    def send() -> Seen:
        try:
            with opener.open(request, timeout=10) as answer:
                return Seen(answer.status, answer.read(), dict(answer.headers))
        except HTTPError as refused:
            return Seen(refused.code, refused.read(), dict(refused.headers))

    return await asyncio.to_thread(send)


async def test_the_run_file_is_its_owners_and_goes_with_the_proxy(omniroute_proxy: Any) -> None:
    proxy = await omniroute_proxy()
    run = await run_file_of(proxy)
    assert run.path is not None and run.listen == (f"127.0.0.1:{proxy.port}",)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(run.path.parent.stat().st_mode) == 0o700
    proxy.master.addons.get("omniroute").done()
    assert list(read_all(proxy.folder / "state")) == []
    with pytest.raises(OSError):
        await ask(run, "/api/proxy")


async def test_who_may_not_ask(omniroute_proxy: Any) -> None:
    """design.md §7.6: token, `Host`, `Origin`."""
    run = await run_file_of(await omniroute_proxy())
    port = run.url.rpartition(":")[2]

    async def refused(**how: Any) -> tuple[int, str]:
        seen = await ask(run, "/api/status", **how)
        return seen.status, seen.json.get("code", "")

    assert await refused(token=None) == (401, "unauthorized")
    assert await refused(token="wrong") == (401, "unauthorized")
    assert await refused(token=run.token[:-1]) == (401, "unauthorized")
    assert await refused(token=None, authorization=f"Basic {run.token}") == (401, "unauthorized")
    assert await refused(host="evil.example") == (403, "host_not_allowed")
    assert await refused(host=f"evil.example:{port}") == (403, "host_not_allowed")
    assert await refused(host="127.0.0.1") == (403, "host_not_allowed")
    assert await refused(origin="https://evil.example") == (403, "origin_not_allowed")
    assert await refused(origin="null") == (403, "origin_not_allowed")
    assert await refused(origin=f"http://127.0.0.1:{port}", host=f"localhost:{port}") == (200, "")


async def test_what_cannot_be_answered_says_why(open_stage: OpenStage) -> None:
    s = await open_stage("work", "spare")
    run = await run_file_of(s.proxy)

    async def told(path: str, method: str = "GET", body: Any = None) -> tuple[int, str, str]:
        seen = await ask(run, path, method, body)
        return seen.status, seen.json["code"], seen.json["error"]

    assert (await told("/api/nowhere"))[:2] == (404, "unknown_route")
    assert (await told("/api/reset", "PUT", {}))[:2] == (405, "method_not_allowed")
    assert (await told("/api/reset", "POST", b"{"))[:2] == (400, "bad_body")
    assert (await told("/api/reset", "POST", b"[1]"))[:2] == (400, "bad_body")
    assert (await told("/api/reset", "POST", b"[" * 60_000))[:2] == (400, "bad_body")
    assert (await told("/api/reset", "POST", b" " * 70_000))[:2] == (400, "bad_body")
    status, code, text = await told("/api/reset", "POST", {"part": "connection", "name": "wrk"})
    assert (status, code) == (404, "unknown_connection")
    assert text == "unknown connection 'wrk'. Did you mean 'work'?\n  Known connections: work, spare"
    assert (await told("/api/reset", "POST", {"part": "provider", "name": "opnai"}))[1:2] == ("unknown_provider",)
    assert (await told("/api/reset", "POST", {"part": "model", "name": "gpt"}))[:2] == (404, "unknown_model")
    assert (await told("/api/resilience/reset", "POST", {"provider": "opnai"}))[:2] == (404, "unknown_provider")
    # ML-63
    assert (await told("/api/resilience/cooldowns", "POST", {}))[:2] == (400, "bad_body")
    assert (await told("/api/resilience/cooldowns", "POST", {"connectionIds": []}))[:2] == (400, "bad_body")
    none = {"cleared": 0, "unchanged": 0, "skippedTerminal": 0, "lockoutsCleared": 0}
    assert (await ask(run, "/api/resilience/cooldowns", "POST", {"connectionIds": ["nobody"]})).json == none


async def test_nobody_gets_there_through_the_proxy(omniroute_proxy: Any) -> None:
    """Also not by a name that the proxy resolves to loopback; and the token stays out of the flow."""
    proxy = await omniroute_proxy()
    run = await run_file_of(proxy)
    port = run.url.rpartition(":")[2]
    for name in ("127.0.0.1", "localhost"):
        seen = await ask(run, "/api/status", through=proxy.url, url=f"http://{name}:{port}")
        assert (seen.status, seen.json["code"]) == (403, "through_the_proxy")
    flow = proxy.flows[-1]
    assert run.token not in repr(flow.get_state())
    control = proxy.master.addons.get("omniroute")._control
    control.is_here = lambda host, port: False  # a name of which one sees only when it is dialled
    seen = await ask(run, "/api/status", through=proxy.url)
    assert (seen.status, seen.json["code"]) == (403, "through_the_proxy")
    assert (await ask(run, "/api/status")).status == 200


async def test_a06_an_operator_ends_a_rest_early(open_stage: OpenStage) -> None:
    """A06, CC-55, ML-60, ML-61: selectable at once, without a restart, and the log tells of it."""
    s = await open_stage("a", "b", config={"settings": {"own_credential": "never"}})
    run = await run_file_of(s.proxy)
    s.upstream.script([LIMIT, good("openai-chat", stream=False)], key="sk-a")
    s.upstream.script(good("openai-chat", stream=False), key="sk-b")
    assert (await s.ask(Q)).header("x-omniroute-connection") == "b"
    assert (await s.ask(Q)).header("x-omniroute-connection") == "b"
    [resting] = (await ask(run, "/api/resilience/cooldowns?provider=openai")).json["connections"]
    assert (resting["connectionId"], resting["status"], resting["hint"]) == ("a", "cooling", "header:retry-after")
    assert 17_900_000 < resting["remainingMs"] <= 18_000_000
    done = await ask(run, "/api/resilience/cooldowns", "POST", {"connectionIds": ["a", "b"]})
    assert done.json == {"cleared": 1, "unchanged": 1, "skippedTerminal": 0, "lockoutsCleared": 0}
    assert (await s.ask(Q)).header("x-omniroute-connection") == "a"
    [told] = [line for line in s.proxy.log if "reset by a person" in line]
    assert "mechanism=connection_cooldown provider=openai connection=a" in told
    assert (await ask(run, "/api/resilience/cooldowns")).json == {"connections": []}


async def test_a_terminal_state_ends_only_when_it_is_named(open_stage: OpenStage) -> None:
    """CB-70, CC-55, CC-57, ML-62, A09"""
    s = await open_stage("a", "b", config={"settings": {"own_credential": "never"}})
    run = await run_file_of(s.proxy)
    s.upstream.script(
        [error("openai-chat", 402, "insufficient credits"), good("openai-chat", stream=False)], key="sk-a"
    )
    s.upstream.script(good("openai-chat", stream=False), key="sk-b")
    await s.ask(Q)
    [out] = [t for t in (await ask(run, "/api/status")).json["timers"] if t["terminal"]]
    assert (out["connectionId"], out["state"], out["until"]) == ("a", "credits_exhausted", None)
    cleared = await ask(run, "/api/resilience/cooldowns", "POST", {"all": True})
    assert cleared.json["skippedTerminal"] == 1
    assert (await ask(run, "/api/resilience/reset", "POST")).json["ok"]
    assert (await ask(run, "/api/reset", "POST", {"part": "all"})).json["skippedTerminal"] == ["a"]
    assert (await ask(run, "/api/reset", "POST", {"part": "connection", "name": "a"})).json["cleared"] == []
    assert (await s.ask(Q)).header("x-omniroute-connection") == "b"
    done = await ask(run, "/api/reset", "POST", {"part": "connection", "name": "a", "terminal": True})
    assert [row["connectionId"] for row in done.json["cleared"]] == ["a"]
    assert (await s.ask(Q)).header("x-omniroute-connection") == "a"


async def test_without_the_endpoint_the_proxy_serves(open_stage: OpenStage) -> None:
    """Off, or a port that is taken: told once, and no request is worse off."""
    off = await open_stage("a", options={"omniroute_control": "off"})
    off.upstream.script(good("openai-chat", stream=False))
    assert (await off.ask(Q)).status == 200
    assert not (off.proxy.folder / "state" / "run").exists()


async def test_a_port_that_is_taken_costs_only_the_endpoint(open_stage: OpenStage) -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    s = await open_stage("a", options={"omniroute_control": str(port)})
    s.upstream.script(good("openai-chat", stream=False))
    assert (await s.ask(Q)).status == 200
    async with asyncio.timeout(10):
        while not (told := [line for line in s.proxy.log if "endpoint is not open" in line]):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert len(told) == 1 and told[0].startswith("WARNING")
    server.close()


async def test_no_secret_in_an_answer_the_run_file_the_log_or_a_flow(open_stage: OpenStage) -> None:
    """design.md §7.2: keys in no answer of the API, and the endpoint's own token in its file alone."""
    s = await open_stage("a", "b")
    run = await run_file_of(s.proxy)
    s.upstream.script(error("openai-chat", 429, "key sk-a is too fast", headers={"retry-after": "60"}), key="sk-a")
    s.upstream.script(error("openai-chat", 402, "insufficient credits of sk-b"), key="sk-b")
    s.upstream.script(good("openai-chat", stream=False))
    seen = await s.ask(Q)
    await s.proxy.finished(1)
    id = seen.header("x-omniroute-request")
    paths = ["/api/proxy", "/api/status", "/api/requests", f"/api/requests/{id}", "/api/monitoring/health"]
    paths += ["/api/resilience/cooldowns", "/api/resilience/model-cooldowns"]
    answers = [await ask(run, path) for path in paths]
    assert [answer.status for answer in answers] == [200] * len(paths)
    cleared = await ask(run, "/api/reset", "POST", {"part": "connection", "name": "b", "terminal": True})
    key = next(value for name, value in Q.headers.items() if name.lower() == "authorization").removeprefix("Bearer ")
    told = "".join(json.dumps(answer.json) for answer in [*answers, cleared])
    assert run.path is not None
    file = run.path.read_text()
    for secret in ("sk-a", "sk-b", key):
        assert secret not in told and secret not in file
    everywhere = [told, *s.proxy.log, *(repr(flow.get_state()) for flow in s.proxy.flows)]
    assert [text for text in everywhere if run.token in text] == []


async def test_a_past_request_is_explained(open_stage: OpenStage) -> None:
    """Issue 4, item 10: by the id in the answer's header."""
    s = await open_stage("a", "b", config={"settings": {"own_credential": "never"}})
    run = await run_file_of(s.proxy)
    s.upstream.script(LIMIT, key="sk-a")
    s.upstream.script(good("openai-chat", stream=False), key="sk-b")
    ids = [(await s.ask(Q)).header("x-omniroute-request") for _ in range(2)]
    await s.proxy.finished(2)
    listed = (await ask(run, "/api/requests?limit=5")).json["requests"]
    assert [r["id"] for r in listed] == ids[::-1]
    first = (await ask(run, f"/api/requests/{ids[0]}")).json
    assert [(a["connectionId"], a["kind"]) for a in first["attempts"]] == [("a", "quota_exhausted"), ("b", "ok")]
    second = (await ask(run, f"/api/requests/{ids[1]}")).json
    [passed] = second["exclusions"]
    assert (passed["connectionId"], passed["label"]) == ("a", "connection_cooldown") and passed["until"]
    assert first["attempts"][0]["rule"] in passed["detail"]
    missing = await ask(run, "/api/requests/nope")
    assert (missing.status, missing.json["code"]) == (404, "unknown_request")
    assert (await ask(run, "/api/requests?limit=0")).json["code"] == "bad_query"
