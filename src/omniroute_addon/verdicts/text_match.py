"""Phrases, found in time linear in the text whatever the text holds (`spec/05`, notation).

| written | means |
| --- | --- |
| `abc` | the text contains abc |
| `\\|abc\\|` | contains abc as a whole word; a bar may stand at one end only |
| `A … B` | A, later on the same line B |
| `A …{80} B` | A, then at most 80 characters of any kind, then B |
| `(a/b/c)` | as a whole part of a phrase: either of them |

No regular expressions: every step is a `str.find`, and one phrase looks at no more than `MAX_TRIES` places where its
first part occurs. Letter case never matters; typographic apostrophes and no-break spaces are read as plain ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from omniroute_addon.nearest import unknown

MAX_TEXT: Final = 64 * 1024
"""Characters that are looked at; what comes later decides nothing."""
MAX_TRIES: Final = 64
_SHORT: Final = 4096

_GAP = re.compile(r"\s*…(?:\{(\d{1,4})\})?\s*")
_PLAIN_MARKS: Final = (
    ("\u2019", "'"),
    ("\u2018", "'"),
    ("\u201c", '"'),
    ("\u201d", '"'),
    ("\u00a0", " "),
    ("\u202f", " "),
)


def folded(text: str) -> str:
    """The form in which texts and phrases are compared: lower case, plain marks, bounded."""
    text = text[:MAX_TEXT]
    for mark, plain in _PLAIN_MARKS:  # many times quicker than str.translate
        text = text.replace(mark, plain)
    return text.lower()


class Text:
    """A folded text that remembers which words it was asked for: rules share most of their phrases."""

    __slots__ = ("_asked", "folded")

    def __init__(self, text: str) -> None:
        self.folded = folded(text)
        self._asked: dict[str, bool] = {}

    def __contains__(self, needle: str) -> bool:
        if len(self.folded) < _SHORT:
            return needle in self.folded  # quicker than remembering
        found = self._asked.get(needle)
        if found is None:
            found = self._asked[needle] = needle in self.folded
        return found

    def __bool__(self) -> bool:
        return bool(self.folded)

    def __repr__(self) -> str:
        return f"<Text {self.folded[:60]!r}>"


@dataclass(frozen=True, slots=True)
class _Part:
    words: tuple[str, ...]
    """Alternatives; the one that occurs first is taken."""
    starts_word: bool
    ends_word: bool
    gap: int | None
    """Characters allowed since the part before; None: anywhere later on the same line."""

    def find(self, text: str, start: int, end: int) -> tuple[int, int] | None:
        """The first occurrence within `text[start:end]` as (begin, end)."""
        best: tuple[int, int] | None = None
        for word in self.words:
            stop = end if best is None else min(end, best[0] + len(word))
            at = start
            for _ in range(MAX_TRIES):
                at = text.find(word, at, stop)
                if at < 0:
                    break
                after = at + len(word)
                if not (self.starts_word and _joined(text, at)) and not (self.ends_word and _joined(text, after)):
                    best = (at, after)
                    break
                at += 1
        return best


def _joined(text: str, at: int) -> bool:
    """No word boundary at this place."""
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


@dataclass(frozen=True, slots=True)
class Phrase:
    """One compiled phrase."""

    written: str
    parts: tuple[_Part, ...]

    @property
    def plain(self) -> str | None:
        """The phrase as bare words, when it is nothing more."""
        first = self.parts[0]
        bare = len(self.parts) == len(first.words) == 1 and not (first.starts_word or first.ends_word)
        return first.words[0] if bare else None

    def found_in(self, text: Text) -> bool:
        """Whether the phrase occurs. A later part is taken where it first occurs after the part before."""
        for part in self.parts:
            for word in part.words:
                if word in text:
                    break
            else:
                return False
        first = self.parts[0]
        if len(self.parts) == 1 and not (first.starts_word or first.ends_word):
            return True
        body = text.folded
        start = 0
        for _ in range(MAX_TRIES):
            hit = first.find(body, start, len(body))
            if hit is None:
                return False
            if self._rest(body, hit[1]):
                return True
            start = hit[0] + 1
            if len(self.parts) > 1 and self.parts[1].gap is None and (start := body.find("\n", hit[1])) < 0:
                return False
        return False

    def _rest(self, body: str, at: int) -> bool:
        for part in self.parts[1:]:
            if part.gap is None:
                line = body.find("\n", at)
                hit = part.find(body, at, len(body) if line < 0 else line)
            else:
                hit = part.find(body, at, min(len(body), at + part.gap + max(map(len, part.words))))
                if hit is not None and hit[0] - at > part.gap:
                    return False
            if hit is None:
                return False
            at = hit[1]
        return True


def compile_phrase(written: str, *, literal: bool = False) -> Phrase:
    """A phrase from its written form; `literal` takes every character as itself (`FC-59`).

    Raises ValueError when a part is empty.
    """
    if literal:
        return Phrase(written, (_Part((folded(written),), False, False, None),))
    pieces = _GAP.split(written)
    parts = []
    for index in range(0, len(pieces), 2):
        piece = pieces[index]
        starts_word, ends_word = piece.startswith("|"), piece.endswith("|") and len(piece) > 1
        piece = piece.removeprefix("|").removesuffix("|")
        if piece.startswith("(") and piece.endswith(")") and "/" in piece:
            words = tuple(folded(word.strip()) for word in piece[1:-1].split("/"))
        else:
            words = (folded(piece),)
        if not all(words):
            raise ValueError(f"the phrase {written!r} has an empty part; write words on both sides of each gap")
        gap = int(pieces[index - 1]) if index and pieces[index - 1] else None
        parts.append(_Part(words, starts_word, ends_word, gap))
    return Phrase(written, tuple(parts))


type TextTest = Callable[[Text], bool]
type Written = Iterable[str | list[str]]


def compile_phrases(written: Written, named: Mapping[str, Written]) -> TextTest:
    """A test for "one of these phrases": a nested list must occur together, `$NAME` stands for a named list.

    Raises ValueError for a name that `named` does not have.
    """
    plain: list[str] = []
    others: list[tuple[Phrase, ...]] = []
    for item in _expand(written, named, 0):
        together = tuple(compile_phrase(phrase) for phrase in ((item,) if isinstance(item, str) else item))
        if len(together) == 1 and (needle := together[0].plain) is not None:
            plain.append(needle)
        else:
            others.append(together)

    def test(text: Text) -> bool:
        known = text.folded if len(text.folded) < _SHORT else text
        for needle in plain:
            if needle in known:
                return True
        return any(all(phrase.found_in(text) for phrase in together) for together in others)

    return test


def _expand(written: Written, named: Mapping[str, Written], depth: int) -> Iterable[str | list[str]]:
    for item in written:
        if isinstance(item, str) and item.startswith("$"):
            if item[1:] not in named:
                raise ValueError(unknown("phrase list", item[1:], named))
            if depth > 8:
                raise ValueError(f"the phrase list {item[1:]!r} stands for itself")
            yield from _expand(named[item[1:]], named, depth + 1)
        else:
            yield item
