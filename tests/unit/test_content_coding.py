"""Content codings are taken off, within bounds, at any cut."""

from __future__ import annotations

import contextlib
import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.content_coding import decode, decode_leniently, decoder

TEXT = b'{"model":"m","messages":[]}' * 40
CODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
}


@pytest.mark.parametrize("coding", CODED)
def test_each_coding_is_taken_off(coding: str) -> None:
    assert decode(CODED[coding], coding.upper(), limit=1 << 20) == TEXT


@pytest.mark.parametrize("coding", CODED)
def test_a_body_cut_at_every_byte_decodes_to_the_same(coding: str) -> None:
    chain = decoder(coding, limit=1 << 20)
    assert chain is not None
    assert b"".join(chain.feed(bytes([byte])) for byte in CODED[coding]) == TEXT


def test_identity_is_the_body_itself() -> None:
    assert decode(TEXT, "identity", limit=10) is TEXT
    assert decoder("", limit=10) is None


def test_stacked_codings_come_off_in_reverse() -> None:
    assert decode(gzip.compress(brotli.compress(TEXT)), "br, gzip", limit=1 << 20) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_refused_before_it_is_unpacked(coding: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress, "zstd": zstandard.compress}[coding]
    with pytest.raises(ValueError, match="too large"):
        decode(pack(bytes(50_000_000)), coding, limit=1 << 20)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_what_is_not_coded_as_it_says_is_a_value_error(coding: str) -> None:
    with pytest.raises(ValueError):
        decode(b"plain text, not coded at all", coding, limit=1 << 20)


def test_an_unknown_coding_names_those_that_are_known() -> None:
    with pytest.raises(ValueError, match="unknown content coding 'snappy'; known are gzip"):
        decode(b"", "snappy", limit=1)
    with pytest.raises(ValueError, match="5 content codings"):
        decoder("br,br,br,br,br", limit=1)


def test_reading_an_error_makes_the_best_of_a_broken_body() -> None:
    assert decode_leniently(TEXT, "snappy", limit=1000) == TEXT
    assert decode_leniently(TEXT, "", limit=5) == TEXT[:5]
    assert decode_leniently(b"not gzip", "gzip", limit=1000) == b"not gzip"
    assert decode_leniently(CODED["gzip"], "gzip", limit=1 << 20) == TEXT
    long = gzip.compress(zlib.crc32(b"x").to_bytes(4) * 400_000)
    assert len(decode_leniently(long, "gzip", limit=100)) <= 4096


@given(st.binary(max_size=300), st.sampled_from([*CODED, "snappy", "identity", "gzip, br"]))
def test_any_bytes_give_bytes_or_a_value_error(data: bytes, coding: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(decode(data, coding, limit=1000), bytes)
    assert isinstance(decode_leniently(data, coding, limit=1000), bytes)
