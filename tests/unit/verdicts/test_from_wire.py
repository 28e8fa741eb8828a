"""From bytes on the wire to the answer that the proxy would judge."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.model import DIALECTS, DialectName
from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import load_packs
from omniroute_addon.verdicts.from_wire import (
    Heard,
    answer_from_wire,
    dialect_of_body,
    dialect_of_door,
    transport_fault,
)

PACKS = load_packs(pack_folders()[:1])[0]
SSE = {"content-type": "text/event-stream"}
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
ERROR = b'data: {"error":{"message":"Overloaded","type":"server_error","code":503}}\n\n'


def hear(
    body: bytes = b"",
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    stream: bool = False,
    dialect: DialectName | None = "openai-chat",
) -> Heard:
    return answer_from_wire(status=status, headers=headers or {}, body=body, stream=stream, dialect=dialect)


def test_an_error_status_is_judged_with_its_headers_and_decoded_body() -> None:
    packed = gzip.compress(b'{"error":{"message":"slow"}}')
    heard = hear(packed, status=429, headers={"Content-Encoding": "gzip", "Retry-After": "5"})
    assert heard.failed and not heard.committed
    assert heard.answer.status == 429 and heard.answer.body == b'{"error":{"message":"slow"}}'
    assert heard.answer.headers["retry-after"] == "5"


def test_a_good_answer_is_delivered_unasked() -> None:
    heard = hear(
        b'{"object":"chat.completion","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}'
    )
    assert heard.committed and not heard.failed
    assert hear(CHUNK + LAST, headers=SSE, stream=True).failed is False


def test_an_error_inside_a_success_is_a_failure() -> None:
    """A10"""
    heard = hear(b'{"error":{"message":"no","code":500}}')
    assert heard.failed and not heard.committed and heard.answer.status == 200


def test_an_error_event_before_output_is_a_failure_that_nobody_saw() -> None:
    heard = hear(ERROR, headers=SSE, stream=True)
    assert heard.failed and not heard.committed and heard.answer.stream
    assert b"Overloaded" in heard.answer.body


def test_an_error_event_after_output_is_a_failure_that_the_client_saw() -> None:
    """ST-35"""
    heard = hear(CHUNK + ERROR, headers=SSE, stream=True)
    assert heard.failed and heard.committed
    assert b"Overloaded" in heard.answer.body


def test_a_stream_that_stops_in_the_middle_is_truncated() -> None:
    heard = hear(CHUNK, headers=SSE, stream=True)
    assert heard.failed and heard.committed
    assert heard.answer.status == 0 and heard.answer.fault == "truncated"


def test_an_empty_success_is_a_failure() -> None:
    """A16"""
    heard = hear(b"")
    assert heard.failed and heard.answer.fault == "empty"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("connect ECONNREFUSED 127.0.0.1:11434", "connect_failed"),
        ("getaddrinfo ENOTFOUND api.example.com", "connect_failed"),
        ("certificate verify failed", "connect_failed"),
        ("socket hang up", "reset"),
        ("read ETIMEDOUT", "timeout:head"),
    ],
)
def test_no_answer_is_a_fault_of_the_transport(text: str, fault: str) -> None:
    heard = hear(text.encode(), status=0)
    assert transport_fault(text) == fault
    assert heard.failed and heard.answer.fault == fault and heard.answer.body == text.encode()


def test_what_is_no_model_call_is_taken_as_it_is() -> None:
    heard = hear(b'{"balance_infos":[]}', dialect=None)
    assert heard.answer.body == b'{"balance_infos":[]}' and not heard.committed and not heard.failed
    assert hear(b'{"error":"no"}', status=402, dialect=None).failed


@pytest.mark.parametrize(
    ("provider", "path", "dialect"),
    [
        ("anthropic", "/v1/messages", "anthropic-messages"),
        ("unheard-of", "/v1/messages", "anthropic-messages"),
        ("unheard-of", "/v1/messages/count_tokens", None),
        ("unheard-of", "/v1/chat/completions", "openai-chat"),
        ("unheard-of", "/openai/deployments/x/chat/completions?api-version=1", "openai-chat"),
        ("unheard-of", "/backend-api/codex/responses", "openai-responses"),
        ("unheard-of", "/v1beta/models/x:streamGenerateContent?alt=sse", "gemini"),
        ("unheard-of", "/v1/projects/p/publishers/anthropic/models/m:streamRawPredict", "anthropic-messages"),
        ("unheard-of", "/user/balance", None),
    ],
)
def test_the_door_says_the_dialect(provider: str, path: str, dialect: str | None) -> None:
    assert dialect_of_door(PACKS, provider, path) == dialect


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        (b"event: message_start\ndata: {}\n\n", "anthropic-messages"),
        (b'event: x\ndata: {"type":"response.failed"}\n\n', "openai-responses"),
        (b'{"candidates":[]}', "gemini"),
        (b"anything", "openai-chat"),
    ],
)
def test_without_a_door_the_body_says_it(body: bytes, dialect: str) -> None:
    assert dialect_of_body(body) == dialect


_PIECES = st.sampled_from(
    [CHUNK, LAST, ERROR, b": ping\n\n", b"data: {", b"\n\n", b'{"error":', b"[{", b"event: error\n"]
)


@given(
    status=st.sampled_from([0, 200, 204, 302, 400, 429, 503]),
    pieces=st.lists(st.one_of(_PIECES, st.binary(max_size=40)), max_size=6),
    headers=st.dictionaries(
        st.sampled_from(["content-type", "content-encoding", "date", "Retry-After"]),
        st.one_of(st.sampled_from(["text/event-stream", "application/json", "gzip", "br"]), st.text(max_size=20)),
    ),
    stream=st.booleans(),
    dialect=st.sampled_from([None, *DIALECTS]),
)
def test_any_bytes_and_any_headers_come_to_an_answer(
    status: int, pieces: list[bytes], headers: dict[str, str], stream: bool, dialect: DialectName | None
) -> None:
    heard = hear(b"".join(pieces), status=status, headers=headers, stream=stream, dialect=dialect)
    assert heard.answer.status in (status, 0, 200, 502) or heard.answer.fault
    assert status < 400 or heard.failed
