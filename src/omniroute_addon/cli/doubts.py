"""What is allowed but hardly meant: told by `omniroute check` as warnings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from omniroute_addon.targets import CLIENT, Route

if TYPE_CHECKING:
    from omniroute_addon.config import Config
    from omniroute_addon.model import Provider
    from omniroute_addon.packs import Packs
    from omniroute_addon.plugin_host import PluginInfo

ANY_PROVIDER = "*"


def doubts(config: Config, packs: Packs, bundled: Packs, plugins: Iterable[PluginInfo]) -> Iterator[str]:
    """One sentence each. `bundled` are the packs without the user's own."""
    yield from _deaf_connections(config, packs.providers)
    yield from _unreached(config.routes)
    yield from _claimed_hosts(packs, bundled)
    yield from _silent_plugins(plugins)


def _deaf_connections(config: Config, providers: Mapping[str, Provider]) -> Iterator[str]:
    """A connection whose provider cannot be asked what the route's clients ask."""
    by_id = {connection.id: connection for connection in config.connections}
    for number, route in enumerate(config.routes, 1):
        if route.provider == ANY_PROVIDER:
            continue
        asked = _dialects(providers.get(route.provider))
        for name in route.connections:
            if name == CLIENT or name not in by_id:
                continue
            provider = by_id[name].provider
            spoken = _dialects(providers.get(provider))
            if not set(asked) & set(spoken):
                yield (
                    f"{_named(number, route)}: connection '{name}' is never used, because its provider '{provider}' "
                    f"speaks {' and '.join(spoken)}, and clients of '{route.provider}' speak {' and '.join(asked)}."
                )


def _dialects(provider: Provider | None) -> tuple[str, ...]:
    return tuple(endpoint.dialect for endpoint in provider.endpoints) if provider else ()


def _unreached(routes: Sequence[Route]) -> Iterator[str]:
    for index, route in enumerate(routes):
        for before, earlier in enumerate(routes[:index], 1):
            if earlier.provider in (ANY_PROVIDER, route.provider) and covers(earlier.model, route.model):
                yield f"{_named(index + 1, route)} is never reached: {_named(before, earlier)} catches all of it."
                break


def covers(wide: str, narrow: str) -> bool:
    """Every model that the glob `narrow` matches, `wide` matches too. False where that cannot be seen easily.

    With `*` as the only wildcard in `wide`, whatever is no plain character in `narrow` must fall to one of them.
    """
    if wide == narrow:
        return True
    return not any(mark in wide for mark in "?[") and "[" not in narrow and fnmatchcase(narrow, wide)


def _named(number: int, route: Route) -> str:
    return f"route {number} (provider {route.provider}, model {route.model})"


def _claimed_hosts(packs: Packs, bundled: Packs) -> Iterator[str]:
    for provider in packs.providers.values():
        known = bundled.providers.get(provider.id)
        for host in provider.hosts:
            if known and host in known.hosts:
                continue
            name, _, port = host.rpartition(":")
            owner = bundled.for_host(name, int(port)) if name and port.isdigit() else bundled.for_host(host, 443)
            if owner is not None and owner.id != provider.id:
                yield (
                    f"{provider.source}: provider '{provider.id}' claims {host}, a host of the bundled provider "
                    f"'{owner.id}', and gets its calls. Write `id: {owner.id}` if you mean to change that one."
                )


def _silent_plugins(plugins: Iterable[PluginInfo]) -> Iterator[str]:
    for plugin in plugins:
        if plugin.state == "on" and not plugin.hooks:
            yield f"plugin {plugin.name} ({plugin.origin}) implements no hook; did you forget @hookimpl?"
