"""The state of every mechanism behind one small interface: read from memory, change atomically, remember for later.

    table = store.table("connection_cooldown", keep=True)
    table.get("openai-a")                                  # a mapping, or None; from memory, never blocks
    table.update("openai-a", lambda old: {**(old or {}), "level": 1})

What a mechanism may count on:

* `get` and `scan` read memory, so they may be called in every hook. Values are plain JSON mappings; treat them as frozen.
* `update` is atomic: the function sees the latest value and its answer is in force when `update` returns. None deletes.
* All `update`s inside one `with store.transaction():` reach the disk together or not at all (`FC-92`).
* A table with `keep=True` survives a restart; what was written in the last second before a crash may be lost. What must not
  be lost (a setting that a person made) is confirmed to the person only after `flush`.
* What is not JSON is refused with TypeError, and nothing has changed. An exception inside a transaction takes all of it back.
* `subscribe` tells of changes that others made (several proxies sharing a store); our own come back as well.
* Nothing raises because of a disk: memory stays right, the trouble is logged once and shown by `trouble`.

No mechanism may know which engine it runs on; a shared engine for several proxies is the same interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

Value = Mapping[str, Any]
"""JSON: text keys; text, numbers, booleans, None, lists (no tuples) and mappings as values. Numbers are finite and 64 bits.

What the store hands out is read-only: `{**old, "level": 1}` makes a new one, `dict(value)` is what `json.dumps` takes."""
Change = Callable[[Value | None], Value | None]
Listener = Callable[[str, Value | None], None]
"""Called with key and new value (None: deleted), on the event loop's thread."""


class Table(Protocol):
    """One mechanism's values by key."""

    @property
    def name(self) -> str: ...

    def __len__(self) -> int:
        """How many keys there are."""
        ...

    def get(self, key: str) -> Value | None:
        """The value, or None."""
        ...

    def update(self, key: str, change: Change) -> Value | None:
        """Replace the value by what `change` makes of it; None deletes. Returns the new value.

        A `change` that returns the very object it was given changes nothing and tells nobody.
        """
        ...

    def scan(self, prefix: str = "") -> Iterator[tuple[str, Value]]:
        """All keys with this prefix and their values, as of now, in order of key."""
        ...

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of every change, after its transaction; returns the function that ends it."""
        ...


class Journal(Protocol):
    """What happened, for a bounded time and size: the oldest goes first. Survives a restart; not part of transactions."""

    @property
    def name(self) -> str: ...

    def append(self, value: Value) -> None:
        """Add an entry. Its field `id` (text) is what `find` looks for; an older entry of the same id is replaced."""
        ...

    def recent(self, limit: int = 20) -> list[Value]:
        """The newest entries, newest first."""
        ...

    def find(self, id: str) -> Value | None:
        """The entry with this id, or None."""
        ...


class Permits(Protocol):
    """A counted right: at most `limit` holders of one key at a time."""

    def take(self, key: str, *, limit: int, holder: str, until: float, now: float) -> bool:
        """Take one permit until `until` (epoch seconds) at the latest; False when all are held. Same holder: renewed."""
        ...

    def give(self, key: str, *, holder: str) -> None:
        """Give it back; unknown holders are ignored."""
        ...

    def held(self, key: str, *, now: float) -> int:
        """Permits of the key that are held now; expired ones are not."""
        ...


class Store(Protocol):
    """See the module's text."""

    def table(self, name: str, *, keep: bool = False) -> Table:
        """The mechanism's table; the same object for the same name. `keep` stays on once anybody asked for it."""
        ...

    def journal(self, name: str, *, keep_s: float, keep_bytes: int) -> Journal:
        """The journal of this name; the same object each time, with the latest bounds. Size is that of the entries as JSON."""
        ...

    @property
    def permits(self) -> Permits: ...

    def transaction(self) -> AbstractContextManager[None]:
        """Everything updated inside is written as one. Nested: the outermost counts. No `await` inside."""
        ...

    @property
    def trouble(self) -> str:
        """What is wrong with the disk, one sentence; empty when nothing is."""
        ...

    def flush(self) -> bool:
        """Write now and wait; True when all that was changed before is on the disk. Blocks: call it off the event loop."""
        ...

    def close(self) -> None:
        """Write what is left and let go of the file. Blocks; call it off the event loop or at the very end."""
        ...
