"""The strict HTTP/1 reader, fed at every possible border."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.testing.message import BadMessage, MessageReader

CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nx-a: 1\r\n\r\n"
    b"4;ext=1\r\nwiki\r\n5\r\npedia\r\n0\r\nx-sum: 9\r\n\r\nstray"
)


def read(data: bytes, role: str = "response", **options: bool) -> MessageReader:
    reader = MessageReader(role, **options)  # type: ignore[arg-type]
    reader.feed(data)
    return reader


@given(st.lists(st.integers(0, len(CHUNKED)), max_size=8))
def test_the_borders_of_the_pieces_make_no_difference(borders):
    reader = MessageReader("response")
    body = b""
    edges = [0, *sorted(borders), len(CHUNKED)]
    for start, end in pairwise(edges):
        body += reader.feed(CHUNKED[start:end])
    assert (reader.done, body, bytes(reader.body)) == (True, b"wikipedia", b"wikipedia")
    assert [head.start[1] for head in reader.informational] == ["103"]
    assert reader.head is not None and reader.head.get("x-a") == "1"
    assert reader.trailers == (("x-sum", "9"),)
    assert bytes(reader.rest) == b"stray"


def test_a_counted_body_leaves_the_next_message_alone():
    reader = read(b"POST /a HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcGET /", "request")
    assert (reader.done, bytes(reader.body), bytes(reader.rest)) == (True, b"abc", b"GET /")


def test_a_request_without_length_has_no_body_and_an_answer_without_one_ends_with_the_connection():
    assert read(b"GET / HTTP/1.1\r\n\r\n", "request").done
    reader = read(b"HTTP/1.0 200\r\n\r\nabc")
    assert (reader.done, bytes(reader.body)) == (False, b"abc")
    assert reader.eof() and reader.done


def test_an_end_before_the_end_is_noticed():
    assert not read(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab").eof()
    assert not read(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n").eof()
    assert not read(b"HTTP/1.1 200 O").eof()


@pytest.mark.parametrize("status", ["204", "304"])
def test_some_answers_never_have_a_body(status):
    assert read(f"HTTP/1.1 {status} X\r\ncontent-length: 5\r\n\r\n".encode()).done
    assert read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", bodyless=True).done


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01 hello",
        b"NONSENSE\r\n\r\n",
        b"FTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nname : v\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
    ],
)
def test_what_is_no_http_is_refused(data):
    with pytest.raises(BadMessage):
        read(data)
