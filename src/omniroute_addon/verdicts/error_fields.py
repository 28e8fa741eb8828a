"""The fields in which providers say what went wrong (`FC-2`, extended to the shapes that are really sent).

Only fields that carry the provider's own words are read. Whatever echoes the request (`input`, `body.messages`,
`flagged_input`, …) is never looked at, so a prompt that quotes an error means nothing ("Beyond the reference").
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

MAX_NODES: Final = 400
"""Fields looked at; an error that needs more is no error message."""

_MESSAGES: Final = frozenset(
    {
        "message",
        "msg",
        "error",
        "errors",
        "detail",
        "details",
        "title",
        "description",
        "errordescription",
        "errormessage",
        "errormsg",
        "statusmsg",
        "raw",
        "reason",
        "cause",
        "localizedmessage",
    }
)
_CODES: Final = frozenset(
    {
        "code",
        "errorcode",
        "statuscode",
        "reason",
        "errcode",
    }
)
_TYPES: Final = frozenset(
    {
        "type",
        "__type",
        "errortype",
        "tag",
        "object",
        "name",
    }
)
_NAMES: Final = frozenset(["status"])
_STATUSES: Final = ("code", "status", "http_code", "status_code", "statusCode", "httpCode", "statuscode")
_CONTAINERS: Final = frozenset(
    {
        "error",
        "errors",
        "detail",
        "details",
        "metadata",
        "baseresp",
        "body",
        "response",
        "cause",
        "fault",
        "innererror",
        "data",
        "status",
        "statusdetails",
    }
)
_IMPLIED: Final = {
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "context_length_exceeded": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "unauthenticated": 401,
    "billing_error": 402,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "rate_limited": 429,
    "insufficient_quota": 429,
    "usage_limit_reached": 429,
    "too_many_requests": 429,
    "resource_exhausted": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "internal": 500,
    "unavailable": 503,
    "service_unavailable_error": 503,
    "deadline_exceeded": 504,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Error words that are the name of a status, in the dialects' own documents."""
_ANY_STATUS = re.compile(r"[45]\d\d")
_PAIR = re.compile(r'"(code|type|status|error_code|reason)"\s*:\s*"([^"\\]{1,120})"')
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")


@dataclass(slots=True)
class ErrorFields:
    """What was found, in the order found: outer fields before inner ones."""

    messages: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    params: list[str] = field(default_factory=list)


def error_fields(document: Any) -> ErrorFields:
    """The provider's words in a JSON error of any known shape."""
    found = ErrorFields()
    if isinstance(document, str):
        found.messages.append(document)
    if not isinstance(document, dict | list):
        return found
    queue = deque([document])
    seen = 0
    while queue and seen < MAX_NODES:
        node = queue.popleft()
        if isinstance(node, list):
            queue.extend(item for item in node[:20] if isinstance(item, dict | list))
            found.messages.extend(item for item in node[:20] if isinstance(item, str))
            continue
        for key, value in node.items():
            seen += 1
            if seen >= MAX_NODES:
                break
            _take(found, key.replace("_", "").replace("-", "").lower() if key[:2] != "__" else key, value)
            if isinstance(value, dict | list) and key.replace("_", "").lower() in _CONTAINERS:
                queue.append(value)
    return found


def _take(found: ErrorFields, key: str, value: Any) -> None:
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        if key in _CODES:
            found.codes.append(str(value))
        return
    if not isinstance(value, str) or not value or value == "None":
        return
    if key in _MESSAGES:
        found.messages.append(value)
    if key in _CODES:
        found.codes.append(value)
    elif key in _TYPES and value not in ("error", "None"):
        found.types.append(value.rpartition("#")[2])
    elif key in _NAMES:
        found.names.append(value)
    elif key == "param":
        found.params.append(value)


def fields_of_fragment(text: str) -> ErrorFields:
    """Codes and types of a JSON error that was cut off, read without parsing; the words are the text itself."""
    found = ErrorFields(messages=[_ESCAPE.sub(_unescaped, text)])
    for key, value in _PAIR.findall(text[:16384]):
        if key == "type":
            found.types.append(value)
        elif key == "status":
            found.names.append(value)
        else:
            found.codes.append(value)
    return found


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))


def is_error(document: Any) -> bool:
    """Whether the JSON of a 2xx is an error all the same: it says so, and it carries no answer."""
    if not isinstance(document, dict):
        return False
    if document.get("error") and not _answers(document):
        return True
    if document.get("type") == "error" or document.get("object") == "error" or document.get("success") is False:
        return True
    base = document.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0, "0"):
        return True
    if _answers(document):
        return False
    body = document.get("body")
    if isinstance(body, dict) and body.get("error"):
        return True
    if document.get("errors") and not document.get("data"):
        return True
    said = any(isinstance(document.get(key), str) for key in ("message", "msg", "detail", "title"))
    return said and (embedded_status(document) is not None or not document.get("data")) and bool(document.get("code"))


def implied_status(found: ErrorFields) -> int | None:
    """The status that the error's own type or code stands for: an event of a stream carries no number."""
    for name in (*found.types, *found.codes, *found.names):
        if (status := _IMPLIED.get(name.lower())) is not None:
            return status
    return None


def _answers(document: dict[str, Any]) -> bool:
    return any(document.get(key) for key in ("choices", "candidates", "content", "output", "output_text"))


def embedded_status(document: Any) -> int | None:
    """The HTTP status that an error names in its body, or None."""
    if not isinstance(document, dict):
        return None
    places = [document]
    for key in ("error", "body", "base_resp", "detail"):
        if isinstance(inner := document.get(key), dict):
            places.insert(0, inner)
            if isinstance(deeper := inner.get("param") or inner.get("error"), dict):
                places.insert(0, deeper)
    for place in places:
        for key in _STATUSES:
            value = place.get(key)
            if isinstance(value, int | str) and not isinstance(value, bool) and _ANY_STATUS.fullmatch(str(value)):
                return int(value)
    return None
