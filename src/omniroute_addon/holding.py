"""A call is held until something that could serve it is usable again. How long a plugin says; what follows is decided here.

Held means: no permit, no connection, and every two seconds a look whether it still must be (`CW` section 5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .client_patience import patience_s
from .consequences import may_come_back
from .exchange import Exchange, Pause
from .learning import by_agent, on_one_line
from .model import Exclusion
from .plugin_host import PluginHost

log = logging.getLogger(__name__)

_LOOK_S = 2.0
_EARLY_S = 0.5
"""What ends so shortly before its time ends at its time: those who wait for it are spread behind that."""
_MAX_WAITS = 100
"""Rounds of the hook `wait` in one call: a plugin that always says 'in 0 s' must not spin for ever."""


def begin_hold(ex: Exchange, barred: Sequence[Exclusion], plugins: PluginHost, now: float) -> Pause | None:
    """Ask the hook `wait`; None: nobody wants this call held. `barred`: the exclusions of all its targets, as of now."""
    if len(ex.waited) >= _MAX_WAITS:
        return None
    seconds = plugins.first(
        "wait",
        call=ex.call,
        targets=ex.targets,
        exclusions=tuple(barred),
        stories=tuple(ex.stories),
        waited=tuple(ex.waited),
        patience_s=patience_s(
            ex.profile, ex.call, ex.incoming, started_at=ex.started_at, opened_at=ex.opened_at, now=now
        ),
        now=now,
    )
    if seconds is None:
        return None
    seconds = max(0.0, min(float(seconds), ex.deadline_at - now))
    ex.waited.append(seconds)
    ex.held_until, ex.held_for = now + seconds, {e.target.key: e.until for e in barred if e.until is not None}
    # A new pass: what may have come back since is asked again (`CW-31`).
    ex.spent = {s.attempt.target.key for s in ex.stories if not may_come_back(s.verdict)}
    ex.exclusions = ()
    log.info(
        "held: provider=%s model=%s seconds=%.2f waits=%d%s",
        *(ex.call.provider, on_one_line(ex.call.model), seconds, len(ex.waited), by_agent(ex)),
    )
    return Pause(seconds=min(seconds, _LOOK_S))


def go_on_holding(ex: Exchange, barred: Callable[[], Sequence[Exclusion]], now: float) -> Pause | None:
    """The next piece of the running wait; None when it is over.

    Also over when something that was waited for is usable before its time: a person reset it, or it served another call.
    """
    if now < ex.held_until:
        early = {key for key, until in ex.held_for.items() if now < until - _EARLY_S}
        if not early or not early - {e.target.key for e in barred()}:
            return Pause(seconds=min(ex.held_until - now, _LOOK_S))
    ex.held_until = 0.0
    return None
