"""The store in memory: all of it in tests, and the authoritative mirror of every engine that also writes.

An engine derives from `MemoryStore` and overrides three hooks: `_recall` and `_recall_entries` (what is known from before) and
`_record` (what has just changed and wants to be remembered). It gets whole transactions, under the store's lock.

The lock is there for engines that read in another thread. Without one it is never contended and costs 0.1 µs.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import RLock
from types import TracebackType
from typing import Literal

from omniroute_addon.clock import Clock

from . import Change, Listener, Value
from .journal import Entry, MemoryJournal
from .permits import MemoryPermits
from .values import frozen, text_key

log = logging.getLogger(__name__)

type Slot = tuple[Literal["value", "entry"], str, str]
"""Where something is kept: sort, name of table or journal, key or id."""
type Batch = dict[Slot, Value | Entry | None]
"""What every slot holds now; None: nothing any more. Entries are in the order in which they were appended."""


class MemoryTable:
    """`Table` in memory."""

    def __init__(self, name: str, transaction: _Transaction) -> None:
        self._name = name
        self._transaction = transaction
        self._values: dict[str, Value] = {}
        self._keys: list[str] = []  # sorted, so that a prefix is one slice
        self.listeners: list[Listener] = []
        self.keep = False

    def __repr__(self) -> str:
        return f"<Table {self._name} keys={len(self._keys)}{' keep' if self.keep else ''}>"

    def __len__(self) -> int:
        return len(self._values)

    @property
    def name(self) -> str:
        return self._name

    def get(self, key: str) -> Value | None:
        return self._values.get(key)

    def update(self, key: str, change: Change) -> Value | None:
        with self._transaction:
            old = self._values.get(key)
            new = change(old)
            if new is old:
                return old
            text_key(key, table=self._name)
            if new is not None:
                new = frozen(new, table=self._name, key=key)
            self._transaction.remember(self, key)
            self.put(key, new)
            return new

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        with self._transaction.lock:
            keys = self._keys
            if prefix:
                start = bisect_left(keys, prefix)
                keys = keys[start : bisect_right(keys, prefix, lo=start, key=lambda key: key[: len(prefix)])]
            return iter([(key, self._values[key]) for key in keys])

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        self.listeners.append(listener)

        def end() -> None:
            if listener in self.listeners:
                self.listeners.remove(listener)

        return end

    def put(self, key: str, value: Value | None) -> None:
        """Set or delete, without telling anybody."""
        known = key in self._values
        if value is not None:
            self._values[key] = value
            if not known:
                insort(self._keys, key)
        elif known:
            del self._values[key]
            del self._keys[bisect_left(self._keys, key)]

    def adopt(self, stored: Mapping[str, Value]) -> None:
        """Add what is known from before; what is in memory wins."""
        self._values = {**stored, **self._values}
        self._keys = sorted(self._values)


class _Transaction:
    """Entered by every update; the outermost exit makes it count, or takes everything back after an exception."""

    def __init__(self, lock: RLock, record: Callable[[Batch], None]) -> None:
        self.lock = lock
        self._record = record
        self._depth = 0
        self._before: dict[tuple[MemoryTable, str], Value | None] = {}

    def __enter__(self) -> None:
        self.lock.acquire()
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth or not self._before:
            self.lock.release()
            return
        before, self._before = self._before, {}
        told: list[tuple[MemoryTable, str, Value | None]] = []
        if kind is None:
            kept: Batch = {}
            for table, key in before:
                value = table.get(key)
                if table.keep:
                    kept["value", table.name, key] = value
                if table.listeners:
                    told.append((table, key, value))
            if kept:
                self._record(kept)
        else:
            for (table, key), value in before.items():
                table.put(key, value)
        self.lock.release()
        for table, key, value in told:
            _tell(table, key, value)

    def remember(self, table: MemoryTable, key: str) -> None:
        """Before a change: what to go back to."""
        self._before.setdefault((table, key), table.get(key))


class MemoryStore:
    """`Store` in memory."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or Clock()
        self._lock = RLock()
        self._transaction = _Transaction(self._lock, self._record)
        self._tables: dict[str, MemoryTable] = {}
        self._journals: dict[str, MemoryJournal] = {}
        self._permits = MemoryPermits()

    def __repr__(self) -> str:
        return f"<MemoryStore tables={len(self._tables)}>"

    @property
    def permits(self) -> MemoryPermits:
        return self._permits

    @property
    def trouble(self) -> str:
        return ""

    def table(self, name: str, *, keep: bool = False) -> MemoryTable:
        with self._lock:
            table = self._tables.get(name)
            if table is None:
                text_key(name, table="name of a table")
                table = self._tables[name] = MemoryTable(name, self._transaction)
            if keep and not table.keep:
                table.keep = True
                made_before = dict(table.scan())
                table.adopt(self._recall(name))
                if made_before:
                    self._record({("value", name, key): value for key, value in made_before.items()})
            return table

    def journal(self, name: str, *, keep_s: float, keep_bytes: int) -> MemoryJournal:
        with self._lock:
            journal = self._journals.get(name)
            stored: Iterable[tuple[str, Entry]] = ()
            if journal is None:
                text_key(name, table="name of a journal")
                journal = MemoryJournal(name, clock=self._clock, lock=self._lock, record=self._record_entry)
                self._journals[name] = journal
                stored = self._recall_entries(name)
            journal.limit(keep_s=keep_s, keep_bytes=keep_bytes)
            journal.adopt(stored)
            return journal

    def transaction(self) -> _Transaction:
        return self._transaction

    def flush(self) -> bool:
        return True

    def close(self) -> None:
        return

    def _everything(self) -> Batch:
        """All that is to be kept, as of now."""
        with self._lock:
            batch: Batch = {}
            for name, table in self._tables.items():
                if table.keep:
                    batch |= {("value", name, key): value for key, value in table.scan()}
            for name, journal in self._journals.items():
                batch |= {("entry", name, id): entry for id, entry in journal.entries.items()}
            return batch

    def _record_entry(self, name: str, id: str, entry: Entry | None) -> None:
        self._record({("entry", name, id): entry})

    def _record(self, changes: Batch) -> None:
        """Engines: remember this. Called under the lock; must not block."""

    def _recall(self, name: str) -> Mapping[str, Value]:
        """Engines: what a table held before the restart."""
        return {}

    def _recall_entries(self, name: str) -> Iterable[tuple[str, Entry]]:
        """Engines: what a journal held before the restart, oldest first."""
        return ()


def _tell(table: MemoryTable, key: str, value: Value | None) -> None:
    for listener in tuple(table.listeners):
        try:
            listener(key, value)
        except Exception:  # the change is in force; who listens badly must not undo it for the others
            log.exception("a listener of %s failed at key %s", table.name, key)
