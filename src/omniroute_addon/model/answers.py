"""What came back, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .calls import Attempt
from .words import Kind, Phase, Repair, Scope


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
