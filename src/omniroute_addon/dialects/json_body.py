"""A JSON object read member by member, with the place of each value, so that one can be replaced in the bytes.

Request bodies come from anywhere. Whatever is wrong with one ends as ValueError with one sentence; nothing else gets
out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]  # public, missing in typeshed
from typing import Any, NamedTuple, NoReturn

from .faults import text_fault
from .frames import BodyProblem

_SPACE = re.compile(r"[ \t\r\n]*")
# Matches an unterminated string up to the end, too: trying again at each of its escaped quotes would be quadratic.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
_TYPE_NAMES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}
_MOST_DIGITS = 400
_EMPTY_MESSAGE = "the provider answered with an empty body"
_CUT_MESSAGE = "the provider's answer is cut off"
_NOT_JSON_MESSAGE = "the provider's answer is not JSON"


class Member(NamedTuple):
    """One top-level value and where it stands in the text, in characters."""

    value: Any
    start: int
    end: int


Members = dict[str, Member]


def read_object(body: bytes) -> Members:
    """The members of a JSON object. Raises ValueError with one sentence for anything else, duplicate names included."""
    return _members(_decoded(body))


def replace_model(body: bytes, model: str) -> bytes:
    """The same bytes with another top-level `model`, put first where there was none. ValueError when unusable."""
    text = _decoded(body)
    members = _members(text)
    member = members.get("model")
    if member is None:
        start = text.index("{") + 1
        return (text[:start] + f'"model":{json.dumps(model)}{"," if members else ""}' + text[start:]).encode()
    # A byte order mark and all formatting around the value stay: they are in the text before and after it.
    return (text[: member.start] + json.dumps(model) + text[member.end :]).encode()


def string(members: Members, name: str) -> str:
    """A string member; empty when absent or null. Raises ValueError when it is something else or no valid Unicode."""
    value = members[name].value if name in members else None
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"`{name}` must be a string, not {_TYPE_NAMES[type(value)]}")
    if not is_unicode(value):
        raise ValueError(f"`{name}` contains half of a surrogate pair")
    return value


def size(members: Members, name: str) -> int:
    """Length of an array member; 1 for a bare value; 0 when absent or null."""
    value = members[name].value if name in members else None
    return len(value) if isinstance(value, list) else int(value is not None)


def flag(members: Members, name: str) -> bool:
    """True only for the JSON value `true`."""
    return name in members and members[name].value is True


def is_unicode(text: str) -> bool:
    """False for a string with a lone surrogate, which no encoder, log or database takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_cut(text: bytes) -> bool:
    """The text opens more than it closes: the beginning of a JSON value whose end is missing."""
    outside, strings = _STRING.subn(rb"\1", text)
    unterminated = strings > outside.count(b'"')
    return unterminated or outside.count(b"{") + outside.count(b"[") > outside.count(b"}") + outside.count(b"]")


def why_not_json(text: bytes, error: ValueError) -> BodyProblem | None:
    """The problem with an answer that `json.loads` refused; None when only Python's limits stand in the way."""
    if not isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return None  # a number of more than 4300 digits: odd, but JSON
    if not text:
        return BodyProblem(kind="empty", fault=text_fault(_EMPTY_MESSAGE, code="empty_content"))
    if text.startswith((b"{", b"[")) and is_cut(text):
        return BodyProblem(kind="truncated", fault=text_fault(_CUT_MESSAGE, code="truncated"))
    # The page itself is kept as the body: its words often say more than its status.
    fault = text_fault(_NOT_JSON_MESSAGE, code="not_json")
    return BodyProblem(kind="not_json", fault=replace(fault, body=text))


def _decoded(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"the request body is not UTF-8 (byte {error.start})") from None


def _members(text: str) -> Members:
    try:
        members: Members = {}
        for name, member in _walk(text):
            if name in members:
                raise ValueError(f"the request body names {name[:40]!r} twice")
            members[name] = member
        return members
    except RecursionError:
        raise ValueError("the request body is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the request body is not a JSON object: {error.msg} (character {error.pos})") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the request body contains {name}, which is not JSON")


def _read_int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"the request body contains a number of {len(digits)} digits")
    return int(digits)


_DECODER = JSONDecoder(parse_constant=_refuse_constant, parse_int=_read_int)


def _walk(text: str) -> Iterator[tuple[str, Member]]:
    """The members one after the other: names by the library's string scanner, values by its C decoder."""
    at = _skip(text, 1 if text.startswith("\ufeff") else 0)
    at = _skip(text, _expect(text, at, "{"))
    if text.startswith("}", at):
        at += 1
    else:
        while True:
            name, at = scanstring(text, _expect(text, at, '"'), True)
            start = _skip(text, _expect(text, _skip(text, at), ":"))
            value, end = _DECODER.raw_decode(text, start)
            yield name, Member(value, start, end)
            at = _skip(text, end)
            if not text.startswith(",", at):
                break
            at = _skip(text, at + 1)
        at = _expect(text, at, "}")
    if (at := _skip(text, at)) != len(text):
        raise json.JSONDecodeError("Extra data", text, at)


def _expect(text: str, at: int, char: str) -> int:
    if not text.startswith(char, at):
        raise json.JSONDecodeError(f"Expecting {char!r}", text, at)
    return at + 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
