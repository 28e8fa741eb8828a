"""What `omniroute doctor` says: one line for each thing that it looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "hint", "broken"]
"""`hint`: works, and might work better; `broken`: something that is used does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line."""

    state: State
    what: str
    """The thing, in a word or two."""
    text: str
    """What was seen."""
    todo: str = ""
    """What to do; empty when nothing needs to be done."""


def ok(what: str, text: str) -> Finding:
    return Finding(state="ok", what=what, text=text)


def hint(what: str, text: str, todo: str = "") -> Finding:
    return Finding(state="hint", what=what, text=text, todo=todo)


def broken(what: str, text: str, todo: str) -> Finding:
    return Finding(state="broken", what=what, text=text, todo=todo)
