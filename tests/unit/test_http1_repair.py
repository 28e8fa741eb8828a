"""Answers over HTTP/1 as the attempt loop meets them: bytes in, mitmproxy's events out."""

from __future__ import annotations

from typing import Any

import h11
import pytest
from h11._readers import ChunkedReader
from h11._receivebuffer import ReceiveBuffer
from hypothesis import given, settings
from hypothesis import strategies as st
from mitmproxy import http
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http._base import ReceiveHttp
from mitmproxy.proxy.layers.http._events import (
    RequestEndOfMessage,
    RequestHeaders,
    ResponseData,
    ResponseEndOfMessage,
    ResponseHeaders,
    ResponseProtocolError,
)
from mitmproxy.test.tflow import tclient_conn

from omniroute_addon.stream.http1_repair import HEAD_BYTES, AnswerReader, AttemptHttp1Client, EndWithTrailers
from omniroute_addon.stream.patience import FIRST_ATTEMPT_ID

OURS, THEIRS = FIRST_ATTEMPT_ID, 1


class Upstream:
    """One connection after a request was sent on it."""

    def __init__(self, stream_id: int = OURS) -> None:
        context = Context(tclient_conn(), Options())
        context.server = Server(address=("upstream.example", 80))
        context.server.state = ConnectionState.OPEN
        self.layer = AttemptHttp1Client(context)
        self.closed = False
        self.ask(stream_id)

    def ask(self, stream_id: int) -> None:
        request = http.Request.make("POST", "http://upstream.example/v1", b"", {"host": "upstream.example"})
        for event in (events.Start(), RequestHeaders(stream_id, request, True), RequestEndOfMessage(stream_id)):
            if not isinstance(event, events.Start) or self.layer.state == self.layer.start:
                self._take(event)

    def says(self, data: bytes) -> list[Any]:
        return self._take(events.DataReceived(self.layer.conn, data))

    def leaves(self) -> list[Any]:
        self.layer.conn.state = ConnectionState.CAN_WRITE
        return self._take(events.ConnectionClosed(self.layer.conn))

    def _take(self, event: events.Event) -> list[Any]:
        out = list(self.layer.handle_event(event))
        self.closed = self.closed or any(isinstance(c, commands.CloseConnection) for c in out)
        return [c.event for c in out if isinstance(c, ReceiveHttp)]


def kinds(heard: list[Any]) -> list[type]:
    return [type(event) for event in heard]


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"


@pytest.mark.parametrize("every", [1, 7, 1000])
def test_interim_answers_are_skipped_however_they_are_cut(every: int) -> None:
    """Issue 2 point 23: mitmproxy alone takes `100 Continue` for the answer."""
    upstream, whole = Upstream(), INTERIM + ANSWER
    heard = [event for at in range(0, len(whole), every) for event in upstream.says(whole[at : at + every])]
    assert heard[0].response.status_code == 200
    assert b"".join(event.data for event in heard if isinstance(event, ResponseData)) == b"hi"
    assert kinds(heard)[-1] is ResponseEndOfMessage and not upstream.closed


def test_the_connection_is_good_for_the_next_request_after_an_interim_answer() -> None:
    upstream = Upstream()
    upstream.says(INTERIM + ANSWER)
    upstream.ask(OURS + 2)
    assert kinds(upstream.says(INTERIM + ANSWER)) == [ResponseHeaders, ResponseData, ResponseEndOfMessage]


def test_switching_protocols_is_a_final_answer() -> None:
    heard = Upstream().says(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n")
    assert heard[0].response.status_code == 101


def test_a_body_that_looks_like_an_interim_answer_is_a_body() -> None:
    heard = Upstream().says(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(INTERIM), INTERIM))
    assert b"".join(event.data for event in heard if isinstance(event, ResponseData)) == INTERIM


def test_an_upstream_that_leaves_after_an_interim_answer_has_not_answered() -> None:
    upstream = Upstream()
    assert upstream.says(INTERIM) == []
    assert [event.message for event in upstream.leaves()] == ["server closed connection"]


@pytest.mark.parametrize("every", [1, 1000])
def test_trailers_come_between_the_body_and_its_end(every: int) -> None:
    """Issue 2 point 23: mitmproxy alone raises NotImplementedError and the exchange hangs."""
    upstream, whole = Upstream(), CHUNKED + b"x-checksum: 1\r\nx-more: 2\r\n\r\n"
    heard = [event for at in range(0, len(whole), every) for event in upstream.says(whole[at : at + every])]
    assert kinds(heard)[-2:] == [ResponseData, EndWithTrailers]
    assert heard[-1].trailers.fields == ((b"x-checksum", b"1"), (b"x-more", b"2"))
    assert not upstream.closed


def test_the_next_answer_on_the_connection_has_no_trailers_of_the_last() -> None:
    upstream = Upstream()
    upstream.says(CHUNKED + b"x-checksum: 1\r\n\r\n")
    upstream.ask(OURS + 2)
    assert kinds(upstream.says(ANSWER))[-1] is ResponseEndOfMessage


def test_without_trailers_none_are_told() -> None:
    assert kinds(Upstream().says(CHUNKED + b"\r\n")) == [ResponseHeaders, ResponseData, ResponseEndOfMessage]


def test_a_chunked_body_that_is_cut_is_an_error() -> None:
    upstream = Upstream()
    upstream.says(CHUNKED)
    assert kinds(upstream.leaves()) == [ResponseProtocolError]


@pytest.mark.parametrize("every", [4096, 65535])
def test_a_head_without_end_is_an_error_at_its_bound(every: int) -> None:
    """Issue 2 point 23: oversized heads; mitmproxy alone keeps them all in memory."""
    upstream, heard, sent = Upstream(), [], 0
    upstream.says(b"HTTP/1.1 200 OK\r\nx-padding: ")
    while not heard and sent < 4 * HEAD_BYTES:
        heard, sent = upstream.says(b"p" * every), sent + every
    assert [event.message for event in heard] == [f"the response head is longer than {HEAD_BYTES} bytes"]
    assert upstream.closed
    assert upstream.says(b"p" * every) == [] and upstream.leaves() == []


def test_a_large_body_behind_a_small_head_is_no_large_head() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (2 * HEAD_BYTES)
    assert ResponseProtocolError not in kinds(Upstream().says(head + b"b" * 2 * HEAD_BYTES))


def test_what_is_not_ours_is_mitmproxys_business() -> None:
    """An exchange without us behaves as without us, faults included."""
    assert Upstream(THEIRS).says(INTERIM)[0].response.status_code == 100
    with pytest.raises(NotImplementedError):
        Upstream(THEIRS).says(CHUNKED + b"x-checksum: 1\r\n\r\n")
    assert Upstream(THEIRS).says(b"HTTP/1.1 200 OK\r\nx-padding: " + b"p" * 2 * HEAD_BYTES) == []


@settings(max_examples=300)
@given(
    st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=6),
    st.lists(st.integers(1, 30), max_size=12),
    st.sampled_from([b"", b"x-checksum: 1\r\n"]),
    st.sampled_from([b"%x\r\n", b"%X\r\n", b"%05x\r\n", b"%x;ext=1\r\n", b"%x \r\n"]),
)
def test_chunks_are_read_as_h11_reads_them(chunks: list[bytes], cuts: list[int], trailers: bytes, head: bytes) -> None:
    """However they are cut: the same bytes, the same end, and nothing left over."""
    wire = b"".join(head % len(c) + c + b"\r\n" for c in chunks) + b"0\r\n" + trailers + b"\r\n"
    ours, theirs = AnswerReader(), ChunkedReader()
    seen = [read(ours, wire, cuts), read(theirs, wire, cuts)]
    assert seen[0] == seen[1] == b"".join(chunks)
    assert bool(ours.trailers) is bool(trailers)


@pytest.mark.parametrize(
    "wire", [b"5\r\nhelloXX", b"g\r\n", b"\r\n\r\n", b"-1\r\n\r\n", b"123456789abcdef012345\r\n", b" 5\r\nhello"]
)
def test_what_h11_refuses_is_refused(wire: bytes) -> None:
    for reader in (AnswerReader(), ChunkedReader()):
        with pytest.raises(h11.ProtocolError):
            read(reader, wire, [])


def read(reader: ChunkedReader, wire: bytes, cuts: list[int]) -> bytes:
    """The body, given to the reader in pieces of these lengths, the rest at once."""
    buf, body = ReceiveBuffer(), b""
    for size in (*cuts, len(wire)):
        piece, wire = wire[:size], wire[size:]
        buf += piece
        while (event := reader(buf)) is not None:
            if isinstance(event, h11.EndOfMessage):
                assert not wire and not buf
                return body
            body += bytes(event.data)
    raise AssertionError("it never ended")
