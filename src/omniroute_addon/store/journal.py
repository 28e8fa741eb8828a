"""What happened, newest last, for a bounded time and size.

Entries are held as JSON text: their size is exact, nobody can change them, and the worker thread has nothing to encode.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from omniroute_addon.clock import Clock

from . import Value
from .values import decoded, encoded, frozen, text_key


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry as it is kept."""

    at: float
    text: str

    @property
    def size(self) -> int:
        """Bytes on the disk."""
        return len(self.text) if self.text.isascii() else len(self.text.encode("utf-8", "surrogatepass"))


class MemoryJournal:
    """`Journal` in memory; `record` hears of every entry that is kept and of every one that is dropped (None)."""

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        lock: AbstractContextManager[object],
        record: Callable[[str, str, Entry | None], None],
    ) -> None:
        self.name = name
        self._now = clock.now
        self._lock = lock
        self._record = record
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._bytes = 0
        self._keep_s = 0.0
        self._keep_bytes = 0

    def __repr__(self) -> str:
        return f"<Journal {self.name} entries={len(self._entries)} bytes={self._bytes}/{self._keep_bytes}>"

    @property
    def entries(self) -> dict[str, Entry]:
        """All that is kept, by id, oldest first."""
        return dict(self._entries)

    def limit(self, *, keep_s: float, keep_bytes: int) -> None:
        """Set new bounds; what is over them goes."""
        with self._lock:
            self._keep_s, self._keep_bytes = keep_s, keep_bytes
            self._prune()

    def adopt(self, stored: Iterable[tuple[str, Entry]]) -> None:
        """Put what is known from before in front of what happened since."""
        with self._lock:
            self._entries = OrderedDict({**dict(stored), **self._entries})
            self._bytes = sum(entry.size for entry in self._entries.values())
            self._prune()

    def append(self, value: Value) -> None:
        value = frozen(value, table=self.name, key="append")
        id = text_key(value.get("id"), table=f"{self.name}: field 'id' of an entry")
        entry = Entry(self._now(), encoded(value))
        with self._lock:
            self._drop(id)
            self._entries[id] = entry
            self._bytes += entry.size
            self._record(self.name, id, entry)
            self._prune()

    def recent(self, limit: int = 20) -> list[Value]:
        with self._lock:
            self._prune()
            texts = [entry.text for entry, _ in zip(reversed(self._entries.values()), range(limit), strict=False)]
        return [decoded(text) for text in texts]

    def find(self, id: str) -> Value | None:
        with self._lock:
            self._prune()
            entry = self._entries.get(id)
        return None if entry is None else decoded(entry.text)

    def _prune(self) -> None:
        oldest_at = self._now() - self._keep_s
        while self._entries:
            id = next(iter(self._entries))
            if self._bytes <= self._keep_bytes and self._entries[id].at > oldest_at:
                return
            self._drop(id)
            self._record(self.name, id, None)

    def _drop(self, id: str) -> None:
        entry = self._entries.pop(id, None)
        if entry is not None:
            self._bytes -= entry.size
