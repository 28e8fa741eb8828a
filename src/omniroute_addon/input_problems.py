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

from .nearest import shown, unknown
from .yaml_source import Document, Path

SECRET_FIELDS: Final = frozenset({"key", "headers", "via", "base_url"})
"""Values below these are never repeated in an error (`design.md` §7.2)."""

_LIST: Final = ("a list", "Begin each entry with '- '.")
_MAPPING: Final = ("a mapping", "Write `name: value` lines below it.")
_EXPECTS: Final = {
    "string": ("text", "Put it in quotes."),
    "int": ("a whole number", ""),
    "float": ("a number", ""),
    "finite": ("a number", ""),
    "bool": ("true or false", ""),
    "list": _LIST,
    "dict": _MAPPING,
    "model": _MAPPING,
}
"""Beginning of pydantic's error type -> what is wanted, and what to do."""
_KEY_NAMES: Final = {"endpoints": "dialect", "keep_alive": "dialect", "broken_stream": "dialect"}
"""What the keys of a mapping are, where only some are allowed."""
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
    if isinstance(data, dict):
        # `connections:` with everything below it commented out is null, and means the same as leaving it out.
        known = _keys_of(model)
        data = {key: value for key, value in data.items() if value is not None or key not in known}
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
    found: dict[tuple[Path, bool], list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        found.setdefault(_written_path(detail, document.data, prefix), []).append(detail)
    texts: list[tuple[tuple[int, int], str]] = []
    for (path, at_key), details in found.items():
        secret = bool(SECRET_FIELDS & set(path))
        types_ = [d for d in details if _wanted(d)]
        others = [d for d in details if not _wanted(d)]
        # Where several forms are allowed pydantic complains once for each. Below the place somebody tried one of
        # the forms: only what is wrong with that one helps.
        if types_ and not others and not any(len(p) > len(path) and p[: len(path)] == path for p, _ in found):
            texts.append((document.position(path, key=at_key), _type_sentence(types_, path, secret=secret)))
        texts += [(document.position(path, key=at_key), _sentence(d, model, path, secret=secret)) for d in others]
    texts.sort(key=lambda item: item[0])
    return list(dict.fromkeys(f"{document.file}:{line}:{column}: {text}" for (line, column), text in texts))


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


def _sentence(detail: ErrorDetails, model: type[BaseModel], path: Path, *, secret: bool) -> str:
    kind, context, loc = detail["type"], detail.get("ctx", {}), detail["loc"]
    words = [part for part in path if isinstance(part, str)]
    name = shown(words[-1]) if words else "the file"
    value = "" if secret else f", not {shown(detail['input'])}"
    if kind == "extra_forbidden":
        known = {key for owner in _models_at(model, loc[:-1]) for key in _keys_of(owner)}
        return unknown("key", loc[-1], known, hint="\n  Rename or remove it.")
    if kind == "missing":
        about = _field_at(model, loc)
        meaning = f" ({about.description.rstrip('.')})" if about and about.description else ""
        return f"'{loc[-1]}' is missing here. Add `{loc[-1]}: …`{meaning}."
    if kind in ("literal_error", "enum"):
        if loc[-1] == "[key]":
            return unknown(_KEY_NAMES.get(words[-2], "key"), words[-1], _quoted(context["expected"]))
        named = words[-2] if len(words) > 1 and words[-2] in _KEY_NAMES else words[-1]
        return unknown(_singular(named), detail["input"], _quoted(context["expected"]))
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind in _BOUNDS:
        words_, bound = _BOUNDS[kind]
        return f"{name} must be {words_} {context[bound]:.15g}{value}."
    if kind in _COUNTS:
        words_, bound = _COUNTS[kind]
        unit = "characters" if kind.startswith("string") else "entries"
        return f"{name} must have {words_} {context[bound]} {unit}."
    return f"{name} cannot be used: {detail['msg'][:1].lower()}{detail['msg'][1:]}{value}."


def _wanted(detail: ErrorDetails) -> tuple[str, str] | None:
    """What a value of the wrong type should have been, and what to do; None when the type is not what is wrong."""
    kind = detail["type"]
    return _EXPECTS.get(kind.partition("_")[0]) if kind.endswith(("_type", "_parsing", "_number", "_float")) else None


def _type_sentence(details: Sequence[ErrorDetails], path: Path, *, secret: bool) -> str:
    """`'priority' must be a whole number, not 'high'.`"""
    wanted = list(dict.fromkeys(w for d in details if (w := _wanted(d))))
    words = [part for part in path if isinstance(part, str)]
    name = shown(words[-1]) if words else "the file"
    where = f"every entry of {name}" if path and isinstance(path[-1], int) else name
    forms = [what for what, _ in wanted]
    listed = f"{', '.join(forms[:-1])} or {forms[-1]}" if len(forms) > 1 else forms[0]
    value = "" if secret else f", not {shown(details[0]['input'])}"
    advice = f" {wanted[0][1]}" if len(wanted) == 1 and wanted[0][1] else ""
    return f"{where} must be {listed}{value}.{advice}"


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us")) else word


def _quoted(expected: str) -> list[str]:
    """pydantic hands over the allowed words as prose: `'a', 'b' or 'c'`."""
    return re.findall(r"'([^']*)'", expected)


# ---------------------------------------------------------------- what the model says about a place


def _keys_of(model: type[BaseModel]) -> frozenset[str]:
    """What may be written in the model's place."""
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def _field_at(model: type[BaseModel], loc: Sequence[str | int]) -> FieldInfo | None:
    fields = (item for owner in _models_at(model, loc[:-1]) for item in owner.model_fields.items())
    return next((field for name, field in fields if loc[-1] in (name, field.alias)), None)


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
