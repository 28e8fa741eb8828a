"""The event stream splitter: same frames and same bytes, wherever the network cuts (`ST-1`, `ST-2`)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.dialects.sse import Piece, SseEvent, SseSplitter, parse_event


def split(chunks: Iterable[bytes], limit: int = 64 * 1024) -> tuple[list[Piece], bytes]:
    splitter = SseSplitter(limit)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    assert splitter.pending == len(splitter.rest())
    return pieces, splitter.rest()


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n\r\n", b"\r\n\n"])
def test_a_frame_ends_at_a_blank_line_however_lines_end(end: bytes) -> None:
    pieces, rest = split([b"data: a" + end + b"data: b" + end])
    assert [piece.raw for piece in pieces] == [b"data: a" + end, b"data: b" + end]
    assert rest == b""


def test_lines_may_end_with_cr_alone_and_the_last_cr_stays_undecided() -> None:
    pieces, rest = split([b"data: a\r\rdata: b\r\r"])
    assert [piece.raw for piece in pieces] == [b"data: a\r\r"]
    assert rest == b"data: b\r\r"


def test_one_crlf_is_not_a_blank_line() -> None:
    assert split([b"event: x\r\ndata: a\r\n"]) == ([], b"event: x\r\ndata: a\r\n")


fragments = st.lists(
    st.sampled_from([b"data: x", b"\n", b"\r\n", b"\r", b"\n\n", b": c", b"\xef\xbb\xbf", "é".encode()])
)


@settings(deadline=None, max_examples=60)
@given(fragments, st.data())
def test_st_1_any_cut_gives_the_same_frames(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    pieces, rest = split(chunks)
    assert (pieces, rest) == split([whole])
    assert b"".join(piece.raw for piece in pieces) + rest == whole


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=200), st.integers(1, 40), st.integers(1, 20))
def test_st_2_no_more_than_the_limit_and_a_line_end_is_kept_of_an_unfinished_frame(
    whole: bytes, size: int, limit: int
) -> None:
    splitter = SseSplitter(limit)
    out = b""
    for start in range(0, len(whole), size):
        out += b"".join(piece.raw for piece in splitter.feed(whole[start : start + size]))
        assert splitter.pending <= limit + 3
    assert out + splitter.rest() == whole


def test_st_2_a_long_frame_comes_in_pieces_and_the_next_one_is_whole_again() -> None:
    pieces, rest = split([b"data: 0123456789\n", b"data: more", b"\n", b"\ndata: b\n\n"], limit=12)
    assert pieces == [
        Piece(b"data: 0123456789", long=True, ends=False),
        Piece(b"\ndata: more", long=True, ends=False),
        Piece(b"\n\n", long=True),
        Piece(b"data: b\n\n"),
    ]
    assert rest == b""


def test_st_2_a_long_frame_is_long_even_when_it_comes_at_once() -> None:
    assert split([b"data: 0123456789\n\n"], limit=12)[0] == [Piece(b"data: 0123456789\n\n", long=True)]


@pytest.mark.parametrize(
    ("raw", "event"),
    [
        (b"data: a\n\n", SseEvent(data=b"a")),
        (b"data:a\ndata:  b\n\n", SseEvent(data=b"a\n b")),
        (b"\xef\xbb\xbfevent: ping \r\ndata\r\n\r\n", SseEvent(name="ping", data=b"")),
        (b": keep\n\n", SseEvent(comment=True)),
        (b"id: 1\nretry: 5\n\n", SseEvent()),
        (b"event: \xff\n\n", SseEvent(name="\ufffd")),
        (b"<html>\n\n", SseEvent()),
        (b'{\n  "error": {}\n}\n\n', SseEvent(data=b'{\n  "error": {}\n}', bare=True)),
        (b"data: x\n{}\n\n", SseEvent(data=b"x")),
    ],
)
def test_fields_are_read_as_the_format_says(raw: bytes, event: SseEvent) -> None:
    assert parse_event(raw) == event
