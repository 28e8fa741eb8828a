"""Paths into a JSON body, as rules write them: `error.details[].reason`; `[]` stands for any member of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

type Reader = Callable[[Any], list[Any]]

MAX_VALUES: Final = 200
"""Values looked at below one path."""


def compile_path(path: str) -> Reader:
    """A function from a document to every value at the path. Letter case of keys matters, as in JSON.

    Raises ValueError for an empty step.
    """
    steps: list[str] = []
    for piece in path.split("."):
        name = piece.removesuffix("[]")
        if name:
            steps.append(name)
        if piece.endswith("[]"):
            steps.append("[]")
        if not piece:
            raise ValueError(f"the path {path!r} has an empty step; write error.details[].reason")

    def read(document: Any) -> list[Any]:
        values: Iterable[Any] = [document]
        for step in steps:
            values = list(_step(values, step))[:MAX_VALUES]
        return list(values)

    return read


def _step(values: Iterable[Any], step: str) -> Iterable[Any]:
    for value in values:
        if step == "[]":
            if isinstance(value, list):
                yield from value[:MAX_VALUES]
        elif isinstance(value, dict) and step in value:
            yield value[step]
