"""One set of conditions, compiled: a row of named tests, cheapest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .answer_view import AnswerView
from .json_path import compile_path
from .schema import FieldTest, ValueTest, When
from .schema_values import parse_statuses
from .text_match import Text, Written, compile_phrases

_ERROR_WORDS: Final = ("text", "text_all", "code", "type", "status_name", "name", "param")

type Test = Callable[[AnswerView], bool]
type NamedTest = tuple[str, Test]


@dataclass(frozen=True, slots=True)
class Conditions:
    """A compiled `When`."""

    statuses: frozenset[int] | None
    """Only answers with one of these true statuses can match; None: any."""
    tests: tuple[NamedTest, ...]
    needs_error: bool = False
    """Asks for an error's words or codes, so that no success can match."""

    def failing(self, view: AnswerView) -> str | None:
        """Name of the first condition that does not hold, or None when all do."""
        if self.statuses is not None and view.status not in self.statuses:
            return "status"
        for name, test in self.tests:
            if not test(view):
                return name
        return None


def compile_conditions(when: When, named: Mapping[str, Written]) -> Conditions:
    """The tests of one set of conditions. Raises ValueError for an unknown phrase list or a bad path."""
    tests = tuple(_tests(when, named))
    statuses = None if when.status is None else parse_statuses(when.status)
    return Conditions(statuses, tests, any(getattr(when, name) is not None for name in _ERROR_WORDS))


def _tests(when: When, named: Mapping[str, Written]) -> Iterable[NamedTest]:
    if when.sent_status is not None:
        sent = parse_statuses(when.sent_status)
        yield "sent_status", lambda view: view.sent_status in sent
    for name in ("stream", "error", "empty", "html", "cut", "output"):
        if (wanted := getattr(when, name)) is not None:
            yield name, _flag(name, wanted)
    if when.phase is not None:
        phases = when.phase
        yield "phase", lambda view: view.phase in phases
    for name in ("provider", "category", "dialect"):
        if (allowed := getattr(when, name)) is not None:
            yield name, _member(name, frozenset(allowed))
    if when.fault is not None:
        yield "fault", _named(when.fault, lambda view: (view.fault,))
    if when.code is not None:
        yield "code", _named(when.code, lambda view: view.codes)
    if when.type is not None:
        yield "type", _named(when.type, lambda view: view.types)
    if when.status_name is not None:
        yield "status_name", _named(when.status_name, lambda view: view.names)
    if when.name is not None:
        yield "name", _named(when.name, lambda view: view.codes | view.types | view.names)
    if when.param is not None:
        yield "param", _named(when.param, lambda view: view.params)
    for header, wanted in (when.header or {}).items():
        yield f"header {header}", _header(header.lower(), _value_test(wanted, named))
    for path, wanted in (when.json_ or {}).items():
        yield f"json {path}", _json(path, _value_test(wanted, named))
    for name in ("text", "text_all"):
        if (phrases := getattr(when, name)) is not None:
            yield name, _text(compile_phrases(phrases, named))


def _flag(name: str, wanted: bool) -> Test:
    return lambda view: bool(getattr(view, name)) is wanted


def _member(name: str, allowed: frozenset[str]) -> Test:
    return lambda view: getattr(view, name) in allowed


def _text(test: Callable[[Text], bool]) -> Test:
    return lambda view: test(view.text)


def _named(wanted: list[str], read: Callable[[AnswerView], Iterable[str]]) -> Test:
    exact = frozenset(name.lower() for name in wanted if not name.endswith("*"))
    heads = tuple(name[:-1].lower() for name in wanted if name.endswith("*"))

    def test(view: AnswerView) -> bool:
        return any(name in exact or (heads and name.startswith(heads)) for name in read(view))

    return test


def _header(name: str, test: Callable[[list[Any]], bool]) -> Test:
    return lambda view: test([view.headers[name]] if name in view.headers else [])


def _json(path: str, test: Callable[[list[Any]], bool]) -> Test:
    read = compile_path(path)
    return lambda view: test([] if view.document is None else read(view.document))


def _value_test(wanted: FieldTest, named: Mapping[str, Written]) -> Callable[[list[Any]], bool]:
    if wanted is True:
        return lambda values: any(value is not None for value in values)
    if wanted is False:
        return lambda values: all(value is None for value in values)
    if isinstance(wanted, ValueTest):
        return _refined(wanted, named)
    allowed = frozenset(_as_text(item) for item in (wanted if isinstance(wanted, list) else [wanted]))
    return lambda values: any(_as_text(value) in allowed for value in values)


def _refined(wanted: ValueTest, named: Mapping[str, Written]) -> Callable[[list[Any]], bool]:
    phrases = None if wanted.text is None else compile_phrases(wanted.text, named)

    def holds(value: Any) -> bool:
        if phrases is not None and not (isinstance(value, str) and phrases(Text(value))):
            return False
        if wanted.count is not None and not (isinstance(value, list | dict | str) and len(value) == wanted.count):
            return False
        if wanted.below is None and wanted.above is None:
            return True
        number = _as_number(value)
        if number is None:
            return False
        return (wanted.below is None or number < wanted.below) and (wanted.above is None or number > wanted.above)

    return lambda values: any(holds(value) for value in values)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip().lower() if isinstance(value, str | int | float) else ""


def _as_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(str(value)[:40])
    except ValueError:
        return None
    return number if math.isfinite(number) else None
