"""The decision to hold a request (`CW-16`, `CW-20` to `CW-25`): a pure function of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .settings import CooldownWaitSettings
from .ways_out import WayOut

MARGIN_S = 0.05
"""`CW-20`: clocks differ a little, and a lock that is just about to end is still one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """To wait or not, and why: also what is not waited for is worth a line in the log (`CW-25`)."""

    wait: bool
    planned_s: float
    """0 when there is nothing to wait for."""
    why: str


def decide(
    ways: Sequence[WayOut],
    *,
    waited: Sequence[float],
    patience_s: float | None,
    settings: CooldownWaitSettings,
) -> Decision:
    """`waited`: the waits of this call so far, in seconds. `patience_s`: how long its client bears it still; None: for ever."""
    if not ways:
        return Decision(wait=False, planned_s=0.0, why="nothing ends by itself")
    first = ways[0]
    planned = first.in_s + MARGIN_S
    if not settings.active:
        why = "switched off"
    elif planned * 1000 > settings.max_wait_ms:
        why = "too long"
    elif len(waited) >= settings.max_waits:
        why = "waited often enough"
    elif planned > settings.budget_s - sum(waited):
        why = "the budget is spent"
    elif patience_s is not None and planned > patience_s:
        why = "the client would not bear it"
    else:
        return Decision(wait=True, planned_s=planned, why=first.why)
    return Decision(wait=False, planned_s=planned, why=why)
