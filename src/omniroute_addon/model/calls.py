"""What is asked, of whom, and who may not be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .parties import Auth, Connection
from .words import DialectName


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
    """Stable id of the conversation: what a header or the body says, else the agent, else a digest of its beginning."""
    client_profile: str = "default"
    """Id of the client's profile (`rules/clients/`)."""
    tools: int = 0
    """Number of tools the request declares."""
    history_items: int = 0
    """Length of `messages`, `input` or `contents`."""
    body_bytes: int = 0
    """Length of the decoded body."""
    client: str | None = None
    """Peer address of the client, without port."""
    agent: str | None = None
    """Name that the client gave as its proxy user; None is anonymous."""
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
    reason: str = ""
    """Reason name of the failure behind it (`docs/reasons.md`), where there was one."""
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
