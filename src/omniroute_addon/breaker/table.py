"""What a provider's breaker does, as one table: a state, an event, and what follows.

Theory. A breaker watches one provider as a whole, whatever connection or model was used.

CLOSED     The provider works. Failures of the provider are counted, successes forgive one each.
DEGRADED   The same as CLOSED for traffic; people see that failures pile up. It heals by itself when nothing fails for a
           quiet window, so a provider that nobody asks any more does not look sick for ever.
OPEN       The provider is left alone for a hold. Nothing that was sent before it opened can change it: a late failure
           would prolong the hold, a late success would end it, and both speak of the past.
HALF_OPEN  The hold is over. A few real requests, the probes, may go. One good probe closes, one bad probe opens again,
           longer each time after a few rounds. A probe that says nothing about the provider gives its place back.

There is no timer. Time is an event like the others (`HOLD_OVER`, `QUIET`), noticed by whoever reads next; that is why
nobody may look at a stored state without asking for the time first (`CB-20`, `CB-27`).

A *period* is the time between two transitions. A probe belongs to the period in which it was let through, and when that
is over its result means nothing (`CB-41`). The number of the period is part of the breaker.

Not modelled here: which failures count (`provider_failure`), how long a hold is (`figures`), who may probe
(`registry`), and what is done about a request that may not go (the plugin).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class State(StrEnum):
    """`CB-2`; the words that stand in the store and in every answer of the API."""

    CLOSED = "CLOSED"
    DEGRADED = "DEGRADED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class Event(StrEnum):
    """What can happen to a breaker. The text is what the diagram says."""

    FAILED = "failure below every threshold"
    WORSENED = "failures ≥ degradation threshold"
    BROKE = "failures ≥ failure threshold"
    SUCCEEDED = "success"
    RECOVERED = "success, failures ≤ degradation threshold"
    QUIET = "quiet window over"
    HOLD_OVER = "hold over"
    PROBE_SUCCEEDED = "probe succeeded"
    PROBE_FAILED = "probe failed"
    PROBE_SAID_NOTHING = "probe said nothing"
    TESTED = "connection test passed"
    RESET = "manual reset"


Effect = Literal["none", "count", "forgive", "heal", "close", "reopen", "forget"]
"""What is done to the counters; `machine` says how.

`count` adds a failure. `forgive` takes one away. `heal` clears the counts. `close` also clears the open cycles.
`reopen` counts the failure and an open cycle. `forget` makes the breaker as new, but for its history.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """What follows from one event in one state."""

    to: State
    effect: Effect
    reason: str = ""
    """Kept with the transition. `{failures}`, `{threshold}`, `{kind}` and `{cycle}` are filled in; a reason whose
    `{kind}` is unknown is left out."""


_CLOSED, _DEGRADED, _OPEN, _HALF = State.CLOSED, State.DEGRADED, State.OPEN, State.HALF_OPEN
_OPENS = "kind:{kind}"
_ELEVATED = "elevated-failures ({failures}/{threshold})"

TABLE: Final[dict[tuple[State, Event], Row]] = {
    (_CLOSED, Event.FAILED): Row(_CLOSED, "count"),
    (_CLOSED, Event.WORSENED): Row(_DEGRADED, "count", _ELEVATED),  # CB-29
    (_CLOSED, Event.BROKE): Row(_OPEN, "count", _OPENS),  # CB-29, CB-57
    (_CLOSED, Event.SUCCEEDED): Row(_CLOSED, "forgive"),  # CB-31
    (_CLOSED, Event.RECOVERED): Row(_CLOSED, "forgive"),
    (_CLOSED, Event.QUIET): Row(_CLOSED, "heal"),  # beyond the reference: old failures age here, too
    (_CLOSED, Event.TESTED): Row(_CLOSED, "none"),
    (_CLOSED, Event.RESET): Row(_CLOSED, "forget", "manual-reset"),
    (_DEGRADED, Event.FAILED): Row(_DEGRADED, "count"),
    (_DEGRADED, Event.WORSENED): Row(_DEGRADED, "count"),
    (_DEGRADED, Event.BROKE): Row(_OPEN, "count", _OPENS),  # CB-30, CB-57
    (_DEGRADED, Event.SUCCEEDED): Row(_DEGRADED, "forgive"),
    (_DEGRADED, Event.RECOVERED): Row(_CLOSED, "forgive", "recovery"),  # CB-31
    (_DEGRADED, Event.QUIET): Row(_CLOSED, "heal", "quiet"),  # CB-23
    (_DEGRADED, Event.TESTED): Row(_CLOSED, "heal", "connection-test"),  # CB-32
    (_DEGRADED, Event.RESET): Row(_CLOSED, "forget", "manual-reset"),
    (_OPEN, Event.FAILED): Row(_OPEN, "none"),  # CB-19: it was sent before, or without leave
    (_OPEN, Event.SUCCEEDED): Row(_OPEN, "none"),  # CB-33
    (_OPEN, Event.HOLD_OVER): Row(_HALF, "none", "timeout-elapsed"),  # CB-21
    (_OPEN, Event.TESTED): Row(_OPEN, "none"),
    (_OPEN, Event.RESET): Row(_CLOSED, "forget", "manual-reset"),
    (_HALF, Event.FAILED): Row(_HALF, "none"),  # CB-19
    (_HALF, Event.SUCCEEDED): Row(_HALF, "none"),  # CB-33
    (_HALF, Event.PROBE_SUCCEEDED): Row(_CLOSED, "close", "probe-success"),  # CB-37
    (_HALF, Event.PROBE_FAILED): Row(_OPEN, "reopen", "probe-failed (cycle {cycle})"),  # CB-38
    (_HALF, Event.PROBE_SAID_NOTHING): Row(_HALF, "none"),  # CB-39
    (_HALF, Event.TESTED): Row(_HALF, "none"),
    (_HALF, Event.RESET): Row(_CLOSED, "forget", "manual-reset"),
}
"""Complete: a pair that is not here cannot happen, because `machine` names events by state."""

PASSES: Final = frozenset({_CLOSED, _DEGRADED})
"""States in which every request may go (`CB-30`)."""
