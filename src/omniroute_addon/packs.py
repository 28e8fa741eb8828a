"""All packs together: who a host is, which door a path is, and whose rules come in which order.

A later folder of the search path is the user's: its pack overrides a bundled one of the same id by field, its rules
come before the bundled ones, and a rule of the same id takes the bundled one's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from .base_url import url_path
from .model import Auth, Endpoint, Provider
from .pack_files import PackFolder, PackSource, bundled_rules, read_pack_file
from .pack_schema import PackFile
from .peers import is_loopback
from .verdicts.schema import PackRules, RuleLists

__all__ = ["PackFolder", "Packs", "RuleFile", "build_packs", "bundled_rules", "load_packs"]

_FACTS: Final = tuple(name for name in PackFile.model_fields if name not in ("id", *PackRules.model_fields))
_MODEL_CALLS: Final = "(?:generateContent|streamGenerateContent)"
"""What `{method}` may be: other methods (countTokens, embedContent) are not ours (`clients.md`, 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """The rules that one file contributes for one owner, in its order."""

    owner: str
    """Provider id, or `_openai`, `_generic`, … for a shared file."""
    file: str
    lists: RuleLists
    """Without the rules that a user's file took the place of."""
    lines: Mapping[str, int] = field(repr=False)
    """Rule id -> line."""


@dataclass(frozen=True, slots=True)
class _Doors:
    """What a host's paths lead to."""

    providers: tuple[Provider, ...]
    exact: Mapping[str, tuple[Provider, Endpoint]]
    patterns: tuple[tuple[re.Pattern[str], Provider, Endpoint], ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Packs:
    """Everything the packs say. Immutable: a reload builds a new one."""

    providers: Mapping[str, Provider]
    """By id, in alphabetical order."""
    rules: Mapping[str, tuple[RuleFile, ...]]
    """Owner -> its rule files, the user's before the bundled one."""
    quota_families: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Provider id -> family -> model globs."""
    _hosts: Mapping[tuple[str, int | None], _Doors]
    """Host without wildcard (a leading dot: everything below it) and port, or None for any port."""

    def __repr__(self) -> str:
        rules = sum(len(f.lists.restate) + len(f.lists.classify) for files in self.rules.values() for f in files)
        return f"<Packs providers={len(self.providers)} rules={rules}>"

    def for_host(self, host: str, port: int) -> Provider | None:
        """Whose host this is. Where several providers share one, any of them: `match_call` tells them apart."""
        doors = next(self._doors(host, port), None)
        return doors.providers[0] if doors else None

    def match_call(self, host: str, port: int, path: str) -> tuple[Provider, Endpoint] | None:
        """Provider and door of a request for a model; None for everything else, which is not ours.

        `path` is the request target; a query is ignored.
        """
        path = _plain_path(path)
        for doors in self._doors(host, port):
            found = doors.exact.get(path)
            if found:
                return found
            for pattern, provider, endpoint in doors.patterns:
                if pattern.fullmatch(path):
                    return provider, endpoint
        return None

    def match_endpoint(self, provider: Provider, path: str) -> Endpoint | None:
        """The provider's door that a path is, whatever the host; None when it is no model call."""
        path = _plain_path(path)
        return next((e for e in provider.endpoints if any(p.fullmatch(path) for p in _patterns(e))), None)

    def _doors(self, host: str, port: int) -> Iterator[_Doors]:
        """From the most to the least specific name."""
        name = _host_key(host)
        while name:
            for key in ((name, port), (name, None)):
                doors = self._hosts.get(key)
                if doors:
                    yield doors
            dot = name.find(".", 1)
            name = name[dot:] if dot > 0 else ""


def load_packs(folders: Sequence[PackFolder]) -> tuple[Packs, list[str]]:
    """Every pack of the search path, bundled folder first, and every problem found in it."""
    layers: list[list[PackSource]] = []
    problems: list[str] = []
    for folder in folders:
        layer = []
        for path in folder.files():
            source, found = read_pack_file(folder, path)
            problems += found
            if source:
                layer.append(source)
        layers.append(layer)
    packs, found = build_packs(layers)
    return packs, problems + found


def build_packs(layers: Sequence[Sequence[PackSource]]) -> tuple[Packs, list[str]]:
    """Merge the files of each folder. Pure; what cannot be merged is left out and told."""
    problems: list[str] = []
    checked = [_unique(layer, problems) for layer in layers]
    providers: dict[str, Provider] = {}
    families: dict[str, Mapping[str, tuple[str, ...]]] = {}
    facts: dict[str, dict[str, Any]] = {}
    rank: dict[str, int] = {}
    origin: dict[str, PackSource] = {}
    for depth, layer in enumerate(checked):
        for source in layer:
            if isinstance(source.lists, PackFile):
                written = {name: value for name in _FACTS if (value := getattr(source.lists, name)) is not None}
                facts.setdefault(source.owner, {}).update(written)
                rank[source.owner], origin[source.owner] = depth, source
    for id_ in sorted(facts):
        provider = _provider(id_, facts[id_], origin[id_])
        if not provider.hosts and not provider.endpoints:
            problems.append(
                f"{provider.source}:1: provider '{id_}' has neither `hosts:` nor `endpoints:`, so it can never be "
                "recognised. Add one of them, or use the id of a bundled provider to change that one."
            )
            continue
        providers[id_] = provider
        families[id_] = MappingProxyType({k: tuple(v) for k, v in facts[id_].get("quota_families", {}).items()})
    packs = Packs(
        providers=MappingProxyType(providers),
        rules=MappingProxyType(_rules(checked, problems)),
        quota_families=MappingProxyType(families),
        # A user's own provider is asked before a bundled one that claims the same host.
        _hosts=_host_index(sorted(providers.values(), key=lambda p: (-rank[p.id], p.id))),
    )
    return packs, problems


# ---------------------------------------------------------------- merging


def _unique(layer: Sequence[PackSource], problems: list[str]) -> list[PackSource]:
    """The files of one folder without second claims to an id. (Rule ids are the rule book's business.)"""
    owners: dict[str, PackSource] = {}
    for source in layer:
        first = owners.setdefault(source.owner, source)
        if first is not source:
            problems.append(
                f"{source.file}:{source.lines.get(source.owner, 1)}:1: id '{source.owner}' is taken by {first.file}. "
                "Give this pack another id, or merge the two files."
            )
    return list(owners.values())


def _provider(id_: str, facts: Mapping[str, Any], source: PackSource) -> Provider:
    endpoints = tuple(value.endpoint(dialect) for dialect, value in facts.get("endpoints", {}).items())
    return Provider(
        id=id_,
        name=facts.get("name", id_),
        hosts=tuple(facts.get("hosts") or dict.fromkeys(h for e in endpoints if "{" not in (h := _own_host(e.url)))),
        category=facts.get("category", "api_key"),
        endpoints=endpoints,
        auth=facts["auth"].auth() if "auth" in facts else Auth(),
        headers=MappingProxyType(dict(facts.get("headers", {}))),
        logins=tuple(entry.login() for entry in facts.get("logins", ())),
        traits=frozenset(facts.get("traits", ())),
        key_env=tuple(facts.get("key_env", ())),
        source=f"{source.file}:{source.lines.get(id_, 1)}",
    )


def _own_host(url: str) -> str:
    """The host that an endpoint names, with its port if one is written."""
    netloc = urlsplit(url).netloc.lower()
    return re.sub(r"^\{[a-z_]+\}\.", "*.", netloc)


def _rules(layers: Sequence[Sequence[PackSource]], problems: list[str]) -> dict[str, tuple[RuleFile, ...]]:
    """A rule replaces the one of the same id below it, when both are about the same answers (`SR-9`)."""
    files: dict[str, list[RuleFile]] = {}
    replaced: set[str] = set()
    layers = [[_of_its_own(source, layers[:depth], problems) for source in layer] for depth, layer in enumerate(layers)]
    for layer in reversed(layers):
        for source in layer:
            lists = PackRules.model_construct(
                phrases=source.lists.phrases,
                timezone=source.lists.timezone if isinstance(source.lists, PackRules) else None,
                restate=[r for r in source.lists.restate if r.id not in replaced],
                classify=[r for r in source.lists.classify if r.id not in replaced],
            )
            if lists.restate or lists.classify or lists.phrases or lists.timezone:
                rule_file = RuleFile(owner=source.owner, file=source.file, lists=lists, lines=source.lines)
                files.setdefault(source.owner, []).append(rule_file)
        replaced |= {r.id for source in layer for r in (*source.lists.restate, *source.lists.classify)}
    return {owner: tuple(found) for owner, found in sorted(files.items())}


def _of_its_own(source: PackSource, below: Sequence[Sequence[PackSource]], problems: list[str]) -> PackSource:
    """Without rules that bear the id of somebody else's: replacing those would change the answers of all others."""
    taken = {id_: other for layer in below for other in layer for id_ in other.rule_ids if other.owner != source.owner}
    mine = {id_ for layer in below for other in layer for id_ in other.rule_ids if other.owner == source.owner}
    wrong = [id_ for id_ in source.rule_ids if id_ in taken and id_ not in mine]
    for id_ in wrong:
        other = taken[id_]
        problems.append(
            f"{source.file}:{source.lines.get(id_, 1)}: the rule id {id_!r} belongs to the rule at "
            f"{other.file}:{other.lines.get(id_, 1)}, which is about other answers too. Give this one another id; it is "
            "asked before that one all the same."
        )
    return source.without(wrong) if wrong else source


# ---------------------------------------------------------------- looking up


def _host_index(providers: Sequence[Provider]) -> Mapping[tuple[str, int | None], _Doors]:
    owners: dict[tuple[str, int | None], list[Provider]] = {}
    for provider in providers:
        for host in provider.hosts:
            name, port = _split_port(host)
            key = (_host_key(name.removeprefix("*")), port)
            if provider not in owners.setdefault(key, []):
                owners[key].append(provider)
    return MappingProxyType({key: _doors(tuple(found)) for key, found in owners.items()})


def _doors(providers: tuple[Provider, ...]) -> _Doors:
    exact: dict[str, tuple[Provider, Endpoint]] = {}
    patterns: list[tuple[re.Pattern[str], Provider, Endpoint]] = []
    for provider in providers:
        for endpoint in provider.endpoints:
            for glob in _globs(endpoint):
                if "*" in glob or "{" in glob:
                    patterns.append((_compile(glob), provider, endpoint))
                else:
                    exact.setdefault(glob, (provider, endpoint))
    return _Doors(providers, MappingProxyType(exact), tuple(patterns))


def _split_port(host: str) -> tuple[str, int | None]:
    name, colon, port = host.rpartition(":")
    return (name, int(port)) if colon and port.isdigit() else (host, None)


def _host_key(host: str) -> str:
    """Lower case; the three names of this machine are one."""
    host = host.lower().rstrip(".").strip("[]")
    return "localhost" if is_loopback(host) else host


def _plain_path(path: str) -> str:
    return path.partition("?")[0].partition("#")[0].replace("%3A", ":").replace("%3a", ":")


def _globs(endpoint: Endpoint) -> tuple[str, ...]:
    return (url_path(endpoint.url), *endpoint.aliases)


@lru_cache(maxsize=4096)
def _compile(glob: str) -> re.Pattern[str]:
    parts: list[str] = []
    for literal, name, star in re.findall(r"([^{*]+)|\{([a-z_]+)\}|(\*+)", glob):
        if literal:
            parts.append(re.escape(literal))
        elif name:
            parts.append(_MODEL_CALLS if name == "method" else "[^/]+")
        else:
            parts.append(".*" if len(star) > 1 else "[^/]*")
    return re.compile("".join(parts))


def _patterns(endpoint: Endpoint) -> Iterable[re.Pattern[str]]:
    return (_compile(glob) for glob in _globs(endpoint))
