"""What the two OpenAI dialects share: error shapes and the session."""

from __future__ import annotations

from typing import Any

from .client_errors import body_names, dump
from .frames import ClientError
from .json_body import Members, is_unicode

_SESSION_MEMBERS = ("conversation", "session_id", "prompt_cache_key")
"""The first that is filled names the conversation. `user` does not: it names a person."""


def error_body(error: ClientError) -> bytes:
    """`{"error": {"message", "type", "param", "code"}}`."""
    type_, code = body_names(error)
    return dump({"error": error_object(error, type_, code) | {"param": None}})


def error_object(error: ClientError, type_: str, code: str) -> dict[str, Any]:
    """The `error` member, with `diagnostics` only when there are any."""
    value: dict[str, Any] = {"message": error.message, "type": type_, "code": code or None}
    if error.diagnostics:
        value["diagnostics"] = dict(error.diagnostics)
    return value


def session(call: Members) -> str | None:
    """The conversation that the body names, or None."""
    for name in _SESSION_MEMBERS:
        value = call[name].value if name in call else None
        if isinstance(value, dict):
            value = value.get("id")
        if isinstance(value, str) and value and is_unicode(value):
            return value
    return None
