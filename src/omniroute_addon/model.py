"""The values that travel through a request's life.

Everything here is frozen, keyword-only and free of behaviour that needs a clock, a network or a disk. Units are in the
names (`_ms`, `_s`, `_at`, `_bytes`); a point in time is epoch seconds as a float, read from the injected clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

DialectName = Literal["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)

Category = Literal["oauth", "api_key", "local"]
"""How a provider's connections log in; picks the default figures (`CC-12`, `CC-13`)."""

Kind = Literal[
    "rate_limit",
    "quota_exhausted",
    "concurrency_limited",
    "credits_exhausted",
    "auth_invalid",
    "auth_expired",
    "forbidden",
    "account_banned",
    "request_rejected",
    "model_not_found",
    "model_access_denied",
    "context_overflow",
    "invalid_request",
    "content_policy",
    "payload_too_large",
    "overloaded",
    "server_error",
    "timeout",
    "network",
    "ok",
]
"""What an answer means: the twenty kinds of `corpus/README.md`."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Scope = Literal["request", "model", "connection", "provider", "egress_ip"]
"""Whom an answer says something about."""
SCOPES: tuple[Scope, ...] = get_args(Scope)

Repair = Literal["signed_reasoning"]
"""Parts of a request that belong to the account that made them: `signed_reasoning` are signed or encrypted thoughts."""

Phase = Literal["connect", "head", "body", "stream"]
"""How far an attempt had come: no answer yet, error head, whole body, or inside an event stream."""


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
    """The client's own credential: never terminal, never refused locally (`spec/README.md`, rule 4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A request for a model, as far as it had to be understood (the stage `identify`)."""

    provider: str
    dialect: DialectName
    model: str
    """As the client wrote it; empty when the request names none."""
    stream: bool
    """The client wants an event stream."""
    session: str | None = None
    """Stable id of the conversation when the client or the body names one."""
    tools: int = 0
    """Number of tools the request declares."""
    history_items: int = 0
    """Length of `messages`, `input` or `contents`."""
    body_bytes: int = 0
    """Length of the decoded body."""
    client: str | None = None
    """Peer address of the client, without port."""
    trusted: bool = True
    """The peer may use configured credentials (loopback, or authenticated)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One way to serve a call: a connection, a door, a model name."""

    connection: Connection
    dialect: DialectName
    url: str
    """Where the request goes, without query."""
    model: str
    """The name that this connection knows the model by."""
    auth: Auth
    headers: Mapping[str, str] = field(default_factory=dict)
    """Provider and connection headers merged."""
    listed: Mapping[str, str] = field(default_factory=dict)
    """List header -> the value that this credential's login needs on it."""
    unlisted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """List header -> values that belong to other logins of the provider and must not travel with this credential."""

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity within one call."""
        return (self.connection.id, self.url, self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Why a target may not be used now."""

    target: Target
    label: str
    """Stable snake_case word, `connection_cooldown`."""
    detail: str = ""
    """One sentence for people: which rule or timer."""
    until: float | None = None
    """Epoch seconds at which it ends by itself; None when only a person or a restart ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One upstream request for a call."""

    number: int
    """From 1, over all targets of the call."""
    target: Target
    tries: int
    """From 1, on this target."""
    started_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back from an attempt, as far as it is judged. `score` and the proxy build the same value."""

    status: int
    """HTTP status; 0 when there was no HTTP answer, `body` is then the text of the fault."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case; repeated headers joined with `, `."""
    body: bytes = b""
    """Decoded (no content-encoding); for a stream the raw event text seen so far. May be cut at any byte."""
    stream: bool = False
    """`body` is an event stream."""
    phase: Phase = "body"
    fault: str | None = None
    """Network or protocol fault that ended the attempt, `connect_failed`, `reset`, `timeout:head`, `truncated`, …"""


RetryFrom = Literal["header", "body", "text", "rule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryAfter:
    """How long the upstream asked to wait, and where it said so."""

    seconds: float
    """From now; bounded to 0 … 30 days (`CC-31`)."""
    source: str
    """`header:retry-after`, `body:error.resets_in_seconds`, `text:Try again in 17 seconds`, `rule:<id>`."""
    absolute: bool = False
    """The upstream named a point in time and sent no `date` header: `seconds` was computed from our own clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRef:
    """Which rule decided."""

    id: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.id} ({self.file}:{self.line})" if self.file else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Restatement:
    """A status that lied, corrected (`SR-2`, `SR-21`, `SR-22`)."""

    from_status: int
    status: int
    retry_after_s: float | None
    """What the client is told; a rule's default never reaches a timer (`SR-24`)."""
    rule: RuleRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What an answer means, for whom, and for how long."""

    kind: Kind
    scope: Scope
    retry_other: bool
    """Another connection or target may answer this request."""
    terminal: bool
    """The connection needs a person before it works again."""
    breaker: bool
    """Counts against the provider's circuit breaker."""
    status: int
    """Status that the client and every later stage see; restated where a rule said so."""
    reason: str
    """Reason name of the reference (`spec/05`), derived from `kind`."""
    rule: RuleRef
    retry_after: RetryAfter | None = None
    """What the upstream declared; never a rule's default."""
    restatement: Restatement | None = None
    retry_same: bool = False
    """Worth another try in place after a short pause: an overload or a server fault, not the account (`A07`)."""
    cooldown_s: float | None = None
    """Fixed pause that the rule declares for what it is about (`CC-18`)."""
    repair: Repair | None = None
    """What may be wrong with the request only at this connection, and can be taken out of it (`A29`)."""
    message: str = ""
    """The upstream's own words, shortened and free of credentials: for logs, comments and final answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One finished attempt, as logs, comments and `explain` tell it."""

    attempt: Attempt
    answer: Answer
    verdict: Verdict
    ended_at: float
    notes: tuple[str, ...] = ()
