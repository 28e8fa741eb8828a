"""The corpus of provider errors: one JSON object a line, each an answer as received and what it means.

The format is described in `corpus/README.md`. A file is read whole; every line that cannot be used is told with its
place.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from omniroute_addon.errors import InputError
from omniroute_addon.model import KINDS, SCOPES
from omniroute_addon.nearest import shown, unknown

FIELDS = ("kind", "scope", "retry_other", "terminal", "retry_after_s", "retry_after_from", "breaker")
"""The fields of `expect`, in the order of reports."""
_MOST_TOLD: Final = 20
"""Problems of one file that are told: whoever names the wrong file need not read them all."""
_TOP = ("id", "provider", "endpoint", "status", "headers", "body", "stream", "expect")
_OPTIONAL = ("body_b64", "debatable", "note", "source")
_DEBATABLE = re.compile(r"\s*\[debatable:([^\]]*)\]")
_LITERALS: Mapping[str, object] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One answer and the wanted decision."""

    id: str
    provider: str
    """Who sent the answer; a gateway counts as itself."""
    endpoint: str
    """Method and path, `POST /v1/messages`."""
    status: int
    """0: no HTTP answer, `body` is the transport's error text."""
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    """The bytes on the wire, without content coding unless the headers name one."""
    stream: bool
    expect: Mapping[str, object]
    """Exactly the keys of `FIELDS`."""
    alternatives: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Field -> further values that a reasonable person could want."""
    note: str = field(default="", repr=False)
    source: str = ""

    @property
    def path(self) -> str:
        """The path of the endpoint, with its query."""
        return self.endpoint.partition(" ")[2] or self.endpoint

    @property
    def debatable(self) -> bool:
        """Some field has alternatives."""
        return bool(self.alternatives)

    @property
    def lookalike(self) -> bool:
        """It looks like a quota, a limit or a ban, and is none: so is every success."""
        return "LOOK-ALIKE" in self.note or self.expect["kind"] == "ok"

    def accepts(self, name: str) -> tuple[object, ...]:
        """Every value of a field that is right when read leniently; the wanted one first."""
        return (self.expect[name], *self.alternatives.get(name, ()))


def load_corpus(path: Path, *, label: str = "") -> tuple[Case, ...]:
    """The cases of a file. Raises InputError with every bad line, `file:line: what is wrong`."""
    name = label or str(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError([f"{name}: cannot read the corpus: {error}. Give a UTF-8 file of JSON lines."]) from error
    return parse_corpus(text.splitlines(), file=name)


def parse_corpus(lines: Sequence[str], *, file: str) -> tuple[Case, ...]:
    """The cases of a file's lines; empty lines count but say nothing. Raises InputError as `load_corpus`."""
    cases: list[Case] = []
    problems: list[str] = []
    places: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            case = parse_case(line)
        except ValueError as error:
            problems.extend(f"{file}:{number}: {text}" for text in error.args)
            continue
        if case.id in places:
            problems.append(f"{file}:{number}: the id {shown(case.id)} is already used in line {places[case.id]}")
        places.setdefault(case.id, number)
        cases.append(case)
    if len(problems) > _MOST_TOLD:
        problems[_MOST_TOLD:] = [f"{file}: … and {len(problems) - _MOST_TOLD} more. Is it a corpus (corpus/README.md)?"]
    if problems:
        raise InputError(problems)
    if not cases:
        raise InputError([f"{file}: there is no case in this file. Write one JSON object a line (corpus/README.md)."])
    return tuple(cases)


def parse_case(line: str) -> Case:
    """One line as a case. Raises ValueError whose `args` are everything that is wrong with it, one sentence each."""
    try:
        written = json.loads(line)
    except ValueError as error:
        raise ValueError(f"this is not JSON ({error}); write one object a line") from None
    if not isinstance(written, dict):
        raise ValueError(f"a case is an object, not {shown(written)}")
    problems = [*_shape(written)]
    expect = written.get("expect")
    if isinstance(expect, dict):
        problems += _expectation(expect)
    alternatives: dict[str, tuple[object, ...]] = {}
    try:
        alternatives = _alternatives(str(written.get("note", "")))
    except ValueError as error:
        problems.append(str(error))
    try:
        body = _body(written)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise ValueError(*problems)
    return Case(
        id=written["id"],
        provider=written["provider"],
        endpoint=written["endpoint"],
        status=written["status"],
        headers={name.lower(): value for name, value in written["headers"].items()},
        body=body,
        stream=written["stream"],
        expect=written["expect"],
        alternatives=alternatives,
        note=written.get("note", ""),
        source=written.get("source", ""),
    )


def _shape(written: Mapping[str, Any]) -> list[str]:
    problems = [f"'{name}' is missing" for name in _TOP if name not in written]
    problems += [unknown("field", name, (*_TOP, *_OPTIONAL)) for name in written if name not in (*_TOP, *_OPTIONAL)]
    for name in ("id", "provider", "endpoint", "body", "note", "source", "body_b64"):
        if name in written and not isinstance(written[name], str):
            problems.append(f"'{name}' must be text, not {shown(written[name])}")
    if "stream" in written and not isinstance(written["stream"], bool):
        problems.append(f"'stream' must be true or false, not {shown(written['stream'])}")
    status = written.get("status", 0)
    if isinstance(status, bool) or not isinstance(status, int) or not (status == 0 or 100 <= status <= 599):
        problems.append(f"'status' must be 0 (no HTTP answer) or 100 to 599, not {shown(status)}")
    headers = written.get("headers", {})
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        problems.append("'headers' must be an object of texts")
    if not isinstance(written.get("expect", {}), dict):
        problems.append(f"'expect' must be an object, not {shown(written['expect'])}")
    return problems


def _expectation(expect: Mapping[str, Any]) -> list[str]:
    problems = [f"'expect.{name}' is missing" for name in FIELDS if name not in expect]
    problems += [unknown("field of expect", name, FIELDS) for name in expect if name not in FIELDS]
    problems += [problem for name in FIELDS if name in expect and (problem := _wrong(name, expect[name]))]
    return problems


def _wrong(name: str, value: object) -> str:
    """What is wrong with a value of a field; empty when nothing is."""
    if name in ("kind", "scope"):
        allowed = KINDS if name == "kind" else SCOPES
        return "" if value in allowed else unknown(name, value, allowed)
    if name in ("retry_other", "terminal", "breaker"):
        return "" if isinstance(value, bool) else f"'{name}' must be true or false, not {shown(value)}"
    if name == "retry_after_s":
        good = value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0)
        return "" if good else f"'{name}' must be a number of seconds or null, not {shown(value)}"
    good = value is None or (isinstance(value, str) and ":" in value)
    return "" if good else f"'{name}' must be 'header:NAME', 'body:PATH', 'text:QUOTE' or null, not {shown(value)}"


def _alternatives(note: str) -> dict[str, tuple[object, ...]]:
    """The pairs of `[debatable: kind=forbidden, retry_after_s=6]`; several for one field are alternatives."""
    found: dict[str, tuple[object, ...]] = {}
    if not (mark := _DEBATABLE.match(note)):
        return found
    for pair in mark[1].split(","):
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or name not in FIELDS:
            raise ValueError(f"cannot read {shown(pair.strip())} in the note; write [debatable: field=value, …]")
        value: object = _LITERALS.get(text, text)
        if name == "retry_after_s" and isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise ValueError(f"'{name}' must be a number of seconds or null, not {shown(text)}") from None
        if problem := _wrong(name, value):
            raise ValueError(problem)
        found[name] = (*found.get(name, ()), value)
    return found


def _body(written: Mapping[str, Any]) -> bytes:
    if coded := written.get("body_b64"):
        try:
            return base64.b64decode(coded, validate=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"'body_b64' is not Base64: {error}") from None
    return str(written.get("body", "")).encode("utf-8", "surrogatepass")
