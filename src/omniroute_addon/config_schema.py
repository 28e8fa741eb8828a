"""What `omniroute.yaml` may say: connections, routes, settings and operator rules."""

from __future__ import annotations

import re
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from .agents import is_agent_name
from .input_problems import Strict
from .nearest import shown
from .pack_schema import HeaderName, HeaderValue, ProviderId, check_url
from .peers import is_loopback
from .secrets import FORMS, SecretProblem, parse_reference
from .settings import Settings
from .targets import CLIENT
from .verdicts.schema import OperatorRule

_PROXYS_OWN = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
"""A header's value is no secret for us: it is shown in reprs and flows, so no credential may be written there."""
MAX_OPERATOR_RULES = 50
"""Over all providers (`FC-60`)."""


def _connection_id(value: str) -> str:
    if value == CLIENT or value.startswith(f"{CLIENT}:"):
        raise ValueError(f"the id '{CLIENT}' belongs to the client's own credential. Choose another id.")
    return value


def _base_url(value: str) -> str:
    if "{" in value or "}" in value:
        raise ValueError("a base_url must not contain braces. Fill in the real address.")
    return check_url(value).rstrip("/")


def _via(value: str) -> str:
    url = urlsplit(check_url(value))
    if url.path.strip("/") or url.port is None:
        raise ValueError("`via` is an upstream proxy. Write it as http://host:port or https://host:port.")
    return value.rstrip("/")


def _reference(value: str) -> str:
    parse_reference(value)
    return value


def _agent_name(value: str) -> str:
    if not is_agent_name(value):
        raise ValueError("an agent's name is 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit.")
    return value


def _token(value: str) -> str:
    if value.strip().startswith("sha256:"):
        if not re.fullmatch(r"sha256:[0-9a-fA-F]{64}", value.strip()):
            raise ValueError("`sha256:` is followed by 64 hex digits. Make them: printf %s TOKEN | sha256sum")
        return value.strip()
    try:
        parse_reference(value)
    except SecretProblem:
        raise ValueError(
            f"a token is given by reference or as its hash, never written here. Write {FORMS}, or sha256:HEX, and if what "
            "stood here is a real token, replace it."
        ) from None
    return value


def _models(value: Any) -> Any:
    """A list of globs allows these; a mapping allows its keys and renames each to its value."""
    if isinstance(value, str):
        return {value: None}
    if isinstance(value, list):
        if not all(isinstance(entry, str) for entry in value):
            raise ValueError("every entry of 'models' must be text. Write a model's name or a glob, in quotes.")
        return dict.fromkeys(value)
    return value


def _camel_rule(value: Any) -> Any:
    """The reference writes `cooldownMs` (`FC-59`)."""
    if isinstance(value, dict) and "cooldownMs" in value and "cooldown_ms" not in value:
        return {("cooldown_ms" if key == "cooldownMs" else key): entry for key, entry in value.items()}
    return value


ConnectionId = Annotated[ProviderId, AfterValidator(_connection_id)]
Models = Annotated[
    dict[str, str | None],
    BeforeValidator(_models, json_schema_input_type=str | list[str] | dict[str, str | None]),
]
RuleEntry = Annotated[OperatorRule, BeforeValidator(_camel_rule)]


class ConnectionFile(Strict):
    """One credential at one provider."""

    id: ConnectionId = Field(description="Your name for it; it stands in logs and in `x-omniroute-connection`.")
    provider: str = Field(description="Provider id, as in `omniroute providers`.")
    key: Annotated[str, AfterValidator(_reference)] | None = Field(
        None, description="Where the credential is kept: `env:NAME`, `file:PATH` or `keyring:NAME`."
    )
    base_url: Annotated[str, AfterValidator(_base_url)] | None = Field(
        None, description="Replaces scheme, host, port and leading path of the provider's addresses."
    )
    models: Models = Field(
        default_factory=dict,
        description="Globs of the models that may be sent here, or a mapping from their names to the names used here.",
    )
    priority: int = Field(0, ge=-1_000_000, le=1_000_000, description="Lower is tried first.")
    weight: int = Field(1, ge=0, le=1_000_000, description="Share among equals, for strategies that use it.")
    max_concurrent: int | None = Field(None, ge=1, le=1_000_000, description="Most requests at once.")
    via: Annotated[str, AfterValidator(_via)] | None = Field(
        None, description="Upstream proxy for this connection only, `http://host:port`."
    )
    headers: dict[HeaderName, HeaderValue] = Field(
        default_factory=dict, description="Headers that are set on every request of this connection."
    )
    disable_cooling: bool = Field(
        False, description="Never take this connection out for a recoverable failure (CC-52)."
    )
    allow_insecure: bool = Field(
        False, description="Consent to send the credential over plain HTTP or unverified TLS to another machine."
    )

    @field_validator("headers")
    @classmethod
    def _ours(cls, headers: dict[str, str]) -> dict[str, str]:
        for name in headers:
            if name in _PROXYS_OWN or name.startswith("x-omniroute-"):
                raise ValueError(f"the header '{name}' is set by the proxy itself. Remove it.")
            if name in _CREDENTIAL_HEADERS:
                raise ValueError(
                    f"the header '{name}' carries a credential. Give it by reference instead: `key: {FORMS}`."
                )
        return headers

    @model_validator(mode="after")
    def _protected(self) -> Self:
        url = urlsplit(self.base_url or "")
        if url.scheme == "http" and not is_loopback(url.hostname or "") and not self.allow_insecure:
            raise ValueError(
                "`base_url` would send the credential in the clear to another machine. Use https://, or write "
                "`allow_insecure: true` if you accept that."
            )
        return self


class RouteFile(Strict):
    """Which connections serve which models, in which order."""

    provider: str = Field("*", description="Provider id that the client calls; any when left out.")
    model: str = Field("*", min_length=1, description="Glob of the model that the client asks for.")
    connections: list[str] = Field(
        min_length=1, description="Connection ids in order; `client` is the client's own credential."
    )

    @field_validator("connections")
    @classmethod
    def _once(cls, names: list[str]) -> list[str]:
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"connection {shown(name)} stands in the route twice. Keep one of them.")
        return names


class AgentFile(Strict):
    """One agent that may prove who it is by the user and password in its proxy URL."""

    name: Annotated[str, AfterValidator(_agent_name)] = Field(
        description="The proxy user: `HTTPS_PROXY=http://NAME:TOKEN@host:port`. It stands in logs."
    )
    token: Annotated[str, AfterValidator(_token)] = Field(
        description="Its password: `env:NAME`, `file:PATH`, `keyring:NAME`, or `sha256:` and the token's hash."
    )


class ConfigFile(Strict):
    """The whole file; every part may be left out."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, title="omniroute configuration")

    connections: list[ConnectionFile] = Field(default_factory=list, description="Your credentials.")
    routes: list[RouteFile] = Field(
        default_factory=list, description="First match decides; without one a provider's own connections are used."
    )
    agents: list[AgentFile] = Field(
        default_factory=list,
        description="Agents that prove their name by a token; from another machine only these get your connections.",
    )
    settings: Settings = Field(default_factory=Settings, description="Figures that differ from the defaults.")
    provider_error_rules: dict[str, list[RuleEntry]] = Field(
        default_factory=dict,
        alias="providerErrorRules",
        description="Provider id -> your own rules for its errors, tried before all others (FC-59).",
    )

    @field_validator("provider_error_rules")
    @classmethod
    def _bounded(cls, rules: dict[str, list[OperatorRule]]) -> dict[str, list[OperatorRule]]:
        count = sum(map(len, rules.values()))
        if count > MAX_OPERATOR_RULES:
            raise ValueError(
                f"there are {count} operator rules, over all providers at most {MAX_OPERATOR_RULES} are allowed "
                "(FC-60). Put rules into a pack of your own instead."
            )
        return rules


def config_json_schema() -> dict[str, Any]:
    """JSON Schema of the configuration file, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **ConfigFile.model_json_schema(by_alias=True)}
