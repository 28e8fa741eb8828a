"""`omniroute.yaml` -> a frozen value. Every problem of the file is told at once, with its place.

A credential that cannot be resolved makes only its own connection unusable; any other problem makes the file as a whole
unusable, so that a typing error never runs with half of what was meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .agents import token_hash
from .base_url import door_url
from .config_schema import AgentFile, ConfigFile, ConnectionFile
from .input_problems import validate, value_at
from .model import Connection, ModelCall, Provider, Secret, Target
from .nearest import shown, unknown
from .secrets import SecretProblem, Vault, parse_reference
from .settings import Settings, Sourced, resolve_settings, rows
from .targets import CLIENT, Route, targets_for
from .verdicts.schema import OperatorRule
from .yaml_source import Document, read_yaml
from .yaml_source import Path as Place

if TYPE_CHECKING:
    from .packs import Packs


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the operator wants. `Config()` is what holds without any file."""

    connections: tuple[Connection, ...] = ()
    """In the order of the file, without those whose credential cannot be resolved."""
    routes: tuple[Route, ...] = ()
    agents: Mapping[str, bytes | None] = field(default_factory=dict, repr=False)
    """Agent's name -> SHA-256 of its token; None where that cannot be looked up, and nobody can be this agent."""
    settings: Settings = field(default_factory=Settings)
    operator_rules: Mapping[str, tuple[OperatorRule, ...]] = field(default_factory=dict)
    """Provider id -> rules that are tried before all others (`FC-60`)."""
    provided: frozenset[str] = frozenset()
    """Providers for which the file names a connection, also one that cannot be used now."""
    sources: Mapping[str, Sourced] = field(default_factory=dict, repr=False)
    """Dotted name of a setting -> its value and where it was said."""

    def targets_for(self, call: ModelCall, own: Target | None, packs: Packs) -> tuple[Target, ...]:
        """The targets for a call, best first; see `targets.targets_for`. `own` is the client's own, ready-made."""
        return targets_for(
            call,
            own,
            connections=self.connections,
            routes=self.routes,
            providers=packs.providers,
            own_credential=self.settings.own_credential,
            provided=self.provided,
        )

    def has_alternatives(self, call: ModelCall, packs: Packs) -> bool:
        """Some configured connection may serve a call at this door, whatever its model will be."""
        named = {id_ for r in self.routes if r.provider in ("*", call.provider) for id_ in r.connections}
        return any(
            (c.provider == call.provider or c.id in named)
            and (provider := packs.providers.get(c.provider)) is not None
            and provider.endpoint(call.dialect) is not None
            for c in self.connections
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReading:
    """What came of reading a configuration file."""

    config: Config | None
    """None when the file as a whole cannot be used."""
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    """Credential files that the configuration refers to; a change to one is a change of the configuration."""


def read_config(raw: bytes, *, file: str, packs: Packs, vault: Vault) -> ConfigReading:
    """One configuration file as a value. Never raises; looks credentials up in `vault`."""
    document = read_yaml(raw, file=file)
    problems = list(document.problems)
    if not document.readable:
        return ConfigReading(config=None, problems=tuple(problems))
    written, found = validate(ConfigFile, document)
    problems += [*found, *_cross_problems(document, packs)]
    if written is None or problems:
        return ConfigReading(config=None, problems=tuple(problems))

    places = {r.name: document.place(p) for r in rows() if (p := ("settings", *r.name.split("."))) in document.values}
    settings, sources, warnings = resolve_settings(written.settings, vault.environ, places)
    connections: list[Connection] = []
    files: list[Path] = []
    for index, entry in enumerate(written.connections):
        place = document.place(("connections", index, "key"))
        secret, fault, warning = _credential(entry, vault, files)
        if warning:
            warnings.append(f"{place}: {warning}")
        if fault:
            warnings.append(f"{place}: connection '{entry.id}' is left out: {fault}")
        else:
            connections.append(_connection(entry, secret))
    agents: dict[str, bytes | None] = {}
    for index, agent in enumerate(written.agents):
        place = document.place(("agents", index, "token"))
        agents[agent.name], fault, warning = _proof(agent, vault, files)
        if warning:
            warnings.append(f"{place}: {warning}")
        if fault:
            warnings.append(f"{place}: agent '{agent.name}' cannot log in: {fault}")
    config = Config(
        agents=MappingProxyType(agents),
        connections=tuple(connections),
        routes=tuple(
            Route(provider=r.provider, model=r.model, connections=tuple(r.connections)) for r in written.routes
        ),
        settings=settings,
        operator_rules=MappingProxyType({k: tuple(v) for k, v in written.provider_error_rules.items()}),
        provided=frozenset(entry.provider for entry in written.connections),
        sources=MappingProxyType(dict(sources)),
    )
    return ConfigReading(config=config, problems=tuple(problems), warnings=tuple(warnings), files=tuple(files))


def config_without_file(environ: Mapping[str, str]) -> ConfigReading:
    """What holds when there is no file: the environment over the built-in settings."""
    settings, sources, warnings = resolve_settings(None, environ, {})
    config = Config(settings=settings, sources=MappingProxyType(dict(sources)))
    return ConfigReading(config=config, warnings=tuple(warnings))


def _proof(agent: AgentFile, vault: Vault, files: list[Path]) -> tuple[bytes | None, str, str]:
    """The hash of an agent's token, why there is none, and a warning."""
    if agent.token.startswith("sha256:"):
        return bytes.fromhex(agent.token.removeprefix("sha256:")), "", ""
    reference = parse_reference(agent.token)
    path = vault.path(reference)
    if path is not None:
        files.append(path)
    try:
        token, warning = vault.text(reference)
    except SecretProblem as error:
        return None, str(error), ""
    return token_hash(token), "", warning


def _credential(entry: ConnectionFile, vault: Vault, files: list[Path]) -> tuple[Secret | None, str, str]:
    """The credential, why there is none, and a warning."""
    if entry.key is None:
        return None, "", ""
    reference = parse_reference(entry.key)
    path = vault.path(reference)
    if path is not None:
        files.append(path)
    try:
        secret, warning = vault.resolve(reference)
    except SecretProblem as error:
        return None, str(error), ""
    return secret, "", warning


def _connection(entry: ConnectionFile, secret: Secret | None) -> Connection:
    return Connection(
        id=entry.id,
        provider=entry.provider,
        secret=secret,
        base_url=entry.base_url,
        models=tuple(entry.models),
        rename=MappingProxyType({name: other for name, other in entry.models.items() if other is not None}),
        priority=entry.priority,
        weight=entry.weight,
        max_concurrent=entry.max_concurrent,
        via=entry.via,
        headers=MappingProxyType(dict(entry.headers)),
        disable_cooling=entry.disable_cooling,
        allow_insecure=entry.allow_insecure,
    )


# ---------------------------------------------------------------- what only shows when everything is known


def _cross_problems(document: Document, packs: Packs) -> list[str]:
    """Looks at the data as written, so that a typing error in one place does not hide an unknown name in another."""
    connections = list(_entries(document, "connections"))
    return [
        *_connection_problems(connections, document, packs),
        *_route_problems(
            [entry["id"] for _, entry in connections if isinstance(entry.get("id"), str)], document, packs
        ),
        *_unknown_rule_providers(document, packs),
        *_agent_problems(document),
    ]


def _entries(document: Document, name: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    listed = value_at(document.data, (name,))
    for index, entry in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(entry, dict):
            yield (name, index), entry


def _connection_problems(
    entries: Sequence[tuple[Place, dict[str, Any]]], document: Document, packs: Packs
) -> Iterator[str]:
    first: dict[str, Place] = {}
    for here, entry in entries:
        id_, name, base_url = entry.get("id"), entry.get("provider"), entry.get("base_url")
        if not isinstance(id_, str) or not isinstance(name, str):
            continue
        if first.setdefault(id_, here) != here:
            line = document.line((*first[id_], "id"))
            place = document.place((*here, "id"))
            yield f"{place}: connection id {shown(id_)} is used already in line {line}. Rename one of them."
        provider = packs.providers.get(name)
        place = document.place((*here, "provider"))
        if provider is None:
            yield f"{place}: {unknown('provider', name, packs.providers)}"
        elif not provider.endpoints:
            yield (
                f"{place}: provider '{provider.id}' is only recognised, its pack has no endpoints to send to. "
                f"Use another provider, or add `endpoints:` in a pack of your own with `id: {provider.id}`."
            )
        elif not _reachable(provider, base_url):
            yield (
                f"{place}: provider '{provider.id}' has an address of its own for every customer. "
                f"Add `base_url: https://…` to connection {shown(id_)}."
            )
        elif not any(entry.get(k) for k in ("key", "headers", "base_url")) and provider.category != "local":
            yield (
                f"{document.place(here)}: connection {shown(id_)} has no credential for provider '{provider.id}'. "
                "Add `key: env:NAME`, `key: file:PATH` or `key: keyring:NAME`."
            )


def _reachable(provider: Provider, base_url: Any) -> bool:
    """Some door has an address. A base that is none is told elsewhere."""
    try:
        return any(door_url(endpoint, base_url and str(base_url)) for endpoint in provider.endpoints)
    except ValueError:
        return True


def _route_problems(ids: Sequence[str], document: Document, packs: Packs) -> Iterator[str]:
    names = [*ids, CLIENT]
    for here, route in _entries(document, "routes"):
        provider, listed = route.get("provider", "*"), route.get("connections")
        if isinstance(provider, str) and provider != "*" and provider not in packs.providers:
            yield f"{document.place((*here, 'provider'))}: {unknown('provider', provider, packs.providers)}"
        for position, name in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(name, str) and name not in names:
                place = document.place((*here, "connections", position))
                yield f"{place}: {unknown('connection', name, names)}"


def _unknown_rule_providers(document: Document, packs: Packs) -> Iterator[str]:
    written = value_at(document.data, ("providerErrorRules",))
    for id_ in written if isinstance(written, dict) else ():
        if id_ not in packs.providers:
            place = document.place(("providerErrorRules", id_), key=True)
            yield f"{place}: {unknown('provider', id_, packs.providers)}"


def _agent_problems(document: Document) -> Iterator[str]:
    first: dict[str, Place] = {}
    for here, entry in _entries(document, "agents"):
        name = entry.get("name")
        if isinstance(name, str) and first.setdefault(name, here) != here:
            line = document.line((*first[name], "name"))
            yield f"{document.place((*here, 'name'))}: agent {shown(name)} is named already in line {line}. Rename one of them."
    if not first and value_at(document.data, ("settings", "require_agent")) is True:
        yield (
            f"{document.place(('settings', 'require_agent'))}: no agent is listed, so nobody could use the proxy. "
            "Add `agents:` with a name and a token, or remove `require_agent`."
        )
