"""pydantic's errors, in the house form: where, what, what is allowed, what to do (`style.md` §7).

The only place that knows pydantic's error types. Models that want a sentence of their own raise `ValueError` with it.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .nearest import plural, shown, unknown
from .yaml_source import Document, Path

SECRET_FIELDS: Final = frozenset({"key", "headers", "via", "base_url"})
"""Values below these are never repeated in an error (`design.md` §7.2)."""

_EXPECTS: Final = {
    "string": "text; put it in quotes",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list; begin each entry with '- '",
    "tuple": "a list; begin each entry with '- '",
    "dict": "a mapping; write `name: value` lines below it",
    "model": "a mapping; write `name: value` lines below it",
    "mapping": "a mapping; write `name: value` lines below it",
    "finite": "a finite number",
}
_BOUNDS: Final = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("more than", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("less than", "lt"),
}
_COUNTS: Final = {
    "too_short": ("at least", "min_length"),
    "too_long": ("at most", "max_length"),
    "string_too_short": ("at least", "min_length"),
    "string_too_long": ("at most", "max_length"),
}


class Strict(BaseModel):
    """Base of everything that people write: nothing unknown, no silent conversion, unchanging once read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def validate[M: BaseModel](model: type[M], document: Document, *, prefix: Path = ()) -> tuple[M | None, list[str]]:
    """The value at `prefix` of a document as a model, or None and every problem with its place."""
    data = value_at(document.data, prefix)
    try:
        return model.model_validate({} if data is None else data), []
    except ValidationError as error:
        return None, problems_of(error, document, model=model, prefix=prefix)


def value_at(data: Any, path: Path) -> Any:
    """What is written at a path, or None."""
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def problems_of(error: ValidationError, document: Document, *, model: type[BaseModel], prefix: Path = ()) -> list[str]:
    """One text per error, in the order of the file."""
    found: list[tuple[tuple[int, ...], str]] = []
    for detail in error.errors(include_url=False):
        path, at_key = _written_path(detail, document.data, prefix)
        place = document.place(path, key=at_key)
        order = tuple(int(n) for n in place.removeprefix(document.file).strip(":").split(":"))
        found.append((order, f"{place}: {_sentence(detail, model, secret=bool(SECRET_FIELDS & set(path)))}"))
    found.sort(key=lambda item: item[0])
    return list(dict.fromkeys(text for _, text in found))


def _written_path(detail: ErrorDetails, data: Any, prefix: Path) -> tuple[Path, bool]:
    """The part of pydantic's location that stands in the file, and whether the key itself is meant.

    pydantic mixes names of union members and `[key]` into the location; they are passed over.
    """
    path: Path = prefix
    data = value_at(data, prefix)
    for part in detail["loc"]:
        if isinstance(data, dict) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            continue
        path = (*path, part)
    return path, detail["type"] in ("extra_forbidden", "missing") or detail["loc"][-1:] == ("[key]",)


def _sentence(detail: ErrorDetails, model: type[BaseModel], *, secret: bool) -> str:
    kind, context, loc = detail["type"], detail.get("ctx", {}), detail["loc"]
    words = [str(part) for part in loc if isinstance(part, str) and part != "[key]"]
    name = words[-1] if words else "the file"
    value = "" if secret else f", not {shown(detail['input'])}"
    if kind == "extra_forbidden":
        return unknown("key", name, _keys_at(model, loc[:-1]), hint="\n  Rename or remove it.")
    if kind == "missing":
        about = _field_at(model, loc)
        meaning = f" ({about.description.rstrip('.')})" if about and about.description else ""
        return f"'{name}' is missing here. Add `{name}: …`{meaning}."
    if kind in ("literal_error", "enum"):
        label = name if not isinstance(loc[-1], int) else _singular(name)
        if loc[-1] == "[key]":
            label, value_written = _singular(words[-2]) if len(words) > 1 else name, words[-1]
            return unknown(label, value_written, _quoted(context["expected"]))
        return unknown(label, detail["input"], _quoted(context["expected"]))
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind in _BOUNDS:
        words_, bound = _BOUNDS[kind]
        return f"'{name}' must be {words_} {context[bound]}{value}."
    if kind in _COUNTS:
        words_, bound = _COUNTS[kind]
        unit = "characters" if kind.startswith("string") else "entries"
        return f"'{name}' must have {words_} {context[bound]} {unit}."
    expected = _EXPECTS.get(kind.partition("_")[0])
    if expected:
        about_it, _, advice = expected.partition("; ")
        where = f"every entry of '{name}'" if loc and isinstance(loc[-1], int) else _quote_name(name)
        return f"{where} must be {about_it}{value}.{' ' + advice[0].upper() + advice[1:] + '.' if advice else ''}"
    return f"{_quote_name(name)} cannot be used: {detail['msg'][:1].lower()}{detail['msg'][1:]}{value}."


def _quote_name(name: str) -> str:
    return name if name == "the file" else f"'{name}'"


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _quoted(expected: str) -> list[str]:
    """pydantic hands over the allowed words as prose: `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", expected)


# ---------------------------------------------------------------- what the model says about a place


def _keys_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    return sorted({field.alias or name for m in _models_at(model, loc) for name, field in m.model_fields.items()})


def _field_at(model: type[BaseModel], loc: Sequence[str | int]) -> FieldInfo | None:
    for owner in _models_at(model, loc[:-1]):
        for name, field in owner.model_fields.items():
            if loc[-1] in (name, field.alias):
                return field
    return None


def _models_at(model: type[BaseModel], loc: Sequence[str | int]) -> list[type[BaseModel]]:
    """The models that a location may hold; names of union members in the location are passed over."""
    here: list[Any] = [model]
    for part in loc:
        inner = [child for annotation in here for child in _step(annotation, part)]
        here = inner or here
    return [m for m in here if isinstance(m, type) and issubclass(m, BaseModel)]


def _step(annotation: Any, part: str | int) -> Iterable[Any]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if part in (name, field.alias):
                yield from _members(field.annotation)
        return
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict and isinstance(part, str):
        yield from _members(arguments[1])
    elif origin in (list, tuple) and isinstance(part, int):
        yield from _members(arguments[0])


def _members(annotation: Any) -> Iterable[Any]:
    """An annotation without `Annotated`, optional and union around it."""
    if isinstance(annotation, types.GenericAlias) or get_origin(annotation) in (dict, list, tuple, Literal):
        yield annotation
    elif get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif hasattr(annotation, "__metadata__"):
        yield from _members(annotation.__origin__)
    elif hasattr(annotation, "__value__"):  # a `type X = …` alias
        yield from _members(annotation.__value__)
    elif annotation is not type(None):
        yield annotation


__all__ = ["SECRET_FIELDS", "Strict", "plural", "problems_of", "validate", "value_at"]
