"""Between mitmproxy's requests and answers and ours: what is shown, what goes on the wire, what the client gets."""

from __future__ import annotations

from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.proxy.mode_specs import ProxyMode
from mitmproxy.test.tflow import tflow

from omniroute_addon.exchange import Reply
from omniroute_addon.stream.copies import (
    frame_stream,
    hide_credentials,
    incoming_of,
    meant_host,
    response_of,
    show_target,
    wire_request,
)
from omniroute_addon.testing.calls import make_connection, make_target
from omniroute_addon.wire import Outgoing

BODY = b'{"model": "m"}'


def request(
    *fields: tuple[str, str],
    version: str = "HTTP/1.1",
    authority: str = "",
    path: str = "/v1/x?key=AIza-secret&alt=sse",
) -> http.Request:
    made = http.Request.make("POST", "https://api.openai.com/v1/x", BODY)
    made.data.headers = http.Headers([(k.encode(), v.encode()) for k, v in fields])
    made.path, made.http_version, made.authority = path, version, authority
    made.timestamp_start, made.timestamp_end = 1.0, 2.0
    return made


def outgoing(**fields: Any) -> Outgoing:
    defaults = {
        "scheme": "https",
        "host": "gate.example",
        "port": 8443,
        "path": "/v2/x?key=AIza-pool&alt=sse",
        "headers": ((b"host", b"gate.example:8443"), (b"authorization", b"Bearer sk-pool"), (b"x", b"1"), (b"x", b"2")),
        "body": b'{"model": "other"}',
    }
    return Outgoing(**{**defaults, **fields})


POOL = make_target("pool")
OWN = make_target(make_connection("client:abc", own=True))


def text_of(made: http.Request) -> str:
    """All that a dump, a log or mitmweb could show."""
    return repr(made.get_state())


# ---------------------------------------------------------------- whose host


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1"])
@pytest.mark.parametrize(
    ("mode", "named"), [("regular", True), ("transparent", True), ("reverse:https://h.example", False)]
)
def test_the_host_that_the_client_meant_when_there_is_only_an_address(mode: str, named: bool, address: str) -> None:
    """In reverse mode the operator named it, whatever `Host` says."""
    flow = tflow(req=request(("host", "api.openai.com")))
    flow.request.data.host = address
    flow.client_conn.proxy_mode = ProxyMode.parse(mode)
    assert meant_host(flow) == ("api.openai.com" if named else address)


def test_a_name_that_was_dialled_is_the_name_that_was_meant() -> None:
    flow = tflow(req=request(("host", "other.example")))
    assert meant_host(flow) == "api.openai.com"


# ---------------------------------------------------------------- what came, what is shown


def test_the_clients_request_as_a_value() -> None:
    made = request(("Host", "api.openai.com"), ("Authorization", "Bearer sk-client"), ("X", "1"), ("x", "2"))
    value = incoming_of(made)
    assert (value.method, value.scheme, value.host, value.port) == ("POST", "https", "api.openai.com", 443)
    assert value.path == "/v1/x?key=AIza-secret&alt=sse"
    assert value.headers == tuple(made.headers.fields)
    assert value.body == BODY
    made.raw_content = None
    assert incoming_of(made).body == b""


def test_a_coded_body_stays_coded() -> None:
    made = request(("content-encoding", "gzip"))
    made.raw_content = b"\x1f\x8b not really"
    assert incoming_of(made).body == b"\x1f\x8b not really"


def test_the_flow_shows_marks_instead_of_credentials() -> None:
    """`design.md` §7.2."""
    made = request(
        ("Authorization", "Bearer sk-client"), ("x-api-key", "sk-client"), ("cookie", "c=secret"), ("x", "1")
    )
    hide_credentials(made)
    assert made.path == "/v1/x?alt=sse"
    assert "sk-client" not in text_of(made) and "secret" not in text_of(made)
    assert made.headers["x"] == "1" and "omniroute" in made.headers["authorization"]


def test_a_path_without_a_query_is_shown_as_it_is() -> None:
    made = request(path="/v1/x")
    hide_credentials(made)
    assert made.path == "/v1/x"


def test_the_flow_shows_where_an_attempt_goes_without_its_credential() -> None:
    made = request(("host", "api.openai.com"), ("content-encoding", "gzip"))
    show_target(made, outgoing(), POOL, own_body=BODY)
    assert (made.scheme, made.host, made.port, made.path) == ("https", "gate.example", 8443, "/v2/x?alt=sse")
    assert (made.headers["host"], made.raw_content) == ("gate.example:8443", b'{"model": "other"}')
    assert "content-encoding" not in made.headers and made.authority == ""
    assert "pool" not in text_of(made)


def test_an_authority_is_shown_only_where_there_was_one_and_no_host_header_is_made_up() -> None:
    made = request(version="HTTP/2.0", authority="api.openai.com")
    show_target(made, outgoing(), POOL, own_body=BODY)
    assert made.authority == "gate.example:8443" and "host" not in made.headers


def test_an_unchanged_body_keeps_its_coding() -> None:
    made, body = request(("content-encoding", "gzip")), b"coded"
    made.raw_content = body
    show_target(made, outgoing(body=body), POOL, own_body=body)
    assert made.headers["content-encoding"] == "gzip" and made.raw_content is body


def test_the_clients_own_connection_changes_nothing_of_what_is_shown() -> None:
    made = request(("host", "api.openai.com"))
    before = text_of(made)
    show_target(made, outgoing(), OWN, own_body=BODY)
    assert text_of(made) == before


# ---------------------------------------------------------------- on the wire


def test_the_copy_carries_the_credential_and_the_flow_does_not() -> None:
    shown = request(("host", "api.openai.com"), path="/v1/x")
    before = text_of(shown)
    wire = wire_request(shown, outgoing())
    assert (wire.method, wire.scheme, wire.host, wire.port) == ("POST", "https", "gate.example", 8443)
    assert wire.path == "/v2/x?key=AIza-pool&alt=sse"
    assert wire.headers.fields == outgoing().headers
    assert (wire.raw_content, wire.trailers, wire.http_version, wire.authority) == (
        b'{"model": "other"}',
        None,
        "HTTP/1.1",
        "",
    )
    assert (wire.timestamp_start, wire.timestamp_end) == (1.0, 2.0)
    assert text_of(shown) == before


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/3"])
@pytest.mark.parametrize(("had", "has"), [("", "gate.example:8443"), ("api.openai.com", "api.openai.com")])
def test_http2_names_the_host_as_authority_only(version: str, had: str, has: str) -> None:
    wire = wire_request(request(version=version, authority=had), outgoing())
    assert (wire.authority, wire.headers.get_all("host"), wire.headers.get_all("x")) == (has, [], ["1", "2"])


def test_a_host_with_other_letters_goes_as_punycode_and_odd_bytes_of_a_path_as_they_came() -> None:
    wire = wire_request(request(version="HTTP/2.0", authority="bücher.example"), outgoing(path="/\udcff"))
    assert wire.data.authority == b"xn--bcher-kva.example"
    assert wire.data.path == b"/\xff"


# ---------------------------------------------------------------- to the client


def test_a_reply_becomes_an_answer_byte_for_byte() -> None:
    """Neither coded once more nor given another length, as `Response.make` would."""
    fields = ((b"X", b"1"), (b"x", b"2"), (b"content-encoding", b"br"), (b"content-length", b"1"))
    made = response_of(Reply(status=429, headers=fields, body=b"\x8b"))
    assert (made.status_code, made.reason, made.raw_content) == (429, "Too Many Requests", b"\x8b")
    assert made.headers.fields == fields


@pytest.mark.parametrize(("version", "chunked"), [("HTTP/1.1", "chunked"), ("HTTP/1.0", None), ("HTTP/2.0", None)])
def test_st_31_a_stream_is_framed_so_that_a_cut_is_no_end(version: str, chunked: str | None) -> None:
    """ST-31: and so that an error fits behind what was announced."""
    answer = http.Response.make(200, b"", {"content-length": "5"})
    frame_stream(request(version=version), answer)
    assert "content-length" not in answer.headers
    assert answer.headers.get("transfer-encoding") == chunked
