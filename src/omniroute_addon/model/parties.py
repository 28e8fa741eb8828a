"""Who answers, and with which credential: providers, their doors, connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .words import Category, DialectName


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """Where a provider wants its credential."""

    header: str = "authorization"
    """Header name, lower case; empty when `query` is used."""
    scheme: str = "Bearer"
    """Word before the credential; empty for the bare credential."""
    query: str = ""
    """Name of the query parameter that carries the credential instead of a header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A sort of credential that a provider wants carried in another way than its usual one."""

    prefix: str
    """How such a credential begins, `sk-ant-oat`."""
    auth: Auth
    values: Mapping[str, str] = field(default_factory=dict)
    """List header -> the value that must be on its list with this sort of credential, and with no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One door of a provider: where requests of one dialect go."""

    dialect: DialectName
    url: str
    """Absolute URL. `{model}` and `{method}` are filled in for dialects that name the model in the path."""
    aliases: tuple[str, ...] = ()
    """Further paths on the provider's hosts that are the same door (globs, without query)."""
    auth: Auth | None = None
    """Overrides the provider's `auth` for this door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """What a pack says about one provider. Source: `design.md` §6."""

    id: str
    """Stable, lower case, as in `rules/<id>.yaml`."""
    name: str
    """For people."""
    hosts: tuple[str, ...]
    """Host names that are this provider; a leading `*.` matches one or more labels."""
    category: Category
    endpoints: tuple[Endpoint, ...]
    """Empty for a provider that is only identified, never dispatched to (bedrock)."""
    auth: Auth
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that every request to this provider needs, such as `anthropic-version`; set only when absent."""
    logins: tuple[Login, ...] = ()
    """Sorts of credentials that go another way; the first whose prefix fits."""
    traits: frozenset[str] = frozenset()
    """Facts that mechanisms ask for by name (`passthrough_models`, `per_model_quota`, `full_text`, …)."""
    key_env: tuple[str, ...] = ()
    """Variables in which people keep a key of this provider, the usual one first; `omniroute init` looks there."""
    source: str = ""
    """`file:line` the pack came from."""

    def endpoint(self, dialect: str) -> Endpoint | None:
        """The door for a dialect, or None when this provider does not speak it."""
        return next((e for e in self.endpoints if e.dialect == dialect), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A credential whose text never appears in a repr, a log or an exception."""

    value: str = field(repr=False)
    digest: str
    """First 12 hex digits of the SHA-256 of `value`: an identity that may be shown."""

    def __str__(self) -> str:
        return f"secret:{self.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """One credential at one provider."""

    id: str
    """As the operator named it; `client:<digest>` for a client's own credential."""
    provider: str
    """Provider id."""
    secret: Secret | None = None
    """None for local servers without a key and for a client that sent none."""
    base_url: str | None = None
    """Replaces scheme, host, port and leading path of the provider's endpoints."""
    models: tuple[str, ...] = ()
    """Globs of the models that may be sent here; empty allows all."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """Model name of the client -> model name of this connection."""
    priority: int = 0
    """Lower is tried first."""
    weight: int = 1
    """Share among equals, for strategies that use it."""
    max_concurrent: int | None = None
    """Most requests at once; None is no limit."""
    via: str | None = None
    """Upstream proxy for this connection only, `http://host:port` or `https://host:port`."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers that are set on every request of this connection."""
    disable_cooling: bool = False
    """`CC-52`: never take this connection out for a recoverable failure."""
    allow_insecure: bool = False
    """Operator's consent to send the credential over plain HTTP or unverified TLS to a host that is not loopback."""
    own: bool = False
    """The client's own credential: never terminal, never refused locally (first, do no harm)."""
