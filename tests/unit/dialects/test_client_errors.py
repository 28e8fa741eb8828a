"""Our own errors, in each dialect's shape: `spec/05` "Client-facing error names", `ST-22`, `ST-32`, `ST-33`, `A22`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.dialects import ClientError, dialect
from omniroute_addon.model import DIALECTS, DialectName


def body(name: DialectName, **members: Any) -> Any:
    return json.loads(dialect(name).error_body(ClientError(**{"message": "m", **members})))


def in_stream(name: DialectName, **members: Any) -> bytes:
    return dialect(name).stream_error(ClientError(**{"message": "m", **members}))


@pytest.mark.parametrize(
    ("status", "type_", "code"),
    [
        (400, "invalid_request_error", "bad_request"),
        (401, "authentication_error", "invalid_api_key"),
        (402, "billing_error", "payment_required"),
        (403, "permission_error", "insufficient_quota"),
        (404, "invalid_request_error", "model_not_found"),
        (406, "invalid_request_error", "model_not_supported"),
        (422, "invalid_request_error", None),
        (429, "rate_limit_error", "rate_limit_exceeded"),
        (499, "client_disconnected", "client_disconnected"),
        (500, "server_error", "internal_server_error"),
        (502, "server_error", "bad_gateway"),
        (503, "server_error", "service_unavailable"),
        (504, "server_error", "gateway_timeout"),
        (529, "server_error", "internal_server_error"),
    ],
)
def test_openai_error_names_follow_the_status(status: int, type_: str, code: str | None) -> None:
    for name in ("openai-chat", "openai-responses"):
        assert body(name, status=status) == {"error": {"message": "m", "type": type_, "code": code, "param": None}}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "type_"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ],
)
def test_anthropic_error_types_are_its_own(status: int, type_: str) -> None:
    answer = body("anthropic-messages", status=status, code="OUR_CODE", request_id="r")
    assert answer == {"type": "error", "error": {"type": type_, "message": "m", "code": "OUR_CODE"}, "request_id": "r"}


def test_anthropic_errors_have_no_empty_code() -> None:
    assert body("anthropic-messages", status=422) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "m"},
    }


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (503, "UNAVAILABLE"),
        (529, "INTERNAL"),
        (418, "INVALID_ARGUMENT"),
    ],
)
def test_gemini_errors_are_google_errors(status: int, name: str) -> None:
    answer = body("gemini", status=status, code="OUR_CODE", retry_after_s=17.5, request_id="r", diagnostics={"a": "b"})
    assert answer == {
        "error": {
            "code": status,
            "message": "m",
            "status": name,
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "OUR_CODE",
                    "domain": "omniroute",
                    "metadata": {"a": "b", "request_id": "r"},
                },
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"},
            ],
        }
    }


def test_a_whole_number_of_seconds_keeps_its_zeros() -> None:
    assert body("gemini", status=429, retry_after_s=100.0)["error"]["details"][1]["retryDelay"] == "100s"


@pytest.mark.parametrize(
    ("code", "type_"), [("STREAM_READINESS_TIMEOUT", "stream_timeout"), ("STREAM_EARLY_EOF", "stream_early_eof")]
)
def test_st_22_st_23_our_codes_have_types(code: str, type_: str) -> None:
    assert body("openai-chat", status=504, code=code)["error"] == {
        "message": "m",
        "type": type_,
        "code": code,
        "param": None,
    }


def test_ct_113_diagnostics_stand_beside_the_error() -> None:
    """CT-112, CT-113"""
    for name in ("openai-chat", "anthropic-messages"):
        plain = body(name, status=502, diagnostics={"a": "b"})  # type: ignore[arg-type]
        assert (plain["diagnostics"], "recovery_hint" in plain, "diagnostics" in plain["error"]) == (
            {"a": "b"},
            False,
            False,
        )
        hinted = body(name, status=502, diagnostics={"recovery": {"action": "wait"}})  # type: ignore[arg-type]
        assert hinted["recovery_hint"] == hinted["diagnostics"]["recovery"] == {"action": "wait"}


ST_33 = [
    (429, "rate_limit_error", "rate_limit_exceeded"),
    (401, "authentication_error", "invalid_authentication"),
    (403, "authentication_error", "permission_denied"),
    (404, "invalid_request_error", "bad_request"),
    (500, "server_error", "server_error"),
    (529, "server_error", "server_error"),
]


@pytest.mark.parametrize(("status", "type_", "code"), ST_33)
def test_st_32_st_33_a_chat_stream_ends_with_one_error_chunk_and_done(status: int, type_: str, code: str) -> None:
    first, second, rest = in_stream("openai-chat", status=status).split(b"\n\n")
    assert json.loads(first.removeprefix(b"data: ")) == {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}],
        "error": {"message": "m", "type": type_, "code": code},
    }
    assert (second, rest) == (b"data: [DONE]", b"")


@pytest.mark.parametrize(("status", "type_", "code"), ST_33)
def test_st_32_st_33_a_responses_stream_ends_with_response_failed(status: int, type_: str, code: str) -> None:
    head, data = in_stream("openai-responses", status=status).removesuffix(b"\n\n").split(b"\ndata: ")
    assert head == b"event: response.failed"
    assert json.loads(data) == {
        "type": "response.failed",
        "response": {"id": None, "status": "failed", "error": {"message": "m", "type": type_, "code": code}},
    }


@pytest.mark.parametrize(("status", "type_", "code"), ST_33)
def test_st_32_st_33_an_anthropic_stream_ends_with_an_error_event(status: int, type_: str, code: str) -> None:
    head, data = in_stream("anthropic-messages", status=status).removesuffix(b"\n\n").split(b"\ndata: ")
    own = {"server_error": "api_error"}.get(type_, "permission_error" if status == 403 else type_)
    assert head == b"event: error"
    assert json.loads(data) == {"type": "error", "error": {"type": own, "message": "m", "code": code}}


def test_st_32_a_gemini_stream_ends_with_googles_error_object() -> None:
    frame = in_stream("gemini", status=503)
    assert frame.startswith(b"data: ") and frame.endswith(b"\n\n")
    assert json.loads(frame.removeprefix(b"data: "))["error"]["status"] == "UNAVAILABLE"


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("openai-chat", "maximum context length"),
        ("openai-responses", "exceeds the context window"),
        ("anthropic-messages", "prompt is too long"),
        ("gemini", "exceeds the maximum number of tokens"),
    ],
)
def test_a22_an_overflow_is_worded_so_that_an_agent_compacts(name: DialectName, phrase: str) -> None:
    overflow = ClientError(status=500, message="too big", kind="context_overflow")
    shown = dialect(name).shown(overflow)
    assert (shown.status, shown.code) == (400, "context_length_exceeded")
    assert phrase in shown.message and shown.message.endswith(": too big")
    assert phrase.encode() in dialect(name).stream_error(overflow)
    assert dialect(name).shown(shown).message == shown.message
    assert dialect(name).shown(ClientError(status=500, message="", kind="context_overflow")).message


@pytest.mark.parametrize("name", DIALECTS)
@settings(deadline=None, max_examples=60)
@given(message=st.text(st.characters(), max_size=30) | st.just("a\ud800\x00\n\n\udc00\ud83d\ude00"))
def test_any_message_gives_valid_json_in_one_frame(name: DialectName, message: str) -> None:
    """Also our own reader sees an error in what we write."""
    error = ClientError(status=502, message=message)
    text = json.dumps(json.loads(dialect(name).error_body(error)), ensure_ascii=False)
    text.encode()
    reader = dialect(name).reader()
    frames = reader.feed(dialect(name).stream_error(error))
    assert reader.pending == 0 and frames[0].error is not None
