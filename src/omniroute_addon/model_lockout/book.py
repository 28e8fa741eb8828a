"""All locks, in the store: which survive a restart, how many there may be, and reads that cost a lookup.

Two tables. `model_lockout` holds what is in force and dies with the proxy; `model_lockout_kept` repeats the locks whose
reason outlives a restart, and is read once, at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from omniroute_addon.connection_key import is_guest
from omniroute_addon.store import Store, Value

from .lock import SURVIVES_RESTART, Lock, as_value, from_value

TABLE_NAME: Final = "model_lockout"
KEPT_NAME: Final = "model_lockout_kept"
MOST: Final = 10_000
"""`ML-48`."""
LONGEST_NAME: Final = 200
"""Characters of a model's name; the client chooses it, and a longer one is no model's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a key is about."""

    provider: str
    connection: str
    """Connection key."""
    model: str
    family: str | None = None
    """None when the lock is about the model itself."""


class LockBook:
    """Locks by key."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE_NAME)
        self._kept = store.table(KEPT_NAME, keep=True)
        self._read: dict[str, tuple[Value, Lock | None]] = {}
        self._store = store
        self._of: dict[str, set[str]] = {}
        self._count = 0
        for key, value in self._table.scan():
            self._add(str(value.get("connection")), key)

    def __repr__(self) -> str:
        return f"<LockBook keys={self._count}>"

    def recall(self, now: float, *, persist: bool) -> None:
        """Bring back what survived a restart; drop what ended meanwhile, and everything when it is not wanted."""
        with self._store.transaction():
            for key, value in list(self._kept.scan()):
                lock = from_value(value)
                if not persist or lock is None or lock.until <= now:
                    self._kept.update(key, lambda _: None)
                elif self._table.get(key) is None:
                    self._put(key, value)

    def has(self, connection: str) -> bool:
        """Whether anything is known of this connection (key)."""
        return connection in self._of

    def get(self, key: str) -> Lock | None:
        value = self._table.get(key)
        if value is None:
            return None
        known = self._read.get(key)
        if known is None or known[0] is not value:
            known = self._read[key] = (value, from_value(value))
        return known[1]

    def change(
        self, key: str, step: Callable[[Lock | None], Lock | None], place: Place, *, persist: bool = False
    ) -> Lock | None:
        """Take one step, atomically (`ML-49`), and keep what survives a restart."""
        with self._store.transaction():
            before = self.get(key)
            after = step(before)
            if after == before:
                return after
            value = None
            if after is not None:
                value = as_value(
                    after,
                    provider=place.provider,
                    connection=place.connection,
                    model=place.model,
                    family=place.family,
                )
            self._put(key, value)
            keep = value if after is not None and persist and SURVIVES_RESTART[after.reason] else None
            if keep is not None or self._kept.get(key) is not None:
                self._kept.update(key, lambda _: keep)
            return after

    def rows(self) -> Iterator[tuple[str, Lock, Place]]:
        """Everything that is known, records without a lock too."""
        for key, value in self._table.scan():
            lock = self.get(key)
            if lock is not None:
                yield key, lock, _place(value)

    def place(self, key: str) -> Place | None:
        """What a key is about; None when nothing is known of it."""
        value = self._table.get(key)
        return _place(value) if value is not None else None

    def forget(self, key: str) -> None:
        with self._store.transaction():
            self._put(key, None)
            if self._kept.get(key) is not None:
                self._kept.update(key, lambda _: None)

    def make_room(self, now: float, most: int = MOST) -> None:
        """Before a new key: records that are over go; beyond the bound those of clients' own credentials first, which
        anybody can make up, then ended locks, then those that end soonest."""
        if self._count < most:
            return
        rows = [(lock, not is_guest(place.connection), key) for key, lock, place in self.rows()]
        over = [key for lock, _, key in rows if lock.forgotten_at() <= now]
        alive = sorted((mine, lock.until, key) for lock, mine, key in rows if lock.forgotten_at() > now)
        # A tenth at once, so that not every new key pays for a sweep.
        surplus = len(alive) - (most - max(1, most // 10)) if len(alive) >= most else 0
        for key in [*over, *(key for _, _, key in alive[:surplus])]:
            self.forget(key)

    def _put(self, key: str, value: Value | None) -> None:
        old = self._table.get(key) or value
        if old is None:
            return
        connection = str(old.get("connection"))
        self._table.update(key, lambda _: value)
        if value is not None:
            self._add(connection, key)
            return
        self._read.pop(key, None)
        keys = self._of.get(connection, set())
        self._count -= key in keys
        keys.discard(key)
        if not keys:
            self._of.pop(connection, None)

    def _add(self, connection: str, key: str) -> None:
        keys = self._of.setdefault(connection, set())
        self._count += key not in keys
        keys.add(key)


def _place(value: Value) -> Place:
    family = value.get("family")
    return Place(
        provider=str(value.get("provider")),
        connection=str(value.get("connection")),
        model=str(value.get("model")),
        family=str(family) if family is not None else None,
    )
