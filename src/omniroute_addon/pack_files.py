"""Reads pack folders: every file becomes a checked value, or problems with their place. One bad file hides no other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from . import places
from .input_problems import validate
from .pack_schema import PackFile
from .verdicts.schema import RuleLists
from .yaml_source import Document, read_yaml

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSource:
    """One file as it was read."""

    file: str
    """As it is shown to people."""
    stem: str
    """File name without ending; begins with `_` for rules that belong to a dialect or to all."""
    lists: RuleLists
    """A `PackFile` for a provider, plain rule lists for a shared file."""
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Rule id -> line; the pack's own id -> line of its `id:`."""

    @property
    def owner(self) -> str:
        """Provider id, or the stem of a shared file."""
        return self.lists.id if isinstance(self.lists, PackFile) else self.stem

    @property
    def rule_ids(self) -> tuple[str, ...]:
        return tuple(rule.id for rule in (*self.lists.restate, *self.lists.classify))

    def without(self, ids: Collection[str]) -> PackSource:
        """The same file without some of its rules."""
        restate = [rule for rule in self.lists.restate if rule.id not in ids]
        classify = [rule for rule in self.lists.classify if rule.id not in ids]
        return replace(self, lists=self.lists.model_copy(update={"restate": restate, "classify": classify}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PackFolder:
    """One place in the search path."""

    path: Path
    label: str = ""
    """What stands before a file's name in messages; the path itself when empty."""

    def files(self) -> Iterator[Path]:
        """The pack files, in alphabetical order. `clients/` is no pack and hidden files are nobody's."""
        if self.path.is_dir():
            yield from sorted(p for p in self.path.iterdir() if p.suffix in SUFFIXES and not p.name.startswith("."))

    def shown(self, path: Path) -> str:
        return f"{self.label}/{path.name}" if self.label else str(path)


def bundled_rules() -> Path:
    """The packs that come with the package: `rules/` of a checkout, else inside the installed package."""
    here = Path(__file__).resolve().parent
    checkout = here.parents[1] / "rules"
    return checkout if checkout.is_dir() else here / "rules"


def pack_folders(user: Path | None = None) -> tuple[PackFolder, ...]:
    """The search path: the bundled packs, then the user's own (their usual folder unless one is named)."""
    return (PackFolder(path=bundled_rules(), label="rules"), PackFolder(path=user or places.default_rules_dir()))


def read_pack(raw: bytes, *, file: str, stem: str) -> tuple[PackSource | None, list[str]]:
    """One file's content as a value, and what is wrong with it. A value comes back only when nothing is."""
    document = read_yaml(raw, file=file)
    problems = list(document.problems)
    if not document.readable:
        return None, problems
    model: type[RuleLists] = RuleLists if stem.startswith("_") else PackFile
    if document.data is None and model is PackFile:
        return None, [
            *problems,
            f"{file}:1:1: the file is empty. Write at least `id:`, or delete the file.",
        ]
    lists, found = validate(model, document)
    problems += found
    if lists is None or problems:
        return None, problems
    return PackSource(file=file, stem=stem, lists=lists, lines=_lines(lists, document)), []


def read_pack_file(folder: PackFolder, path: Path) -> tuple[PackSource | None, list[str]]:
    """As `read_pack`, from disk."""
    file = folder.shown(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        return None, [f"{file}:1:1: the file cannot be read ({error.strerror}). Check its permissions."]
    return read_pack(raw, file=file, stem=path.stem)


def _lines(lists: RuleLists, document: Document) -> dict[str, int]:
    lines = {lists.id: document.line(("id",))} if isinstance(lists, PackFile) else {}
    for kind in ("restate", "classify"):
        for index, rule in enumerate(getattr(lists, kind)):
            lines.setdefault(rule.id, document.line((kind, index)))
    return lines
