"""How long an attempt may take, phase by phase. Pure figures; `watch.py` asks, `stream.py` wakes it.

A deadline ends an attempt only where something else could be tried: a client with one credential is never worse off than
without us (first, do no harm). For such a call a late stream is released instead of failed, and only the absolute
ceiling of an attempt (`ST-39`) and, once it streams, the idle timer apply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .model import ModelCall
from .settings import Settings

Name = Literal["head", "readiness", "grace", "idle", "error_body", "attempt", "call"]
Stage = Literal["head", "error", "opening", "body", "committed"]

ERROR_BODY_S = 15.0
"""An error's body that takes longer is judged by what there is: the status has said the most."""

FAILURES: dict[str, str] = {
    "head": "no response head in time",
    "readiness": "STREAM_READINESS_TIMEOUT: no useful frame in time",
    "idle": "STREAM_IDLE_TIMEOUT: nothing useful came for too long",
    "attempt": "STREAM_ATTEMPT_DEADLINE: the attempt took too long",
    "call": "the time for all attempts of this request is over",
}
"""Deadlines that end an attempt, and what is said of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The deadlines of one attempt of one call. Times are epoch seconds."""

    call: ModelCall
    settings: Settings
    started_at: float
    call_deadline_at: float
    """End of the time for all attempts; an attempt without alternatives may run on."""
    alternatives: bool

    def due(
        self, stage: Stage, *, head_at: float, active_at: float, bytes_at: float, lifecycle_at: float | None
    ) -> dict[Name, float]:
        """Every deadline that applies in this stage, with its time."""
        s = self.settings
        out: dict[Name, float] = {}
        if s.attempt_deadline_ms:
            out["attempt"] = self.started_at + s.attempt_deadline_ms / 1000
        if self.alternatives and stage != "committed":
            out["call"] = self.call_deadline_at
        if stage == "head" and self.alternatives and (limit := self._head_ms()):
            out["head"] = self.started_at + limit / 1000
        elif stage == "error":
            out["error_body"] = head_at + ERROR_BODY_S
        elif stage == "opening" and s.readiness_timeout_ms:
            # Bytes move the deadline, up to a bound that nothing moves (ST-21).
            bound = max(s.readiness_max_timeout_ms, s.readiness_timeout_ms)
            out["readiness"] = min(bytes_at + readiness_budget_ms(self.call, s) / 1000, head_at + bound / 1000)
        elif (stage == "committed" or (stage == "body" and self.alternatives)) and s.idle_timeout_ms:
            out["idle"] = active_at + s.idle_timeout_ms / 1000
        if stage == "opening" and lifecycle_at is not None:
            out["grace"] = lifecycle_at + s.lifecycle_grace_ms / 1000
        return out

    def _head_ms(self) -> int:
        """A stream's head comes with its first frame at many providers, so both share one bound."""
        s = self.settings
        limits = [s.head_timeout_ms or math.inf]
        if self.call.stream and s.readiness_timeout_ms:
            limits.append(max(s.readiness_max_timeout_ms, s.readiness_timeout_ms))
        limit = min(limits)
        return 0 if math.isinf(limit) else int(limit)


def readiness_budget_ms(call: ModelCall, s: Settings) -> int:
    """How long a stream may take to become useful, by the size of what was asked (`ST-14` to `ST-20`)."""
    budget = s.readiness_timeout_ms
    budget += 45_000 if call.history_items > 400 else 20_000 if call.history_items > 150 else 0
    budget += 15_000 if call.tools >= 15 else 0
    budget += 45_000 if call.body_bytes > 750_000 else 20_000 if call.body_bytes > 250_000 else 0
    return min(budget, max(s.readiness_max_timeout_ms, s.readiness_timeout_ms))
