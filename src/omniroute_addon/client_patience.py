"""How long the client of a call will wait still, by its profile (`clients.md` section 5). Pure.

A client that hangs up is worse off than one that was told when to come back, so what is held must end before that, with
time left for an answer to come.
"""

from __future__ import annotations

import math

from .model import ClientProfile, ModelCall
from .wire import Incoming

_SAID = (b"x-stainless-timeout", b"x-stainless-read-timeout", b"x-server-timeout")
"""Seconds without a byte that the client itself sends along: a program may have chosen less than its SDK's own."""
_FOR_THE_ANSWER_S = 15.0
"""Left for the attempt that follows a wait: many a model thinks that long before its first word."""
_MOST_OF_IT = 0.75
"""Of a short patience only as much is used."""


def patience_s(
    profile: ClientProfile,
    call: ModelCall,
    incoming: Incoming,
    *,
    started_at: float,
    opened_at: float | None,
    now: float,
) -> float | None:
    """Seconds for which this call may be held from now on; never negative, None without a limit.

    Before anything was sent the client waits for a head. Since `opened_at` it has one and gets keep-alives: then only
    real events count, and silence where keep-alives do not end it.
    """
    waits, since = profile.waits, started_at
    limit = min((s for s in (waits.head_s, _said(incoming)) if s is not None), default=None)
    if opened_at is not None:
        counts = waits.comments_count or profile.bears(call.dialect) == "ping"
        limits = [waits.event_s, None if counts else waits.idle_s]
        since, limit = opened_at, min((s for s in limits if s is not None), default=None)
    if limit is None:
        return None
    usable = max(limit - _FOR_THE_ANSWER_S, limit * _MOST_OF_IT)
    return max(0.0, since + usable - now)


def _said(incoming: Incoming) -> float | None:
    for name in _SAID:
        try:
            seconds = float(incoming.header(name))
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds > 0:
            return seconds
    return None
