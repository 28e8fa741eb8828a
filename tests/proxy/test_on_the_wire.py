"""What a model call looks like upstream: without configuration the client's own request, with it the target's."""

from __future__ import annotations

import gzip
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import brotli
import pytest

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import good, openai_chat
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.proxy import RunningProxy, running_proxy
from omniroute_addon.testing.questions import asked_model, question
from omniroute_addon.testing.script import Reply, json_reply
from omniroute_addon.testing.stage import Stage, stage
from omniroute_addon.testing.upstream import FakeUpstream

StartProxy = Callable[..., Awaitable[RunningProxy]]
OpenStage = Callable[..., Awaitable[Stage]]
NEVER = {"settings": {"own_credential": "never"}}


# ------------------------------------------------------------ no configuration at all


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("stream", [True, False])
async def test_without_configuration_a_success_is_the_same_as_without_us(
    stream: bool, http2: bool, dialect: DialectName
) -> None:
    """Issue point 6: the client's own request and the provider's own answer, whole, but for our two marks."""
    q, seen = question(dialect, stream=stream), []
    more = {"x-stainless-lang": "python", "user-agent": "x", "cookie": "c=1", "openai-organization": "org"}
    for addons in (None, []):
        async with (
            FakeUpstream(http2=http2) as upstream,
            running_proxy(rehost={q.host: upstream.address}, addons=addons) as proxy,
            Client(q.origin, proxy=proxy.url, ca_file=proxy.ca_file, http2=http2) as client,
        ):
            upstream.script(good(dialect, stream=stream))
            got = await client.request(q.method, q.path, headers={**q.headers, **more}, body=q.body)
            asked = upstream.requests[0]
            head = [h for h in got.heads[0].headers if not h[0].startswith("x-omniroute-")]
            kept = sorted(h for h in asked.headers if h[0] != "accept-encoding")
            seen.append((asked.path, asked.authority, asked.body, kept, got.status, sorted(head), got.body, got.end))
    assert seen[0] == seen[1]


ERRORS = {
    400: json_reply({"error": {"message": "Unknown parameter: 'foo'.", "code": "unknown_parameter"}}, status=400),
    401: json_reply({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}, status=401),
    403: json_reply({"error": {"message": "Country not supported.", "code": "unsupported_country"}}, status=403),
    413: Reply(status=413, headers=(("content-type", "text/html"),), body=b"<html>413 too large</html>"),
    422: json_reply({"error": {"message": "unprocessable: messages[0]"}}, status=422),
    429: json_reply(
        {"error": {"message": "Slow down.", "code": "rate_limit"}}, status=429, headers={"retry-after": "9"}
    ),
}


@pytest.mark.parametrize("stream", [True, False])
async def test_without_configuration_an_error_is_the_providers_own(stream: bool, open_stage: OpenStage) -> None:
    """A21, rule 4: status, body and headers as the provider sent them, after one request for each."""
    s = await open_stage()
    for status, reply in ERRORS.items():
        s.upstream.script(reply)
        seen = await s.ask(question(stream=stream, key=f"sk-{status}"))
        assert (seen.status, seen.body, seen.end) == (status, reply.body, "complete")
        ours = {k: v for k, v in seen.heads[0].headers if not k.startswith("x-omniroute-") and k != "content-length"}
        assert ours == dict(reply.headers)
    assert s.upstream.keys == [f"sk-{status}" for status in ERRORS]


async def test_a_client_without_a_credential_gets_the_providers_refusal(open_stage: OpenStage) -> None:
    s = await open_stage()
    s.upstream.script(ERRORS[401])
    seen = await s.ask(question(key=None))
    assert (seen.status, seen.body) == (401, ERRORS[401].body)
    assert s.upstream.requests[0].header("authorization") is None
    assert seen.header("x-omniroute-connection") == "client"


# ------------------------------------------------------------ bodies and their codings


def _zstd(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


CODINGS: Mapping[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "br": brotli.compress, "zstd": _zstd}


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_request_reaches_another_connection_as_plain_text(
    coding: str, open_stage: OpenStage
) -> None:
    """Issue point 17: decoded before it is read; Codex sends zstd, which not every provider knows."""
    s = await open_stage({"id": "a", "models": {"gpt-*": "renamed-model"}}, config=NEVER)
    s.upstream.script(good("openai-responses"))
    q = question("openai-responses", text="grün")
    async with s.client(q) as client:
        headers = {**q.headers, "content-encoding": coding}
        seen = await client.request(q.method, q.path, headers=headers, body=CODINGS[coding](q.body))
    asked = s.upstream.requests[0]
    assert (seen.status, asked.header("content-encoding"), asked.key) == (200, None, "sk-a")
    assert asked.json() == {**json.loads(q.body), "model": "renamed-model"}
    assert asked.header("content-length") == str(len(asked.body))
    flow = await s.proxy.finished(1)
    assert json.loads(flow.request.content or b"")["model"] == "renamed-model"


@pytest.mark.parametrize("coding", CODINGS)
async def test_a_compressed_request_with_the_clients_own_credential_is_not_touched(
    coding: str, open_stage: OpenStage
) -> None:
    s = await open_stage()
    s.upstream.script(openai_chat())
    q = question()
    sent = CODINGS[coding](q.body)
    async with s.client(q) as client:
        await client.request(q.method, q.path, headers={**q.headers, "content-encoding": coding}, body=sent)
    asked = s.upstream.requests[0]
    assert (asked.body, asked.header("content-encoding"), asked.key) == (sent, coding, "sk-client")


@pytest.mark.parametrize("key", ["a", None])
async def test_a_chunked_request_gets_a_length(key: str | None, open_stage: OpenStage) -> None:
    s = await open_stage(*filter(None, [key]))
    s.upstream.script(openai_chat())
    q = question()
    chunked = b"".join(b"1\r\n" + bytes([byte]) + b"\r\n" for byte in q.body) + b"0\r\n\r\n"
    async with s.client(q) as client:
        await client.request(q.method, q.path, headers={**q.headers, "transfer-encoding": "chunked"}, body=chunked)
    asked = s.upstream.requests[0]
    assert asked.body == q.body
    assert [v for k, v in asked.headers if k in ("content-length", "transfer-encoding")] == [str(len(q.body))]


async def test_a_large_request_is_read_whole_whatever_mitmproxy_streams(open_stage: OpenStage) -> None:
    s = await open_stage("a", "b", config=NEVER, options={"stream_large_bodies": "1k"})
    s.upstream.script(json_reply({"error": {"message": "Slow down."}}, status=429), key="sk-a")
    s.upstream.script(openai_chat("ok"), key="sk-b")
    q = question(text="word " * 100_000)
    seen = await s.ask(q)
    assert (seen.status, seen.header("x-omniroute-connection")) == (200, "b")
    assert [r.body == q.body for r in s.upstream.requests] == [True, True]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_whole_whatever_mitmproxy_streams(stream: bool, open_stage: OpenStage) -> None:
    s = await open_stage(options={"stream_large_bodies": "100"})
    answer = openai_chat("word " * 1000, stream=stream)
    s.upstream.script(answer)
    seen = await s.ask(question(stream=stream))
    assert seen.body == b"".join(step for step in answer.steps if isinstance(step, bytes))
    assert seen.end == "complete"


async def test_mitmproxys_size_limit_still_holds(open_stage: OpenStage) -> None:
    s = await open_stage(options={"stream_large_bodies": "1k", "body_size_limit": "10k"})
    seen = await s.ask(question(text="word " * 10_000))
    assert (seen.status, s.upstream.requests) == (413, [])


@pytest.mark.parametrize("http2", [False, True])
async def test_a_renamed_model_changes_nothing_else(http2: bool, dialect: DialectName, open_stage: OpenStage) -> None:
    provider = {"anthropic-messages": "anthropic", "gemini": "gemini"}.get(dialect, "openai")
    entry = {"id": "a", "models": {"*": "a-much-longer-model-name"}}
    s = await open_stage(entry, provider=provider, http2=http2, config=NEVER)
    s.upstream.script(good(dialect))
    q = question(dialect, more={"metadata": {"n": 1.10, "u": "ü"}})
    seen = await s.ask(q, http2=http2)
    asked = s.upstream.requests[0]
    assert (seen.status, asked_model(asked)) == (200, "a-much-longer-model-name")
    assert {**asked.json(), "model": ""} == {**json.loads(q.body), "model": ""} or dialect == "gemini"
    assert asked.header("content-length") in (str(len(asked.body)), None)
    assert b"1.1" in asked.body


# ------------------------------------------------------------ headers


CREDENTIALS = {
    "bearer": ({"authorization": "Bearer sk-client"}, ""),
    "x-api-key": ({"x-api-key": "sk-client"}, ""),
    "api-key": ({"api-key": "sk-client"}, ""),
    "goog": ({"x-goog-api-key": "sk-client"}, ""),
    "several": ({"Authorization": "Bearer sk-client", "X-Api-Key": "sk-client-2", "x-goog-api-key": "sk-client-3"}, ""),
    "query": ({}, "key=sk-client&"),
    "query, other name": ({}, "api_key=sk-client&"),
    "cookie": ({"cookie": "session=sk-client"}, ""),
    "account": (
        {"authorization": "Bearer sk-client", "chatgpt-account-id": "sk-client", "openai-project": "sk-client"},
        "",
    ),
}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini"])
async def test_whatever_credential_came_the_connections_own_goes(provider: str, open_stage: OpenStage) -> None:
    """Issue point 17, `clients.md` 1 and 11: header, query, cookie and account headers of the client stay behind."""
    dialect: DialectName = {"anthropic": "anthropic-messages", "gemini": "gemini"}.get(provider, "openai-chat")  # type: ignore[assignment]
    name = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}.get(provider, "authorization")
    s = await open_stage("a", provider=provider, config=NEVER)
    s.upstream.script(good(dialect))
    q = question(dialect, key=None)
    for headers, query in CREDENTIALS.values():
        path, _, rest = q.path.partition("?")
        async with s.client(q) as client:
            await client.request(
                q.method, f"{path}?{query}{rest or 'x=1'}", headers={**q.headers, **headers}, body=q.body
            )
    for asked in s.upstream.requests:
        assert asked.header(name) == ("Bearer sk-a" if provider == "openai" else "sk-a")
        assert "sk-client" not in repr((asked.headers, asked.path))
        assert asked.path.endswith("?alt=sse" if provider == "gemini" else "?x=1")
    assert len(s.upstream.requests) == len(CREDENTIALS)


CONTROL = {
    "x-omniroute-anything": "1",
    "X-OmniRoute-Tag": "2",
    "x-session-id": "s1",
    "X-Codex-Session-Id": "s2",
    "proxy-authorization": "Basic c2VjcmV0",
}


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("own", [True, False])
async def test_control_headers_never_go_upstream(own: bool, http2: bool, open_stage: OpenStage) -> None:
    """`SA-55`, design.md §7.5, whoever's credential is used."""
    s = await open_stage(*([] if own else ["a"]), http2=http2)
    s.upstream.script(openai_chat())
    q = question()
    async with s.client(q, http2=http2) as client:
        headers = {**q.headers, **CONTROL, "x-keep": "yes"}
        await client.request(q.method, q.path, headers=headers, body=q.body)
    asked = s.upstream.requests[0]
    assert asked.header("x-keep") == "yes"
    assert not {k for k, _ in asked.headers} & {k.lower() for k in CONTROL}


async def test_headers_that_the_client_names_hop_by_hop_stay_behind(open_stage: OpenStage) -> None:
    s = await open_stage("a")
    s.upstream.script(openai_chat())
    q = question()
    async with s.client(q) as client:
        hop = {"connection": "keep-alive, X-Mine", "x-mine": "1", "keep-alive": "timeout=5", "te": "trailers"}
        await client.request(q.method, q.path, headers={**q.headers, **hop}, body=q.body)
    asked = s.upstream.requests[0]
    assert not {k for k, _ in asked.headers} & {"x-mine", "keep-alive", "te", "connection"}


async def test_a_stream_is_asked_for_without_compression(open_stage: OpenStage) -> None:
    """`clients.md` 6: it could not be watched frame by frame. A whole answer may be compressed as the client likes."""
    s = await open_stage()
    for stream, wanted in ((True, "identity"), (False, "gzip, br")):
        s.upstream.script(openai_chat(stream=stream))
        q = question(stream=stream)
        async with s.client(q) as client:
            await client.request(q.method, q.path, headers={**q.headers, "accept-encoding": "gzip, br"}, body=q.body)
        assert s.upstream.requests[-1].header("accept-encoding") == wanted


@pytest.mark.parametrize("client_http2", [False, True])
async def test_host_and_authority_are_the_targets(client_http2: bool) -> None:
    async with FakeUpstream(tls=False) as plain, FakeUpstream(http2=True) as other:
        entries: list[Any] = [
            {"id": "a", "base_url": plain.url},
            {"id": "b", "provider": "groq", "models": {"*": "m2"}},
        ]
        route = {"routes": [{"connections": ["a", "b"]}]}
        async with stage(*entries, config=route, rehost={"api.groq.com:443": other.address}) as s:
            plain.script(json_reply({"error": {"message": "Slow down."}}, status=429))
            other.script(openai_chat())
            seen = await s.ask(question(), http2=client_http2)
            assert seen.header("x-omniroute-connection") == "b"
            assert plain.requests[0].authority == f"127.0.0.1:{plain.port}"
            assert (other.requests[0].authority, other.requests[0].sni) == ("api.groq.com", "api.groq.com")
            assert other.requests[0].path == "/openai/v1/chat/completions"
            flow = await s.proxy.finished(1)
            assert (flow.request.pretty_host, flow.request.port, flow.request.scheme) == ("api.groq.com", 443, "https")
