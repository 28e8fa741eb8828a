"""What somebody broke on purpose, and must not break again."""

from __future__ import annotations

import gzip
import zlib
from random import Random
from typing import Any

import pytest
import zstandard
from engine_scene import Scene, bad_request, connections

from omniroute_addon.content_coding import decode, decoder, is_known
from omniroute_addon.deadlines import Deadlines
from omniroute_addon.decisions import WHOLE_BYTES, Commit
from omniroute_addon.dialects import dialect
from omniroute_addon.plugin_answers import checked
from omniroute_addon.settings import Settings
from omniroute_addon.testing.answers import good
from omniroute_addon.testing.calls import make_call
from omniroute_addon.watch import Watch

WHOLE = good("openai-chat", stream=False).body
EVENTS = b"".join(step for step in good("openai-chat").steps if isinstance(step, bytes))
BARE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
CODED = {
    "gzip": gzip.compress(WHOLE[:30]) + gzip.compress(b"") + gzip.compress(WHOLE[30:]),
    "x-gzip": gzip.compress(WHOLE) + bytes(20),
    "deflate": BARE.compress(WHOLE) + BARE.flush(),
    "zstd": zstandard.compress(WHOLE[:30]) + zstandard.compress(WHOLE[30:]),
}


def packed(coding: str, data: bytes) -> bytes:
    return gzip.compress(data) if coding == "gzip" else zstandard.compress(data)


def watch(*, stream: bool) -> Watch:
    deadlines = Deadlines(
        call=make_call(stream=stream), settings=Settings(), started_at=0.0, call_deadline_at=9.0, alternatives=False
    )
    return Watch(dialect=dialect("openai-chat"), deadlines=deadlines)


def head(kind: bytes, coding: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"content-type", kind), (b"content-encoding", coding.encode()))


@pytest.mark.parametrize("coding", CODED)
@pytest.mark.parametrize("every", [1, 7, 1 << 20])
def test_a_body_in_several_members_or_bare_deflate_is_read_whole(coding: str, every: int) -> None:
    """Clients read all of these, so judging less than the whole failed good answers."""
    chain, body = decoder(coding, limit=len(WHOLE)), CODED[coding]
    assert chain is not None
    assert b"".join(chain.feed(body[at : at + every]) for at in range(0, len(body), every)) == WHOLE


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_members_share_one_limit(coding: str) -> None:
    one = packed(coding, bytes(600))
    with pytest.raises(ValueError, match="too large"):
        decode(one * 2, coding, limit=1000)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_later_member_that_breaks_is_an_error(coding: str) -> None:
    one = packed(coding, Random(1).randbytes(300_000))
    broken = one[: len(one) // 2] + bytes(100) + one[len(one) // 2 :]
    with pytest.raises(ValueError):
        decode(one + broken, coding, limit=1 << 20)


@pytest.mark.parametrize("coding", ["snappy", "gzip, aws-chunked"])
def test_an_answer_in_a_coding_that_we_do_not_know_is_the_clients(coding: str) -> None:
    assert not is_known(coding)
    seen = watch(stream=False)
    seen.head(200, head(b"application/json", coding), 0.0)
    seen.data(b"\x01\x02", 0.0)
    assert seen.end() == Commit(b"\x01\x02")


def test_a_mislabelled_stream_in_the_coding_identity_streams() -> None:
    """It was taken for a coded body and held until its end."""
    seen = watch(stream=True)
    seen.head(200, head(b"application/json", "identity"), 0.0)
    assert isinstance(seen.data(EVENTS, 0.0), Commit)


def test_a_byte_order_mark_hides_no_event_stream() -> None:
    assert dialect("openai-chat").judge_body(b"\xef\xbb\xbf" + EVENTS) is None


@pytest.mark.parametrize("body", ["text", 5, ["{}"]])
def test_a_repair_that_is_no_bytes_is_refused_where_it_is_said(body: Any) -> None:
    with pytest.raises(TypeError, match="bytes"):
        checked("repair", body)


def test_a_models_name_forges_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(connections=connections("a"), verdicts=[bad_request()])
    call = scene.call(body=b'{"model": "m\\r\\nERROR forged", "messages": []}')
    with caplog.at_level("INFO"):
        scene.play(call)
    assert "model=m??ERROR forged" in caplog.text
    assert not any("\n" in line.getMessage() or "\r" in line.getMessage() for line in caplog.records)


def test_a_coded_stream_that_blows_up_is_passed_on_unwatched() -> None:
    """Some hundred bytes of it held up every other stream for as long as it took to unpack them."""
    bomb = zstandard.compress(b": " + bytes(WHOLE_BYTES + 1))
    seen = watch(stream=True)
    seen.head(200, head(b"text/event-stream", "zstd"), 0.0)
    assert seen.data(bomb, 0.0) == Commit(bomb)
    assert seen.relay(b"more", 0.0) == b"more"
