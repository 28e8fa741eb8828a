"""What may be kept: JSON, checked and copied when it comes in.

Checked before anything changes, because a value that only fails in the worker thread would be lost without a traceback
that names its author. Copied, because a caller's dict that is changed later must change neither memory nor disk.
Stricter than `json.dumps`: a tuple or a number as key would come back from the disk as something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

from . import Value

_SIMPLE = frozenset({str, bool, type(None)})
_LARGEST = 2**63 - 1
"""Whole numbers are kept to 64 bits, which every engine can hold."""
_DEEPEST = 32

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class _NotJson(Exception):
    """Path of the field and what is wrong with it; never the value, which might be a secret."""


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
        return MappingProxyType(_mapping(value, "", 0))
    except _NotJson as error:
        raise TypeError(f"{table}[{key!r}]: {error}") from None


def encoded(value: Value) -> str:
    """The text of a frozen value; ASCII only, so that characters are bytes."""
    return _encode(dict(value))


def decoded(text: str) -> Value:
    """The value of a text; ValueError when it is none (a person edited the file)."""
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON object was expected, not {type(value).__name__}")
    return MappingProxyType(value)


def _mapping(value: object, path: str, depth: int) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _NotJson(f"a mapping was expected, not {type(value).__name__}")
    if depth > _DEEPEST:
        raise _NotJson(f"nested more than {_DEEPEST} deep; does it contain itself?")
    copy = dict(value)
    for name, item in copy.items():
        if type(name) is not str:
            raise _NotJson(f"key {name!r} of {path or 'the value'} is {type(name).__name__}, not text")
        if type(item) not in _SIMPLE:
            copy[name] = _item(item, f"{path}.{name}" if path else name, depth)
    return copy


def _item(item: object, path: str, depth: int) -> object:
    kind = type(item)
    if kind in _SIMPLE:
        return item
    if kind is int and -_LARGEST <= item <= _LARGEST:  # type: ignore[operator]
        return item
    if kind is float and isfinite(item):  # type: ignore[arg-type]
        return item
    if isinstance(item, list):
        if depth > _DEEPEST:
            raise _NotJson(f"nested more than {_DEEPEST} deep; does it contain itself?")
        return [_item(one, f"{path}[{index}]", depth + 1) for index, one in enumerate(item)]
    if isinstance(item, Mapping):
        return _mapping(item, path, depth + 1)
    what = f"{kind.__name__} that JSON cannot hold" if kind in (int, float) else kind.__name__
    raise _NotJson(f"field {path!r} is {what}; allowed are text, numbers, booleans, None, lists and mappings")
