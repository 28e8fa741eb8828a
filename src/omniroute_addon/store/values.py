"""What may be kept: JSON, checked and copied when it comes in.

Checked before anything changes, because a value that only fails in the worker thread would be lost without a traceback
that names its author; and strictly, because an object with a credential inside must never be written as if it were data.
Copied, because a caller's dict that is changed later must change neither memory nor disk. A tuple or a number as key is
refused: it would come back from the disk as something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType, NoneType
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from . import Value

_SIMPLE = frozenset({str, bool, NoneType})
_LARGEST = 2**63 - 1
"""Whole numbers are kept to 64 bits, which every engine can hold."""
_DEEPEST = 32


class _NotJson(Exception):
    """What is wrong, and the way to it; never the value, which might be a secret."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.way: list[str] = []

    def inside(self, step: str) -> _NotJson:
        self.way.insert(0, step)
        return self

    def __str__(self) -> str:
        way = "".join(self.way).lstrip(".")
        return f"field '{way}': {self.args[0]}" if way else str(self.args[0])


def text_key(key: object, *, table: str) -> str:
    """The key itself; TypeError when it is not text that can be written as UTF-8."""
    if type(key) is not str:
        raise TypeError(f"{table}: a key is text, not {type(key).__name__}")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise TypeError(f"{table}: a key is text that UTF-8 can write; {key!r} has half a surrogate pair") from None
    return key


def frozen(value: object, *, table: str, key: str) -> Value:
    """A read-only copy of a JSON mapping; TypeError names table, key and field of what is not JSON."""
    try:
        if type(value) is not dict and not isinstance(value, Mapping):
            raise _NotJson(f"{type(value).__name__} is not a mapping")
        return MappingProxyType(_mapping(value, 0))
    except _NotJson as error:
        raise TypeError(f"{table}[{key!r}]: {error}") from None


def encoded(value: Value) -> str:
    """The JSON text of a frozen value."""
    plain = dict(value)
    try:
        return to_json(plain).decode()  # six times faster than `json.dumps`, which counts on the event loop
    except (PydanticSerializationError, ValueError):
        return json.dumps(plain)  # an upstream's message may hold half a surrogate pair


def decoded(text: str) -> Value:
    """The value of a text; ValueError when it is none (a person edited the file)."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
    return MappingProxyType(value)


def _mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    copy = dict(value)
    for name, item in copy.items():
        if type(name) is not str:
            raise _NotJson(f"key {name!r} is {type(name).__name__}, not text")
        if type(item) not in _SIMPLE:
            try:
                copy[name] = _item(item, depth)
            except _NotJson as error:
                raise error.inside(f".{name}") from None
    return copy


def _item(item: Any, depth: int) -> Any:
    kind = type(item)
    if kind in _SIMPLE:
        return item
    if kind is float:
        if isfinite(item):
            return item
        raise _NotJson(f"{item} is not a number that JSON knows")
    if kind is int:
        if -_LARGEST <= item <= _LARGEST:
            return item
        raise _NotJson("a whole number of more than 64 bits")
    if depth >= _DEEPEST:
        raise _NotJson(f"nested more than {_DEEPEST} deep; does it contain itself?")
    if kind is dict or isinstance(item, Mapping):
        return _mapping(item, depth + 1)
    if isinstance(item, list):
        return _list(item, depth + 1)
    raise _NotJson(f"{kind.__name__} is not JSON; allowed are text, numbers, booleans, None, lists and mappings")


def _list(items: list[Any], depth: int) -> list[Any]:
    copy = []
    for index, item in enumerate(items):
        try:
            copy.append(_item(item, depth))
        except _NotJson as error:
            raise error.inside(f"[{index}]") from None
    return copy
