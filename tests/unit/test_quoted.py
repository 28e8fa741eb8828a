"""An upstream's quotation of our credential is taken out; everything else stays the same object."""

from __future__ import annotations

import gzip

import pytest

from omniroute_addon.exchange import RawAnswer
from omniroute_addon.quoted import unquoted
from omniroute_addon.testing.calls import make_answer, make_connection
from omniroute_addon.wire import HIDDEN

SAID = b'{"error":"bad key sk-a!"}'
CLEAN = f'{{"error":"bad key {HIDDEN}!"}}'.encode()


def raw(body: bytes, *headers: tuple[bytes, bytes]) -> RawAnswer:
    return RawAnswer(status=401, headers=headers, body=body)


def test_the_credential_is_taken_out_of_body_and_headers() -> None:
    answer, kept = unquoted(
        make_connection("a"), make_answer(401, SAID, headers={"x-key": "is sk-a"}), raw(SAID, (b"X-Key", b"is sk-a"))
    )
    assert (answer.body, dict(answer.headers)) == (CLEAN, {"x-key": f"is {HIDDEN}"})
    assert kept is not None
    assert (kept.body, kept.headers) == (CLEAN, ((b"X-Key", f"is {HIDDEN}".encode()),))


def test_a_coded_body_is_replaced_by_its_clean_text() -> None:
    coded = raw(gzip.compress(SAID), (b"Content-Encoding", b"gzip"), (b"x-a", b"1"))
    _, kept = unquoted(make_connection("a"), make_answer(401, SAID), coded)
    assert kept is not None
    assert (kept.body, kept.headers) == (CLEAN, ((b"x-a", b"1"),))


def test_a_credential_beyond_what_was_judged_is_taken_out_of_the_raw_answer() -> None:
    _, kept = unquoted(make_connection("a"), make_answer(401, b"{}"), raw(SAID))
    assert kept is not None
    assert kept.body == CLEAN


@pytest.mark.parametrize(
    "connection", [make_connection("a", own=True), make_connection("a", secret=None), make_connection("other")]
)
def test_whatever_does_not_quote_a_configured_credential_stays_the_same_object(connection: object) -> None:
    answer, kept = make_answer(401, SAID), raw(SAID)
    assert unquoted(connection, answer, kept) == (answer, kept)  # type: ignore[arg-type]
    assert unquoted(connection, answer, None)[0] is answer  # type: ignore[arg-type]
