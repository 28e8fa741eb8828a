"""YAML text -> plain data plus the place of every key and value.

The C composer gives positions for free; nothing is ever constructed from a tag. Plain scalars mean what the YAML 1.2
core schema says, minus its surprises: only `true`/`false`, `null`/`~`/nothing, decimal integers without leading zeros
and decimal fractions are not text. `yes`, `on`, `010`, `0x1f`, `12:30:00` and `2026-01-31` stay the text that they
look like.
Keys are always text. Anchors and aliases work, within bounds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from .nearest import shown

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_DEPTH: Final = 40
MAX_VALUES: Final = 50_000
"""Values after aliases are expanded: a ten-line file of nested aliases must not become a billion (`design.md` §7.7)."""

type Path = tuple[str | int, ...]
"""Where a value is: keys and list indexes from the top."""

_BASE_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_PLAIN, _TEXT = "plain", "text"
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40}|[0-9]{1,40}(?=[eE]))(?:[eE][-+]?[0-9]{1,4})?")
_WORDS: Final = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}


class _Loader(_BASE_LOADER):  # type: ignore[misc]  # the base is chosen at run time, libyaml may be missing
    """Says of a scalar only whether it was plain: an explicit tag is then whatever else the node carries."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        return _PLAIN if kind is yaml.ScalarNode and implicit[0] else _TEXT


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One YAML file: its data, and where everything in it was written."""

    file: str
    """As it is shown to people."""
    data: Any = None
    """dict, list, str, int, float, bool or None; None also for a file that cannot be read."""
    problems: tuple[str, ...] = ()
    """What is wrong with the YAML itself, one sentence each with its place, in the order of the file."""
    readable: bool = True
    """`data` is the whole file, apart from what `problems` names."""
    keys: dict[Path, tuple[int, int]] = field(default_factory=dict, repr=False)
    """Line and column, from 1, of the key that leads to a path."""
    values: dict[Path, tuple[int, int]] = field(default_factory=dict, repr=False)
    """Line and column, from 1, of the value at a path."""

    def line(self, path: Path) -> int:
        """Line of the key (or list entry) at a path; of what encloses it when nothing is written there."""
        return self.position(path, key=True)[0]

    def place(self, path: Path, *, key: bool = False) -> str:
        """`file:line:column` of the value at a path, or of its key."""
        line, column = self.position(path, key=key)
        return f"{self.file}:{line}:{column}"

    def position(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """As `place`, as line and column."""
        while path:
            found = (self.keys.get(path) if key else None) or self.values.get(path)
            if found:
                return found
            path, key = path[:-1], False
        return self.values.get((), (1, 1))


def read_yaml(raw: bytes, *, file: str) -> Document:
    """Parse one file. Never raises: what is wrong is in the result's `problems`."""
    text, fault = _decode(raw)
    if fault:
        return Document(file=file, problems=(f"{file}:{fault}",), readable=False)
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        return Document(file=file, problems=(f"{file}:{_syntax(error, text)}",), readable=False)
    except RecursionError:  # only without libyaml, which has a limit of its own
        return Document(file=file, problems=(f"{file}:1:1: {_TOO_DEEP}",), readable=False)
    reader = _Reader(file)
    data = None if node is None else reader.read(node, ())
    return Document(
        file=file,
        data=data,
        problems=tuple(reader.problems),
        readable=not reader.gave_up,
        keys=reader.keys,
        values=reader.values,
    )


_TOO_DEEP: Final = f"nested deeper than {MAX_DEPTH} levels. Write it flatter."


def _decode(raw: bytes) -> tuple[str, str]:
    """Text, or the fault with its place."""
    if len(raw) > MAX_BYTES:
        return "", f"1:1: the file has {len(raw)} bytes, more than {MAX_BYTES}. Split it into several files."
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "", "1:1: the file is UTF-16. Save it as UTF-8."
    try:
        # A UTF-8 byte order mark is what some editors leave behind; it says nothing and costs nothing.
        return raw.decode("utf-8-sig"), ""
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        line, column = _line_column(before, len(before))
        return "", f"{line}:{column}: byte 0x{raw[error.start]:02x} is not UTF-8. Save the file as UTF-8."


def _line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def _syntax(error: yaml.YAMLError, text: str) -> str:
    mark = getattr(error, "problem_mark", None)
    what = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed")
    if mark is None:
        line, column = _line_column(text, _first_control(text))
        return f"{line}:{column}: not valid YAML: control characters are not allowed. Remove the character."
    lines = text.split("\n")
    row, column = mark.line, mark.column
    if row >= len(lines):  # libyaml's end of file is a line that nobody wrote
        row, column = len(lines) - 1, len(lines[-1])
    place = f"{row + 1}:{column + 1}"
    if "\t" in lines[row][: column + 1] and "cannot start any token" in what:
        return f"{place}: a tab cannot indent YAML. Use spaces."
    if "another document" in what:
        return f"{place}: a second document begins here. Write one document per file."
    if "maximum nesting depth" in what:
        return f"{place}: {_TOO_DEEP}"
    return f"{place}: not valid YAML: {what}. {_advice(what)}"


def _advice(what: str) -> str:
    if "mapping values are not allowed" in what:
        return "Put text that contains ': ' in quotes."
    if "cannot start any token" in what:
        return "Put text that begins with a special character in quotes."
    if "alias" in what:
        return "Define the anchor (`&name`) above its use, or put text that begins with '*' in quotes."
    return "Look at the indentation, quotes and brackets here and just above."


def _first_control(text: str) -> int:
    found = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufeff\uff00-\ufffd\U00010000-\U0010ffff]", text)
    return found.start() if found else 0


class _Reader:
    """Turns composed nodes into data, noting places and problems."""

    def __init__(self, file: str) -> None:
        self.keys: dict[Path, tuple[int, int]] = {}
        self.values: dict[Path, tuple[int, int]] = {}
        self.problems: list[str] = []
        self.gave_up = False
        self._file = file
        self._open: set[int] = set()
        self._count = 0

    def read(self, node: yaml.Node, path: Path) -> Any:
        self.values[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        self._count += 1
        if self._count > MAX_VALUES:
            return self._give_up(node, f"the file has more than {MAX_VALUES} values. Use fewer aliases, or split it.")
        if node.tag not in (_PLAIN, _TEXT):
            # The tag's text is not repeated: it may be anything, and there is nothing to choose from.
            self._problem(node, "tags such as !name are not used here. Remove the tag.")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node.value) if node.tag == _PLAIN else node.value
        if len(path) >= MAX_DEPTH:
            return self._give_up(node, _TOO_DEEP)
        if id(node) in self._open:
            return self._give_up(node, "the alias refers to what it is part of. Write the value out.")
        self._open.add(id(node))
        data = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        self._open.discard(id(node))
        return data

    def _sequence(self, node: yaml.Node, path: Path) -> list[Any]:
        entries: list[Any] = []
        for index, entry in enumerate(node.value):
            if self.gave_up:
                break
            entries.append(self.read(entry, (*path, index)))
        return entries

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if self.gave_up:
                break
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(key_node, "a key must be text, not a list or mapping. Write `key: value`.")
                continue
            key = key_node.value
            if key in data:
                first = self.keys[(*path, key)][0]
                self._problem(key_node, f"key {shown(key)} is written twice, first in line {first}. Keep one of them.")
                continue
            self.keys[(*path, key)] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            data[key] = self.read(value_node, (*path, key))
        return data

    def _problem(self, node: yaml.Node, text: str) -> None:
        self.problems.append(f"{self._file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}: {text}")

    def _give_up(self, node: yaml.Node, text: str) -> None:
        """What is left is not read; so this is said once."""
        self._problem(node, text)
        self.gave_up = True


def _scalar(text: str) -> str | int | float | bool | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text
