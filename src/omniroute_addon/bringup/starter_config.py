"""A first `omniroute.yaml` from the names of the keys that are in the environment, never from their values. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from omniroute_addon.model import Provider

_ELSEWHERE = re.compile(r"(?:FILE|PATH|URL|BASE|HOST|ID|NAME|HELPER|VERSION|ORG|REGION)$")
"""Ends of variables that hold something about a key, not a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A variable that holds a provider's key."""

    variable: str
    provider: str
    connection: str
    """The id that its connection gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A variable that looks like a key and is not used."""

    variable: str
    why: str


def find_keys(
    environ: Mapping[str, str], providers: Iterable[Provider], identity: Callable[[str], str]
) -> tuple[list[FoundKey], list[LeftOut]]:
    """The keys in the environment, the providers in alphabetical order.

    `identity`: name of a variable -> the identity of what it holds. Raises ValueError with the reason when that is no
    credential. A second key of the same provider goes by the name with an ending: `OPENAI_API_KEY_2`, `…_WORK`.
    """
    found: list[FoundKey] = []
    left: list[LeftOut] = []
    seen: dict[tuple[str, str], str] = {}
    ids: set[str] = set()
    for provider in providers:
        for variable in _variables(provider.key_env, environ):
            try:
                who = identity(variable)
            except ValueError as problem:
                left.append(LeftOut(variable=variable, why=str(problem)))
                continue
            first = seen.setdefault((provider.id, who), variable)
            if first != variable:
                left.append(LeftOut(variable=variable, why=f"holds the same key as {first}."))
                continue
            connection = _unique(_id_for(provider, variable), ids)
            ids.add(connection)
            found.append(FoundKey(variable=variable, provider=provider.id, connection=connection))
    return found, left


def _variables(names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    exact = [name for name in names if environ.get(name)]
    further = sorted(
        variable
        for variable in environ
        if environ[variable] and not _ELSEWHERE.search(variable)
        for name in names
        if variable not in names and re.fullmatch(rf"{re.escape(name)}_?[A-Z0-9_]+", variable)
    )
    return list(dict.fromkeys((*exact, *further)))


def _id_for(provider: Provider, variable: str) -> str:
    name = max((n for n in provider.key_env if variable.startswith(n)), key=len)
    ending = re.sub(r"[^a-z0-9]+", "-", variable.removeprefix(name).lower()).strip("-")
    return f"{provider.id}-{ending}" if ending else provider.id


def _unique(wanted: str, taken: set[str]) -> str:
    number, found = 2, wanted[:60].rstrip("-._")
    while found in taken:
        found, number = f"{wanted[:60]}-{number}", number + 1
    return found


def starter(found: Sequence[FoundKey], names: Mapping[str, str]) -> str:
    """The text of the file. `names`: provider id -> its name for people."""
    if found:
        width = max(len(key.connection) for key in found) + 1
        lines = []
        for key in found:
            same = [k for k in found if k.provider == key.provider]
            priority = f", priority: {same.index(key) + 1}" if len(same) > 1 else ""
            entry = f"id: {key.connection + ',':<{width}} provider: {key.provider}, key: env:{key.variable}{priority}"
            lines.append(f"  - {{{entry}}}")
        connections = "connections:\n" + "\n".join(lines)
    else:
        connections = _EXAMPLE
    shown = ", ".join(dict.fromkeys(names.get(key.provider, key.provider) for key in found))
    made = f"# Made by `omniroute init` from the keys that it found: {shown}." if found else _NONE_FOUND
    return f"{made}\n{_HEAD}\n{connections}\n\n{_TAIL}"


_NONE_FOUND = "# Made by `omniroute init`, which found no provider's key in the environment."
_EXAMPLE = """\
# connections:
#   - {id: work,  provider: anthropic, key: env:ANTHROPIC_API_KEY,         priority: 1}
#   - {id: spare, provider: anthropic, key: "file:~/.keys/anthropic-spare", priority: 2}
connections: []"""
_HEAD = """\
# Edits are in force within two seconds; `omniroute check` finds mistakes. Everything that may stand here:
# docs/configuration.md.

# Whom a request may go to. A call to a provider goes to that provider's connections, lowest `priority` first, and last
# out with the key that the client sent itself. Keys are named, never written here:
#   env:NAME        a variable of the terminal in which the proxy starts
#   file:PATH       a file that only you can read
#   keyring:NAME    your system's keyring"""
_TAIL = """\
# Where else a call may go: to other providers that speak the same dialect. `client` is the client's own key.
# routes:
#   - {provider: openai, model: "*", connections: [openai, openrouter, client]}

# What is not said here has the default of docs/configuration.md.
# settings:
#   own_credential: last     # `first`: the client's own key before yours; `never`: only yours
"""
