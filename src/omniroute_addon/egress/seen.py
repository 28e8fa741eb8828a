"""Through which address a connection leaves, and where it was seen last.

An address that is configured (`via`) is known, history or not. Without one a connection leaves *direct*, from this
machine, and only its attempts say that it is in use at all. Addresses are compared as they are configured; what the
upstream really saw behind a proxy nobody here can know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Final
from urllib.parse import urlsplit

from omniroute_addon.connection_key import connection_key, is_guest
from omniroute_addon.model import Connection
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.store import Store, Value

TABLE_NAME: Final = "egress_seen"
DIRECT: Final = "direct"
_FRESH_MS: Final = 60_000
"""A record younger than this is not written again: the window is a day."""
MOST: Final = 1_000
"""Clients' own credentials, which anybody can make up; configured connections are few."""


def egress_of(connection: Connection) -> str:
    """`proxy host:port`, or `direct`. Without the proxy's credentials."""
    if connection.via is None:
        return DIRECT
    parts = urlsplit(connection.via)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"proxy {(parts.hostname or '').lower()}:{port}"


class Seen:
    """Attempts of the listed providers: when a connection was last seen at each of its addresses."""

    def __init__(self, store: Store) -> None:
        self._table = store.table(TABLE_NAME, keep=True)
        self._added = 0

    def note(self, connection: Connection, now: float, window_ms: int) -> None:
        """An attempt went out. Addresses beyond the window are forgotten."""
        key, address, at = connection_key(connection), egress_of(connection), round(now * 1000)

        def change(value: Value | None) -> Value | None:
            seen = _times(value)
            if 0 <= at - seen.get(address, -_FRESH_MS) < _FRESH_MS:
                return value
            kept = {a: t for a, t in seen.items() if at - t <= window_ms}
            return {"provider": provider_key(connection.provider), "seen": {**kept, address: at}}

        if self._table.get(key) is None:
            self._added += 1
            if self._added % (MOST // 10) == 0:  # so that the cost of a sweep is spread
                self.forget_old(now, window_ms)
        self._table.update(key, change)

    def at(self, address: str, providers: Set[str], now: float, window_ms: int) -> Iterator[tuple[str, str]]:
        """Key and provider of everybody of these providers who was seen at the address within the window (`EL-18`)."""
        since = round(now * 1000) - window_ms
        for key, value in self._table.scan():
            provider = str(value.get("provider"))
            if provider in providers and _times(value).get(address, since - 1) >= since:
                yield key, provider

    def forget_old(self, now: float, window_ms: int) -> None:
        """Drop who was not seen for longer than the window, and of clients' own credentials all but the latest `MOST`."""
        since = round(now * 1000) - window_ms
        guests: list[tuple[int, str]] = []
        for key, value in list(self._table.scan()):
            last = max(_times(value).values(), default=0)
            if last < since:
                self._table.update(key, lambda _: None)
            elif is_guest(key):
                guests.append((last, key))
        for _, key in sorted(guests, reverse=True)[MOST:]:
            self._table.update(key, lambda _: None)


def siblings_of(
    failing: Connection,
    connections: Iterable[Connection],
    seen: Seen,
    *,
    providers: Set[str],
    now: float,
    window_ms: int,
) -> dict[str, str]:
    """Key -> provider of everybody else who leaves through the failing connection's address (`EL-17` to `EL-19`)."""
    address, mine = egress_of(failing), connection_key(failing)
    found = dict(seen.at(address, providers, now, window_ms))
    for connection in connections:
        key, provider = connection_key(connection), provider_key(connection.provider)
        if provider not in providers:
            continue
        configured = egress_of(connection)
        if configured != address or connection.disable_cooling:  # it has moved away, or is not to be cooled (EL-26)
            found.pop(key, None)
        elif configured != DIRECT:
            found[key] = provider
    found.pop(mine, None)
    return found


def _times(value: Mapping[str, object] | None) -> dict[str, int]:
    seen = value.get("seen") if value is not None else None
    return {a: t for a, t in seen.items() if isinstance(t, int)} if isinstance(seen, Mapping) else {}
