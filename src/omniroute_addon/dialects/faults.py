"""Errors that come as a success: find them, and say which HTTP status they imply (`ST-29`, `ST-34`, `A10`).

Knows shapes, not providers: what an error *means* is decided later by the rules, which get `StreamFault.body`.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .frames import StreamFault

Json = dict[str, Any]

OUTPUT_KEYS = frozenset({"choices", "candidates", "content_block", "delta", "output", "response", "parts"}) | {
    *("tool_calls", "tool_use", "function_call", "function_call_output"),
}
"""A frame with one of these is not error-only (`ST-4`)."""

UNKNOWN_STATUS = 502
"""Status of an error that implies none (`spec/05`, "Beyond the reference")."""

_ANSWER_KEYS = OUTPUT_KEYS | {"content", "data", "object", "usageMetadata"}
"""Something with one of these is not taken for a bare `{"code", "message"}` error."""

_FINE_CODES = frozenset({"", "0", "200", "ok", "success"})
_HTTP_ERROR = range(400, 600)
_WORD_BORDER = re.compile(r"(?<=[a-z])(?=[A-Z])|[\s.\-]+")

# First match wins; a name is compared in snake_case, so `RateLimitError`, `rate-limit` and `RATE_LIMIT` are one.
_STATUS_BY_NAME: tuple[tuple[int, tuple[str, ...]], ...] = (
    (529, ("overloaded",)),
    (503, ("server_is_overloaded", "service_unavailable", "unavailable", "slow_down", "engine_overloaded")),
    (402, ("billing", "payment_required", "insufficient_balance", "insufficient_credits")),
    (429, ("rate_limit", "usage_limit", "insufficient_quota", "too_many_requests", "resource_exhausted", "throttling")),
    (401, ("authentication", "unauthenticated", "unauthorized", "invalid_api_key", "invalid_authentication")),
    (403, ("permission", "forbidden", "access_denied")),
    (404, ("not_found", "model_not_found")),
    (413, ("request_too_large",)),
    (
        400,
        (
            "invalid_request",
            "invalid_argument",
            "invalid_parameter",
            "bad_request",
            "context_length_exceeded",
            "invalid_prompt",
        ),
    ),
    (504, ("timeout", "gateway_timeout", "deadline_exceeded")),
)


def find_fault(payload: Json, raw: bytes, *, event: str = "") -> StreamFault | None:
    """The structured error in a JSON object, or None.

    `raw` is the text that the object was read from, `event` the name of the stream event it came in, if any.
    """
    error = payload.get("error")
    if _substantial(error):
        return _fault(payload, error, raw)
    kind = payload.get("type")
    response = payload.get("response")
    nested = response.get("error") if isinstance(response, dict) else None
    if kind == "response.failed" or (isinstance(response, dict) and response.get("status") == "failed" and nested):
        # As an HTTP error body would carry it: the rules look for `error` at the top.
        if not _substantial(nested):
            return _fault(payload, payload, raw)
        lifted = json.dumps({"type": kind, "error": nested, "response": response}).encode()
        return _fault(payload, nested, lifted)
    if "error" in (kind, event, payload.get("object")) or _is_bare_error(payload):
        return _fault(payload, payload, raw)
    base = payload.get("base_resp")
    if isinstance(base, dict) and _text(base.get("status_code")) not in _FINE_CODES:
        return _fault(payload, {"code": base.get("status_code"), "message": base.get("status_msg")}, raw)
    return None


def text_fault(text: str, *, type: str = "", code: str = "", status: int = UNKNOWN_STATUS) -> StreamFault:
    """A fault for which the upstream sent no JSON object; its body is the OpenAI shape."""
    body = json.dumps({"error": {"message": text, "type": type, "code": code}}).encode()
    return StreamFault(status=status, code=code, type=type, message=text, body=body)


def _substantial(error: object) -> bool:
    """`"error": null`, `{}`, `""` and `false` are how some providers say that all is well."""
    return isinstance(error, dict | str | list) and bool(error)


def _is_bare_error(payload: Json) -> bool:
    """An error told at the top level: `error_message`, `{"code": 1305, "message": …}`, `{"success": false, …}`."""
    if payload.get("success") is False:
        return True
    if OUTPUT_KEYS & payload.keys():
        return False
    if _filled(payload.get("error_message")) or _filled(payload.get("error_type")):
        return True
    if _ANSWER_KEYS & payload.keys() or payload.get("success") is True:
        return False
    if not (_filled(payload.get("message")) or _filled(payload.get("msg"))):
        return False
    kind = payload.get("type")
    if isinstance(payload.get("status"), int) and payload["status"] in _HTTP_ERROR:
        return True
    # A typed event that is no error may have a code and a message as well.
    unsuspicious = isinstance(kind, str) and kind and "error" not in kind.lower()
    return not unsuspicious and _text(payload.get("code")).lower() not in _FINE_CODES


def _fault(payload: Json, error: object, body: bytes) -> StreamFault:
    """`error` is the object, list or text that describes what happened; `payload` the whole event."""
    if isinstance(error, list):
        error = error[0]
    detail: Json = error if isinstance(error, dict) else {"message": error}
    code = _text(detail.get("code") or detail.get("error_code"))
    type_ = _text(detail.get("error_type") or detail.get("type"))
    words = (detail.get(key) for key in ("message", "msg", "error_message", "status_msg", "detail"))
    return StreamFault(
        status=_status(payload, detail),
        code=code,
        type=type_,
        message=next((word for word in words if isinstance(word, str) and word), ""),
        body=body,
    )


def _status(payload: Json, detail: Json) -> int:
    """An explicit number first, then the names, the most specific first."""
    sources = (detail, payload)
    for source in sources:
        for key in ("code", "status_code", "status", "http_code", "error_code"):
            number = _text(source.get(key))
            if len(number) == 3 and number.isascii() and number.isdigit() and int(number) in _HTTP_ERROR:
                return int(number)
    metadata = detail.get("metadata")
    names = [detail.get(key) for key in ("code", "status", "error_type", "type")]
    names.append(metadata.get("error_type") if isinstance(metadata, dict) else None)
    for name in names:
        if status := _status_of_name(_text(name)):
            return status
    return UNKNOWN_STATUS


def _status_of_name(name: str) -> int | None:
    snake = _WORD_BORDER.sub("_", name).lower()
    return next((status for status, starts in _STATUS_BY_NAME if snake.startswith(starts)), None) if snake else None


def _filled(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _text(value: object) -> str:
    """A code as text; anything that is no code is empty."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
