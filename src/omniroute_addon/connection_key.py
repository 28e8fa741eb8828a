"""Under which name a connection's state is kept, and which connections share one credential."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .model import Connection
from .provider_failure import provider_key


def connection_key(connection: Connection) -> str:
    """`id#digest`: the id may stay while the key behind it changes, and a new credential starts clean."""
    return f"{connection.id}#{connection.secret.digest}" if connection.secret else connection.id


def connection_id(key: str) -> str:
    """The id in a key; a digest holds no `#`."""
    return key.rpartition("#")[0] or key


def is_guest(key: str) -> bool:
    """The state of a client's own credential: no configured id looks like it."""
    return key.startswith(("client:", "client#")) or key == "client"


class SharedCredentials:
    """Which configured connections carry the same credential to the same provider (`A06`: success by any path)."""

    def __init__(self, connections: Iterable[Connection] = ()) -> None:
        self._keys: dict[tuple[str, str], tuple[str, ...]] = {}
        for connection in connections:
            if connection.secret:
                shared = (provider_key(connection.provider), connection.secret.digest)
                self._keys[shared] = (*self._keys.get(shared, ()), connection_key(connection))

    def keys(self, connection: Connection) -> tuple[str, ...]:
        """The connection's own key first, then those of the others."""
        own = connection_key(connection)
        if connection.secret is None:
            return (own,)
        shared = self._keys.get((provider_key(connection.provider), connection.secret.digest), ())
        return (own, *(key for key in shared if key != own))


@lru_cache(maxsize=256)
def is_shared_rule(file: str) -> bool:
    """A rule of a file for anybody (`_generic.yaml`), or none at all: its scope is a guess, not the provider's word."""
    return not file or file.replace("\\", "/").rpartition("/")[2].startswith("_")
