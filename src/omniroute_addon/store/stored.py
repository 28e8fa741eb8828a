"""What a state file held when it was read: the worker thread hands it over to memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import Value
from .journal import Entry


@dataclass(slots=True)
class Stored:
    """Values by table and key, entries by journal, oldest first."""

    values: dict[str, dict[str, Value]] = field(default_factory=dict)
    entries: dict[str, list[tuple[str, Entry]]] = field(default_factory=dict)
