"""From a call to the targets that could serve it, in the configured order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final, Literal

from .base_url import door_url, filled_url
from .model import Connection, Login, ModelCall, Provider, Target

CLIENT: Final = "client"
"""Names the client's own credential in a route."""

OwnCredential = Literal["last", "first", "never"]

_MOST_CALLS: Final = 256
_MOST_TARGETS: Final = 50_000
"""Kept ready; the oldest go first."""
_LONGEST_NAME: Final = 200
"""Of a model, in characters: the client chooses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which connections serve a provider's models, in this order."""

    provider: str
    """Provider that the client meant; `*` for any."""
    model: str
    """Glob of the model that the client asked for."""
    connections: tuple[str, ...]
    """Connection ids, of any provider that speaks the call's dialect; `client` is the client's own credential."""

    def matches(self, call: ModelCall) -> bool:
        return self.provider in ("*", call.provider) and fnmatchcase(call.model, self.model)


class Pool:
    """The configured connections, and their targets as far as calls have asked for them.

    A pool may be large and is the same for every call of one model, so it is put together once for both.
    """

    def __init__(self, connections: Iterable[Connection] = ()) -> None:
        self.by_id: Mapping[str, Connection] = {c.id: c for c in connections}
        self._of: dict[str, list[Connection]] = {}
        for connection in sorted(self.by_id.values(), key=lambda c: c.priority):
            self._of.setdefault(connection.provider, []).append(connection)
        self._providers: Mapping[str, Provider] = {}
        self._ready: dict[tuple[str, str, str, bool], tuple[Target, ...]] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<Pool connections={len(self.by_id)} ready={self._count}>"

    def targets(self, call: ModelCall, providers: Mapping[str, Provider]) -> tuple[Target, ...]:
        """The connections of the provider that the client meant, by `priority`, then as configured."""
        if self._providers is not providers:  # packs were reloaded
            self._providers, self._count = providers, 0
            self._ready.clear()
        key = (call.provider, call.dialect, call.model, call.stream)
        found = self._ready.get(key)
        if found is None:
            provider = providers.get(call.provider)
            found = tuple(t for c in self._of.get(call.provider, ()) if (t := _target(call, c, provider)))
            self._keep(key, found)
        return found

    def _keep(self, key: tuple[str, str, str, bool], found: tuple[Target, ...]) -> None:
        if len(key[2]) > _LONGEST_NAME:
            return
        self._ready[key] = found
        self._count += len(found)
        while len(self._ready) > _MOST_CALLS or (self._count > _MOST_TARGETS and len(self._ready) > 1):
            oldest = next(iter(self._ready))
            self._count -= len(self._ready.pop(oldest))


def targets_for(
    call: ModelCall,
    own: Target | None,
    *,
    pool: Pool,
    routes: Sequence[Route],
    providers: Mapping[str, Provider],
    own_credential: OwnCredential,
    provided: frozenset[str] = frozenset(),
) -> tuple[Target, ...]:
    """The targets for a call, best first.

    The first matching route decides alone. Without one: the provider's own connections by `priority`, then as
    configured, and the client's own credential where `own_credential` puts it. A connection counts only when its
    provider speaks the call's dialect and its `models` allow the model. When nothing is left, the client's own
    credential is the answer: a request never ends worse than without us. Only `never` forbids that, where the operator
    has provided something else: a route, or connections of this provider (`provided`, usable now or not).
    """
    if not (pool.by_id or routes or provided) and own is not None:
        return (own,)
    route = next((r for r in routes if r.matches(call)), None)
    if route is not None:
        found = tuple(_routed(call, own, route, pool.by_id, providers))
    else:
        found = pool.targets(call, providers)
        if own is not None and own_credential == "first":
            found = (own, *found)
        elif own is not None and own_credential == "last":
            found = (*found, own)
    if found or own is None:
        return found
    refused = own_credential == "never" and (route is not None or call.provider in provided)
    return () if refused else (own,)


def _routed(
    call: ModelCall,
    own: Target | None,
    route: Route,
    by_id: Mapping[str, Connection],
    providers: Mapping[str, Provider],
) -> Iterator[Target]:
    for name in route.connections:
        if name == CLIENT:
            if own is not None:
                yield own
        elif name in by_id:  # else it is unusable, and was reported at load
            target = _target(call, by_id[name], providers.get(by_id[name].provider))
            if target:
                yield target


def _target(call: ModelCall, connection: Connection, provider: Provider | None) -> Target | None:
    endpoint = provider.endpoint(call.dialect) if provider else None
    if provider is None or endpoint is None or not allows(connection, call.model):
        return None
    url = door_url(endpoint, connection.base_url)
    if url is None:
        return None
    model = renamed(connection, call.model)
    login = _login(connection, provider)
    return Target(
        connection=connection,
        dialect=call.dialect,
        url=filled_url(url, model=model, stream=call.stream),
        model=model,
        auth=login.auth if login else endpoint.auth or provider.auth,
        headers=MappingProxyType({**provider.headers, **connection.headers}),
        listed=login.values if login else MappingProxyType({}),
        unlisted=_unlisted(provider, login),
    )


def _login(connection: Connection, provider: Provider) -> Login | None:
    """The sort of credential that this is, when it goes another way than the provider's usual one."""
    if connection.secret is None:
        return None
    return next((it for it in provider.logins if connection.secret.value.startswith(it.prefix)), None)


def _unlisted(provider: Provider, login: Login | None) -> Mapping[str, frozenset[str]]:
    """What the client may have put on a list header for its own login, and what is wrong with ours."""
    others: dict[str, set[str]] = {}
    for other in provider.logins:
        if other is not login:
            for header, value in other.values.items():
                others.setdefault(header, set()).add(value)
    return MappingProxyType({header: frozenset(values) for header, values in others.items()})


def allows(connection: Connection, model: str) -> bool:
    """The connection may be used for the model; an empty list allows all."""
    return not connection.models or any(fnmatchcase(model, glob) for glob in connection.models)


def renamed(connection: Connection, model: str) -> str:
    """The connection's own name for a model; an exact entry wins over globs, these count in their order."""
    exact = connection.rename.get(model)
    if exact is not None:
        return exact
    return next((name for glob, name in connection.rename.items() if fnmatchcase(model, glob)), model)
