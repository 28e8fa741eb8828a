"""One model call in flight: what the engine knows of it between two steps.

The only mutable value of the core. It lives from `Engine.identify` to `Engine.finish`; the stream carries it along and
never looks inside, except for the fields that are said to be the stream's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field

from .dialects import Dialect
from .model import Attempt, ClientProfile, Exclusion, ModelCall, Story, Target, Verdict
from .wire import Headers, Incoming, Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class RawAnswer:
    """A failed answer as it could be handed to the client: bytes untouched."""

    status: int
    headers: Headers
    body: bytes
    """As received, with its content coding."""
    partial: bool = False
    """More of it would come: it was longer than `held_body_bytes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Step: send the call to this target."""

    attempt: Attempt
    outgoing: Outgoing
    alternatives: bool
    """Something else could be tried, so deadlines may end this attempt (first, do no harm)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Step: wait, then ask again. One of the two is set."""

    seconds: float = 0.0
    permit: Awaitable[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Step: this is the answer, nothing more is tried."""

    status: int
    headers: Headers
    body: bytes
    attempt: int = 0
    """Number of the attempt whose bytes these are; 0 when we wrote them."""


Step = Send | Pause | Reply


@dataclass(slots=True, kw_only=True, repr=False)
class Exchange:
    """A call, its targets, and what became of them so far."""

    id: str = ""
    """What `omniroute explain` is given; also in the answer's headers and in the log."""
    call: ModelCall
    incoming: Incoming
    body: bytes
    """Decoded."""
    dialect: Dialect
    profile: ClientProfile = field(default_factory=ClientProfile)
    """What is known of the client program."""
    model_in_path: bool = False
    """Only the client's path names the model (`CallFacts`)."""
    targets: tuple[Target, ...]
    started_at: float
    deadline_at: float

    stories: list[Story] = field(default_factory=list)
    raw: dict[int, RawAnswer] = field(default_factory=dict)
    """Answers of failed attempts by number: one of them may become the client's."""
    attempt: Attempt | None = None
    spent: set[tuple[str, str, str]] = field(default_factory=set)
    """Keys of targets that are not asked again for this call."""
    exclusions: tuple[Exclusion, ...] = ()
    """As of the last choice."""
    skipped: dict[tuple[tuple[str, str, str], str], Exclusion] = field(default_factory=dict)
    """Every exclusion so far, by target and label, as it was last seen: for the record."""
    again: Target | None = None
    """Try this one once more, in place."""
    admitted: Target | None = None
    """Chosen and waiting for its permits."""
    permits: list[Awaitable[None]] = field(default_factory=list)
    pause_s: float = 0.0
    repaired: bool = False
    """`body` is no longer what the client sent (the hook `repair`)."""
    in_place: int = 0
    """Tries in place so far, over all targets (`A24`: one retry budget a call)."""
    waited: list[float] = field(default_factory=list)
    """Seconds of each wait for a target to become usable again (the hook `wait`)."""
    held_until: float = 0.0
    """End of the running wait, epoch seconds."""
    held_for: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    """What barred targets when it began: target key -> when that ends by itself."""
    last_verdict: Verdict | None = None
    final: bool = False
    """Nothing else can answer this call (a malformed request, a deadline)."""
    opened_at: float | None = None
    """Set by the stream when it has sent a head before the decision, to keep the client waiting."""
    committed: bool = False
    """A byte of an answer went to the client: nothing is replayed any more."""
    finished: bool = False
    status: int = 0
    """What the client was told; 0 before that."""

    def __repr__(self) -> str:
        state = "finished" if self.finished else "committed" if self.committed else "open"
        return f"<Exchange {self.call.provider}/{self.call.model} {state} attempts={self.attempts} targets={len(self.targets)}>"

    @property
    def attempts(self) -> int:
        """Attempts made so far, the running one included."""
        return self.attempt.number if self.attempt else 0

    def comment(self) -> str:
        """The story of the attempts in one line each, for `flow.comment`."""
        lines = [
            f"#{s.attempt.number} {s.attempt.target.connection.id}: {s.verdict.kind}"
            + (f" {s.answer.status}" if s.answer.status else f" {s.answer.fault}")
            + (f"→{s.verdict.status}" if s.verdict.restatement else "")
            + f" [{s.verdict.rule.id}] after {(s.ended_at - s.attempt.started_at) * 1000:.0f} ms"
            + (f", wait {wait.seconds:g} s ({wait.source})" if (wait := s.verdict.retry_after) else "")
            for s in self.stories
        ]
        if self.attempt and (not self.stories or self.stories[-1].attempt.number != self.attempt.number):
            lines.append(f"#{self.attempt.number} {self.attempt.target.connection.id}: answered {self.status or '…'}")
        return "\n".join(lines)
