"""What people send to the management API, as values. Raises `Refusal` with one clear sentence."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request

from omniroute_addon.nearest import shown, unknown

from .refusals import Refusal

_MOST_BYTES = 65_536


async def read_object(request: Request, *allowed: str, needed: bool = True) -> dict[str, Any]:
    """The body as an object with these keys only. An empty body is an empty object unless one is `needed`."""
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _MOST_BYTES:
            raise Refusal(400, "bad_body", f"the body has more than {_MOST_BYTES} bytes.")
    if not raw.strip():
        if needed:
            raise Refusal(400, "bad_body", f"the body is empty. Send a JSON object with {' or '.join(allowed)}.")
        return {}
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise Refusal(400, "bad_body", 'the body is no JSON. Send an object such as {"all": true}.') from None
    if not isinstance(value, dict):
        raise Refusal(400, "bad_body", f"the body is {shown(value)}. Send a JSON object.")
    for key in value:
        if key not in allowed:
            raise Refusal(400, "bad_body", unknown("key", key, allowed))
    return value


def text(value: dict[str, Any], key: str) -> str | None:
    """A text that is not empty; None when it is missing or null."""
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, str) or not found.strip():
        raise Refusal(400, "bad_body", f"'{key}' is {shown(found)}. Write a name in quotes.")
    return found.strip()


def flag(value: dict[str, Any], key: str) -> bool:
    """True or false; false when it is missing."""
    found = value.get(key, False)
    if not isinstance(found, bool):
        raise Refusal(400, "bad_body", f"'{key}' is {shown(found)}. Write true or false.")
    return found


def texts(value: dict[str, Any], key: str) -> list[str] | None:
    """A list of names with at least one in it; None when it is missing."""
    found = value.get(key)
    if found is None:
        return None
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name for name in found):
        raise Refusal(400, "bad_body", f"'{key}' is {shown(found)}. Write a list of at least one name.")
    return found
