"""All connections' states, in the store: atomic changes (`CC-35`), and reads that cost a dictionary lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from omniroute_addon.connection_key import connection_id, is_guest
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.store import Store, Value

from .rest import CLEAN, Rest, as_value, from_value

TABLE_NAME: Final = "connection_cooldown"
MOST: Final = 10_000
"""Rows beyond which those of clients' own credentials are thinned out."""
Step = Callable[[Rest], Rest]


class ConnectionBook:
    """States by connection key. Several may be opened on one store: they show the same."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE_NAME, keep=True)
        self._read: dict[str, tuple[Value, Rest]] = {}

    def get(self, key: str) -> Rest:
        """The state; `CLEAN` for a connection that nothing is known of."""
        value = self._table.get(key)
        if value is None:
            return CLEAN
        known = self._read.get(key)
        if known is None or known[0] is not value:
            known = self._read[key] = (value, from_value(value))
        return known[1]

    def change(self, key: str, step: Step, *, provider: str) -> tuple[Rest, Rest]:
        """Take one step, atomically; the state before and after it. What becomes clean is forgotten."""
        seen = CLEAN

        def apply(value: Value | None) -> Value | None:
            nonlocal seen
            seen = from_value(value)
            after = step(seen)
            if after == seen:
                return value
            return None if after == CLEAN else as_value(after, connection=connection_id(key), provider=provider)

        value = self._table.update(key, apply)
        if value is None:
            self._read.pop(key, None)
        return seen, self.get(key)

    def rows(self, *, provider: str | None = None) -> Iterator[tuple[str, Rest, Mapping[str, Any]]]:
        """Key, state and stored value of everybody of whom something is known."""
        for key, value in self._table.scan():
            if provider is None or provider_key(str(value.get("provider"))) == provider_key(provider):
                yield key, self.get(key), value

    def forget(self, key: str) -> None:
        self._table.update(key, lambda _: None)
        self._read.pop(key, None)

    def thin_out(self, now: float) -> None:
        """Keep at most `MOST` rows of clients' own credentials: those that rest longest."""
        guests = [(rest.until > now, rest.failed_at, key) for key, rest, _ in self.rows() if is_guest(key)]
        for _, _, key in sorted(guests)[: max(0, len(guests) - MOST)]:
            self.forget(key)
