"""All connections' states, in the store: atomic changes (`CC-35`), and reads that cost a dictionary lookup."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any, Final

from omniroute_addon.connection_key import connection_id, is_guest
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.store import Store, Value

from .rest import CLEAN, Rest, as_value, from_value

TABLE_NAME: Final = "connection_cooldown"
MOST: Final = 1_000
"""States of clients' own credentials, which anybody can make up; and of connections that nobody has configured any more."""
STRANGER_S: Final = 30 * 86_400.0
"""How long a connection that is configured no more may come back and find its timers."""
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
            if len(self._read) > 2 * MOST + len(self._table):  # forgotten through another book
                self._read.clear()
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

    def thin_out(self, now: float, *, forget_s: float) -> None:
        """Of clients' own credentials: drop what means nothing any more (over, the ladder forgotten after `forget_s`),
        and of the rest all but `MOST`; those that rest, and failed last, stay."""
        guests = [(rest, key) for key, _ in self._table.scan("client") if is_guest(key) and (rest := self.get(key))]
        live = [(rest.until > now, _last(rest), key) for rest, key in guests if now - _last(rest) <= forget_s]
        kept = {key for _, _, key in sorted(live, reverse=True)[:MOST]}
        for _, key in guests:
            if key not in kept:
                self.forget(key)

    def forget_strangers(self, known: Set[str], now: float) -> None:
        """`known` are the keys of all configured connections. A credential that was replaced is forgotten at once
        (`CC-55`); a connection that is not there at all after a while, because its key may only be unreadable today."""
        names = {connection_id(key) for key in known}
        gone: list[tuple[float, str]] = []
        for key, _ in self._table.scan():
            if key not in known and not is_guest(key):
                at = _last(self.get(key))
                lasts = connection_id(key) not in names and now - at <= STRANGER_S
                gone.append((at if lasts else 0.0, key))
        gone.sort(reverse=True)
        for place, (at, key) in enumerate(gone):
            if not at or place >= MOST:
                self.forget(key)


def _last(rest: Rest) -> float:
    """The last moment that the state speaks of."""
    return max(rest.until, rest.failed_at)
