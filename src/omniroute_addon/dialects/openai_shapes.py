"""What the two OpenAI dialects share: error shapes."""

from __future__ import annotations

from typing import Any

from .client_errors import beside, body_names, dump
from .frames import ClientError


def error_body(error: ClientError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    type_, code = body_names(error)
    return dump({"error": error_object(error, type_, code) | {"param": None}, **beside(error)})


def error_object(error: ClientError, type_: str, code: str) -> dict[str, Any]:
    """The `error` member."""
    value: dict[str, Any] = {"message": error.message, "type": type_, "code": code or None, **error.extra}
    return value
