"""What goes on the wire, and what the flow shows of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.model import Auth, Connection, Target
from omniroute_addon.secrets import secret_of
from omniroute_addon.wire import (
    Incoming,
    as_mapping,
    client_secret,
    decoded_body,
    outgoing,
    shown_headers,
    shown_path,
    visible_headers,
)

CLIENT_KEY, POOL_KEY = "sk-client-0123456789", "sk-pool-9876543210"
URL = "https://api.openai.com/v1/chat/completions"


def incoming(*headers: tuple[str, str], path: str = "/v1/chat/completions", body: bytes = b"{}") -> Incoming:
    fields = tuple((k.encode(), v.encode()) for k, v in headers)
    return Incoming(
        method="POST", scheme="https", host="api.openai.com", port=443, path=path, headers=fields, body=body
    )


def target(*, own: bool = False, auth: Auth | None = None, key: str | None = POOL_KEY, **headers: str) -> Target:
    connection = Connection(id="a", provider="openai", secret=secret_of(key) if key else None, own=own)
    return Target(
        connection=connection,
        dialect="openai-chat",
        url=URL,
        model="m",
        auth=auth or Auth(),
        headers={k.replace("_", "-"): v for k, v in headers.items()},
    )


def send(request: Incoming, to: Target, *, url: str = URL, stream: bool = False, **kwargs: object):
    to = to if to.connection.own else replace(to, url=url)
    return outgoing(request, target=to, body=request.body, stream=stream, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "API-Key", "x-goog-api-key"])
def test_whatever_credential_came_is_taken_away_and_the_targets_is_set(header: str) -> None:
    """`clients.md` 1."""
    value = f"Bearer {CLIENT_KEY}" if header == "Authorization" else CLIENT_KEY
    request = incoming((header, value), ("Content-Type", "application/json"))
    out = as_mapping(send(request, target(auth=Auth(header="x-api-key", scheme=""))).headers)
    assert out["x-api-key"] == POOL_KEY
    assert CLIENT_KEY not in repr(out)
    secret = client_secret(request)
    assert secret is not None and secret.value == CLIENT_KEY


def test_a_key_in_the_query_is_a_credential_too() -> None:
    request = incoming(path=f"/v1beta/models/g:streamGenerateContent?alt=sse&key={CLIENT_KEY}")
    secret = client_secret(request)
    assert secret is not None and secret.value == CLIENT_KEY
    out = send(request, target(auth=Auth(header="", query="key")), url="https://x.example/v1/models/g:go")
    assert out.path == f"/v1/models/g:go?alt=sse&key={POOL_KEY}"
    assert shown_path(request.path) == "/v1beta/models/g:streamGenerateContent?alt=sse"
    assert shown_path("/a?key=1") == "/a" and shown_path("/a") == "/a"
    assert client_secret(incoming()) is None


def test_the_clients_own_connection_keeps_address_credential_and_bytes() -> None:
    request = incoming(
        ("Host", "us.api.openai.com"), ("X-Stainless-Lang", "python"), ("Authorization", f"Bearer {CLIENT_KEY}")
    )
    out = send(request, target(own=True, key=CLIENT_KEY))
    assert (out.scheme, out.host, out.port, out.path) == ("https", "api.openai.com", 443, "/v1/chat/completions")
    assert out.headers == (
        (b"Host", b"us.api.openai.com"),
        (b"X-Stainless-Lang", b"python"),
        (b"content-length", b"2"),
        (b"Authorization", f"Bearer {CLIENT_KEY}".encode()),
    )
    assert out.body is request.body


def test_hop_by_hop_and_control_headers_never_go_upstream() -> None:
    """`design.md` §7.5, `SA-55`."""
    request = incoming(
        ("Connection", "keep-alive, X-Once"),
        ("X-Once", "1"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("Transfer-Encoding", "chunked"),
        ("Proxy-Authorization", "Basic eA=="),
        ("X-OmniRoute-Session", "s"),
        ("x-session-id", "s"),
        ("X-Codex-Session-Id", "s"),
        ("Expect", "100-continue"),
        ("Content-Length", "999"),
        ("User-Agent", "u"),
    )
    for own in (True, False):
        names = set(as_mapping(send(request, target(own=own)).headers))
        assert names - {"host", "authorization"} == {"user-agent", "content-length"}


def test_what_is_bound_to_the_clients_account_does_not_travel_to_another() -> None:
    """`clients.md` 11."""
    request = incoming(
        ("chatgpt-account-id", "acc"), ("x-codex-turn-state", "t"), ("OpenAI-Organization", "org"), ("Cookie", "c=1")
    )
    assert set(as_mapping(send(request, target()).headers)) == {"host", "authorization", "content-length"}
    assert "chatgpt-account-id" in as_mapping(send(request, target(own=True)).headers)


def test_headers_of_the_target_are_set_only_when_absent() -> None:
    out = as_mapping(send(incoming(("X-One", "client")), target(x_one="pack", x_two="pack")).headers)
    assert (out["x-one"], out["x-two"]) == ("client", "pack")


def test_list_headers_follow_the_login_of_the_target() -> None:
    """A Claude subscription needs a word on `anthropic-beta` that an API key must not have, and the reverse."""
    request = incoming(("Anthropic-Beta", "tools-1, oauth-1"), ("anthropic-beta", "cache-1"))
    key = replace(target(), unlisted={"anthropic-beta": frozenset({"oauth-1"})})
    assert as_mapping(send(request, key).headers)["anthropic-beta"] == "tools-1,cache-1"
    token = replace(target(), listed={"anthropic-beta": "oauth-1"})
    assert as_mapping(send(request, token).headers)["anthropic-beta"] == "tools-1,oauth-1,cache-1"
    assert as_mapping(send(incoming(), token).headers)["anthropic-beta"] == "oauth-1"
    alone = incoming(("anthropic-beta", "oauth-1"))
    assert "anthropic-beta" not in as_mapping(send(alone, key).headers)


def test_streams_are_asked_for_without_compression() -> None:
    request = incoming(("Accept-Encoding", "gzip, br, zstd"))
    assert as_mapping(send(request, target(), stream=True).headers)["accept-encoding"] == "identity"
    assert as_mapping(send(request, target()).headers)["accept-encoding"] == "gzip, br, zstd"


def test_content_length_and_coding_follow_the_body() -> None:
    request = incoming(("Content-Encoding", "zstd"), ("Content-Length", "2"), body=b"zz")
    own = as_mapping(send(request, target(own=True)).headers)
    assert (own["content-encoding"], own["content-length"]) == ("zstd", "2")
    out = outgoing(request, target=target(), body=b"longer body", stream=False)
    fields = as_mapping(out.headers)
    assert fields["content-length"] == "11" and "content-encoding" not in fields


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://h.example/p", "h.example"),
        ("http://h.example/p", "h.example"),
        ("https://h.example:8443/p", "h.example:8443"),
        ("http://[::1]:9/p", "[::1]:9"),
        ("https://bücher.example/p", "xn--bcher-kva.example"),
    ],
)
def test_host_is_the_targets(url: str, authority: str) -> None:
    out = send(incoming(("Host", "api.openai.com")), target(), url=url)
    assert out.headers[0] == (b"host", authority.encode())


def test_the_clients_query_is_kept_behind_the_endpoints_own() -> None:
    out = send(incoming(path="/x?beta=true&v=2&key=secret"), target(), url="https://h.example/p?v=1")
    assert out.path == "/p?v=1&beta=true"
    assert send(incoming(), target(), url="https://h.example").path == "/"


def test_plugins_changes_are_applied() -> None:
    request = incoming(("X-Keep", "1"), ("X-Change", "1"), ("X-Drop", "1"))
    out = as_mapping(send(request, target(), changes={"x-change": "2", "x-drop": None, "x-new": "3"}).headers)
    assert (out["x-keep"], out["x-change"], out["x-new"]) == ("1", "2", "3") and "x-drop" not in out


def test_the_flow_shows_a_mark_in_place_of_every_credential() -> None:
    fields = (
        (b"Authorization", f"Bearer {CLIENT_KEY}".encode()),
        (b"X-Api-Key", CLIENT_KEY.encode()),
        (b"Cookie", b"s=1"),
    )
    shown = shown_headers((*fields, (b"Accept", b"*/*")))
    assert CLIENT_KEY not in repr(shown) and b"s=1" not in repr(shown).encode()
    digest = secret_of(CLIENT_KEY).digest
    assert shown[0] == (b"Authorization", f"Bearer [omniroute: client credential {digest}]".encode())
    assert shown[-1] == (b"Accept", b"*/*")
    assert shown_headers(shown) == shown
    assert client_secret(Incoming(**{**_fields(incoming()), "headers": shown})) is None


def _fields(request: Incoming) -> dict[str, object]:
    return {name: getattr(request, name) for name in Incoming.__slots__}


def test_a_coded_body_is_read() -> None:
    import gzip

    assert decoded_body(incoming(("content-encoding", "gzip"), body=gzip.compress(b"{}"))) == b"{}"


@given(st.lists(st.tuples(st.text(st.characters(max_codepoint=127), min_size=1), st.binary())))
def test_no_header_makes_it_fail_and_no_secret_gets_through(headers: list[tuple[str, bytes]]) -> None:
    fields = (*((k.encode(), v) for k, v in headers), (b"x-api-key", CLIENT_KEY.encode()))
    request = Incoming(method="POST", scheme="https", host="h", port=1, path="/", headers=fields, body=b"")
    to = target()
    assert CLIENT_KEY.encode() not in b"".join(v for _, v in send(request, to).headers)
    assert CLIENT_KEY.encode() not in b"".join(v for _, v in visible_headers(request, target=to))
    assert CLIENT_KEY.encode() not in b"".join(v for _, v in shown_headers(fields))
