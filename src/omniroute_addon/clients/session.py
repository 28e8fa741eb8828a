"""Which conversation is this? What a header says, what the body says, the agent's name, or else how it began.

The order is `clients.md`, 14; the forms are those of `spec/13`, sections 1 and 2. Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from omniroute_addon.model import ClientProfile

_HEADERS: Final = ("x-codex-session-id", "x-session-id", "x-omniroute-session")
"""For every client (`SA-1`)."""
_PATHS: Final = (
    ("metadata", "session_id"),
    ("metadata", "sessionId"),
    ("conversation_id",),
    ("conversation",),
    ("conversation", "id"),
    ("session_id",),
    ("prompt_cache_key",),
    ("metadata", "user_id", "session_id"),
)
"""For every client (`SA-4`); `user` is not among them: it names a person."""
_SOURCES: Final = {"prompt_cache_key": "prompt-cache", "conversation_id": "conversation", "session_id": "session"}
_IN_USER_ID: Final = re.compile(r"_session_([\w-]+)\Z")
"""Claude Code's older form of `metadata.user_id`, `user_…_account_…_session_…`."""
_LONGEST: Final = 4096
"""`SA-7`, `SA-14`."""
_READABLE: Final = re.compile(r"[A-Za-z0-9._:-]{1,180}")
_TEXTS: Final = ("text", "content", "prompt", "parts")

type Fields = Mapping[bytes, bytes]
"""Request headers by lower-case name."""
type Body = Mapping[str, Any]
"""The body's top-level members."""


def session_of(profile: ClientProfile, fields: Fields, body: Body, *, agent: str | None, owner: str) -> str | None:
    """`<source>:<id>`, or None when nothing tells one conversation from another.

    `agent` is the name that the client gave to the proxy. `owner` says whose credential it is: two clients that begin
    alike are still two (`SA-19`).
    """
    for name in (*profile.session_headers, *_HEADERS):
        value = fields.get(name.encode("latin-1"))
        if value is not None and (found := _key("header", value.decode("utf-8", "replace"))):
            return found
    for path in (*profile.session_paths, *_PATHS):
        if found := _key(_source(path), _at(body, path)):
            return found
    user = _at(body, ("metadata", "user_id"))
    if isinstance(user, str) and (old := _IN_USER_ID.search(user)):
        return _key("metadata", old[1])
    if agent and (found := _key("agent", agent)):
        return found
    text = _opening(body)
    return f"input:sha256:{_digest(owner, text)}" if text.strip() else None


def _key(source: str, value: Any) -> str | None:
    """`SA-7` to `SA-9`."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or len(text) > _LONGEST:
        return None
    return f"{source}:{text}" if _READABLE.fullmatch(text) else f"{source}:sha256:{_digest(text)}"


def _source(path: tuple[str, ...]) -> str:
    return _SOURCES.get(path[0], path[0])


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _at(value: Any, path: Iterable[str]) -> Any:
    """The value at a path, or None; text that holds a JSON object is opened on the way."""
    for name in path:
        if isinstance(value, str) and value.startswith("{"):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _opening(body: Body) -> str:
    """The text with which the conversation begins (`SA-12` to `SA-15`); it stays while the history grows."""
    given = body.get("input")
    if isinstance(given, list):
        return next((text for item in given if (text := _text(item)).strip()), "")
    if isinstance(given, str):
        return given[:_LONGEST]
    for name in ("messages", "contents"):
        entries = body.get(name)
        if isinstance(entries, list) and entries:
            users = (e for e in entries if isinstance(e, Mapping) and e.get("role") == "user")
            return _text(next(users, entries[0]))
    return next((_text(body[name]) for name in ("prompt", "query", "instruction") if body.get(name)), "")


def _text(value: Any) -> str:
    parts: list[str] = []
    left = _LONGEST
    for part in _strings(value):
        parts.append(part[:left])
        left -= len(part) + 1
        if left <= 0:
            break
    return "\n".join(parts)


def _strings(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < 8:
        for entry in value:
            yield from _strings(entry, depth + 1)
    elif isinstance(value, Mapping) and depth < 8:
        for name in _TEXTS:
            if name in value:
                yield from _strings(value[name], depth + 1)
