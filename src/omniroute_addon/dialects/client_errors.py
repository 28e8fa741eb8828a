"""Our own errors: type and code for a status, in words that a client understands (`spec/05`, `ST-33`, `A22`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .frames import ClientError

# `spec/05`, "Client-facing error names by status".
_NAMES: Mapping[int, tuple[str, str]] = {
    400: ("invalid_request_error", "bad_request"),
    401: ("authentication_error", "invalid_api_key"),
    402: ("billing_error", "payment_required"),
    403: ("permission_error", "insufficient_quota"),
    404: ("invalid_request_error", "model_not_found"),
    406: ("invalid_request_error", "model_not_supported"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
    499: ("client_disconnected", "client_disconnected"),
    500: ("server_error", "internal_server_error"),
    502: ("server_error", "bad_gateway"),
    503: ("server_error", "service_unavailable"),
    504: ("server_error", "gateway_timeout"),
}

# `ST-33`.
_STREAM_NAMES: Mapping[int, tuple[str, str]] = {
    401: ("authentication_error", "invalid_authentication"),
    403: ("authentication_error", "permission_denied"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}

# `ST-22`, `ST-23`.
_TYPE_OF_CODE: Mapping[str, str] = {
    "STREAM_READINESS_TIMEOUT": "stream_timeout",
    "STREAM_EARLY_EOF": "stream_early_eof",
}

OVERFLOW_CODE = "context_length_exceeded"


def normalised(error: ClientError, *, overflow_phrase: str) -> ClientError:
    """The error with clean text; an overflow gets the status, code and phrase that make an agent compact (`A22`)."""
    message = clean(error.message)
    if error.kind != "context_overflow":
        return replace(error, message=message)
    if overflow_phrase.lower() not in message.lower():
        message = f"{overflow_phrase}: {message}" if message else overflow_phrase
    return replace(error, status=400, code=OVERFLOW_CODE, type="invalid_request_error", message=message)


def body_names(error: ClientError) -> tuple[str, str]:
    """Type and code of an error answer."""
    default = (500, _NAMES[500]) if error.status >= 500 else (400, ("invalid_request_error", ""))
    type_, code = _NAMES.get(error.status, default[1])
    return error.type or _TYPE_OF_CODE.get(error.code, type_), error.code or code


def stream_names(error: ClientError) -> tuple[str, str]:
    """Type and code of an error inside a stream."""
    other = ("invalid_request_error", "bad_request") if 400 <= error.status < 500 else ("server_error", "server_error")
    type_, code = _STREAM_NAMES.get(error.status, other)
    return error.type or type_, error.code or code


def beside(error: ClientError) -> dict[str, Any]:
    """What stands beside the `error` member: `diagnostics`, and its `recovery` once more (`CT-112`, `CT-113`)."""
    if not error.diagnostics:
        return {}
    found = dict(error.diagnostics)
    return {"diagnostics": found, **({"recovery_hint": found["recovery"]} if "recovery" in found else {})}


def clean(text: str) -> str:
    """The text with lone surrogates replaced: many JSON readers refuse them, even when escaped."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def dump(value: Mapping[str, Any]) -> bytes:
    """Compact JSON in ASCII: valid whatever the strings hold."""
    return json.dumps(value, separators=(",", ":")).encode()


def event(name: str, value: Mapping[str, Any]) -> bytes:
    """One complete frame with an event name."""
    return b"event: " + name.encode() + b"\ndata: " + dump(value) + b"\n\n"


def data(value: Mapping[str, Any]) -> bytes:
    """One complete frame without an event name."""
    return b"data: " + dump(value) + b"\n\n"
