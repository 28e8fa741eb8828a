"""Errors inside a success (`ST-29`, `ST-34`, `A10`): which JSON is one, and what status it implies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omniroute_addon.dialects.faults import find_fault, text_fault

ERRORS: list[tuple[str, int, str, str, str]] = [
    # payload, status, code, type, message
    ('{"error":{"message":"m","type":"server_error","code":null}}', 502, "", "server_error", "m"),
    ('{"error":{"message":"m","code":429}}', 429, "429", "", "m"),
    ('{"error":{"message":"m","code":"503"}}', 503, "503", "", "m"),
    ('{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}', 503, "503", "", "m"),
    ('{"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}', 429, "", "", "m"),
    ('{"error":"boom"}', 502, "", "", "boom"),
    ('{"error":[{"message":"m","code":404}]}', 404, "404", "", "m"),
    ('{"error":["boom"]}', 502, "", "", "boom"),
    ('{"error":{"type":"usage_limit_reached","message":"m"},"status_code":429}', 429, "", "usage_limit_reached", "m"),
    ('{"type":"error","error":{"type":"overloaded_error","message":"m"}}', 529, "", "overloaded_error", "m"),
    ('{"type":"error","error":{"type":"authentication_error"}}', 401, "", "authentication_error", ""),
    ('{"error":{"type":"permission_error"}}', 403, "", "permission_error", ""),
    ('{"error":{"type":"not_found_error"}}', 404, "", "not_found_error", ""),
    ('{"error":{"type":"NotFoundError"}}', 404, "", "NotFoundError", ""),
    ('{"error":{"type":"invalid_request_error"}}', 400, "", "invalid_request_error", ""),
    ('{"error":{"type":"invalid_request_error","code":"model_not_found"}}',
     404, "model_not_found", "invalid_request_error", ""),
    ('{"error":{"type":"tokens","code":"rate_limit_exceeded"}}', 429, "rate_limit_exceeded", "tokens", ""),
    ('{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}',
     429, "insufficient_quota", "insufficient_quota", ""),
    ('{"error":{"code":"server_is_overloaded","message":"m"}}', 503, "server_is_overloaded", "", "m"),
    ('{"error":{"type":"billing_error"}}', 402, "", "billing_error", ""),
    ('{"error":{"type":"request_too_large"}}', 413, "", "request_too_large", ""),
    ('{"error":{"type":"timeout_error"}}', 504, "", "timeout_error", ""),
    ('{"choices":[],"error":{"message":"m","metadata":{"error_type":"rate_limited"}}}', 429, "", "", "m"),
    ('{"choices":[],"error":{"code":502,"message":"m"}}', 502, "502", "", "m"),
    ('{"type":"error","code":"server_error","message":"m"}', 502, "server_error", "error", "m"),
    ('{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}',
     429, "rate_limit_exceeded", "", "m"),
    ('{"type":"response.failed","response":{"status":"failed","error":null}}', 502, "", "response.failed", ""),
    ('{"type":"x","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}',
     502, "server_error", "", "m"),
    ('{"code":1305,"message":"m"}', 502, "1305", "", "m"),
    ('{"code":"Throttling.RateQuota","message":"m","request_id":"r"}', 429, "Throttling.RateQuota", "", "m"),
    ('{"code":"InvalidApiKey","message":"m"}', 401, "InvalidApiKey", "", "m"),
    ('{"code":404,"message":"m","object":"error","type":"NotFoundError"}', 404, "404", "NotFoundError", "m"),
    ('{"error_type":"RateLimitError","error_message":"m"}', 429, "", "RateLimitError", "m"),
    ('{"success":false,"message":"m"}', 502, "", "", "m"),
    ('{"msg":"m","status":401}', 401, "", "", "m"),
    ('{"choices":null,"base_resp":{"status_code":1008,"status_msg":"m"}}', 502, "1008", "", "m"),
    ('{"error":{"code":true,"message":5}}', 502, "", "", ""),
    ('{"error":{"message":"m","code":' + "9" * 4000 + "}}", 502, "9" * 4000, "", "m"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "status", "code", "type_", "message"), ERRORS, ids=range(len(ERRORS)))
def test_st_34_an_error_implies_a_status(text: str, status: int, code: str, type_: str, message: str) -> None:
    fault = find_fault(json.loads(text), text.encode())
    assert fault is not None
    assert (fault.status, fault.code, fault.type, fault.message) == (status, code, type_, message)


@pytest.mark.parametrize(("text", "status", "code", "type_", "message"), ERRORS, ids=range(len(ERRORS)))
def test_the_body_holds_the_whole_event(text: str, status: int, code: str, type_: str, message: str) -> None:
    fault = find_fault(json.loads(text), text.encode())
    assert fault is not None
    assert json.loads(text).items() <= json.loads(fault.body).items()


def test_a_nested_error_is_lifted_to_where_an_http_error_has_it() -> None:
    payload = {"type": "response.failed", "response": {"status": "failed", "error": {"code": "x"}}}
    fault = find_fault(payload, b"")
    assert fault is not None
    assert json.loads(fault.body)["error"] == {"code": "x"}


@pytest.mark.parametrize(
    "payload",
    [
        {"error": None, "choices": []},
        {"error": {}, "choices": []},
        {"error": "", "choices": []},
        {"error": False},
        {"type": "response.completed", "response": {"status": "completed", "error": None}},
        {"type": "response.created", "response": {"status": "failed", "error": None}},
        {"code": 0, "message": "ok"},
        {"code": "Success", "message": "fine"},
        {"code": 200, "msg": "ok"},
        {"code": 1, "message": "m", "data": {}},
        {"code": 1, "message": "m", "success": True},
        {"code": "queued", "message": "m", "type": "status"},
        {"message": "hello"},
        {"status": "queued", "message": "m"},
        {"choices": [], "code": 5, "message": "m"},
        {"base_resp": {"status_code": 0, "status_msg": "success"}},
        {"totalTokens": 5},
        {},
    ],
)
def test_what_only_looks_like_an_error_is_none(payload: dict[str, Any]) -> None:
    assert find_fault(payload, b"") is None


def test_st_29_an_error_event_is_an_error_whatever_it_holds() -> None:
    fault = find_fault({"message": "m"}, b"", event="error")
    assert fault is not None
    assert fault.message == "m"


def test_an_error_without_json_gets_the_usual_shape() -> None:
    fault = text_fault("m", code="c")
    assert json.loads(fault.body) == {"error": {"message": "m", "type": "", "code": "c"}}
    assert fault.status == 502
