"""What people see of a mechanism, and what they ask of it: a row for every timer, an order to clear some, what was cleared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Part = Literal["provider", "connection", "model"]
"""What a timer is about: a provider as a whole, one connection, one model of a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """One reason why something is not asked now, or soon will not be. Points in time are epoch seconds."""

    part: Part
    mechanism: str
    """Stable snake_case word, as in `Exclusion.label` where there is one: `circuit_breaker`, `connection_cooldown`."""
    provider: str
    """Provider id."""
    connection: str | None = None
    """Connection id, without its credential's digest; None for a provider as a whole."""
    model: str | None = None
    """Only with `part="model"`."""
    state: str
    """One word for people: `OPEN`, `cooling`, `banned`, `locked`."""
    blocks: bool = True
    """It is passed by because of this. False: worth knowing, and asked all the same."""
    terminal: bool = False
    """No time ends it: a person does, or a new credential. Cleared only when it is named."""
    reason: str = ""
    """Short cause in the verdict's words: `rate_limit_exceeded`."""
    detail: str = ""
    """One sentence for people, free of secrets."""
    rule: str = ""
    """Id of the rule that judged the failure."""
    hint: str = ""
    """Where the upstream said how long: `header:retry-after`; empty when it did not, or was not believed."""
    failures: int | None = None
    """Failures behind it; for a ladder its step."""
    since: float | None = None
    """When it began, as far as known."""
    until: float | None = None
    """When it ends by itself; None when it does not."""
    listed: str = ""
    """The list of the management API that has this row: `circuitBreakers`, `connections`, `modelCooldowns`."""
    row: Mapping[str, Any] = field(default_factory=dict)
    """The row there: JSON, names in camelCase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOrder:
    """What a person wants cleared. A field that is None narrows nothing."""

    part: Part | Literal["all"]
    provider: str | None = None
    """Provider id."""
    connections: frozenset[str] | None = None
    """Connection ids. With `part="connection"` their models' locks go as well."""
    model: str | None = None
    terminal: bool = False
    """Terminal states as well; without this they stay as they are (`CC-57`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleared:
    """One thing that a mechanism forgot."""

    part: Part
    mechanism: str
    provider: str
    connection: str | None = None
    model: str | None = None
    state: str = ""
    """What it was, in one line for the log."""
