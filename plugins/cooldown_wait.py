"""Cooldown wait: a request is held while everything that could serve it rests only briefly (`spec/09`).

The client does not see a 429 that would have healed by itself. Held is what ends by itself and soon, within the client's
own patience: a client that hangs up while it waits is worse off than one that was told when to come back. What is held
holds nothing: no permit, no connection.

Requests that wait for the same moment are spread behind it (`CW-37`), the wider the more they are, so that a reset is not
met by all of them at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import Exclusion, ModelCall, Story, Target
from omniroute_addon.waiting.decision import decide
from omniroute_addon.waiting.herd import Herd
from omniroute_addon.waiting.ways_out import ways_out

log = logging.getLogger(__name__)


class CooldownWait:
    """The mechanism. It only remembers when the requests that it holds will wake."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._herd = Herd()

    @hookimpl
    def start(self, core: Core) -> None:
        self._core = core

    @hookimpl
    def wait(
        self,
        call: ModelCall,
        targets: Sequence[Target],
        exclusions: Sequence[Exclusion],
        stories: Sequence[Story],
        waited: Sequence[float],
        patience_s: float | None,
        now: float,
    ) -> float | None:
        core = self._core
        if core is None:
            return None
        ways = ways_out(targets, exclusions, stories, passes=len(waited), now=now)
        decision = decide(ways, waited=waited, patience_s=patience_s, settings=core.config.settings.cooldown_wait)
        if not decision.wait:
            if ways:
                told = (call.provider, decision.planned_s, decision.why)
                log.info("not held: provider=%s planned_s=%.2f why=%s", *told)
            return None
        spread = self._herd.spread(now + decision.planned_s, now=now, chance=core.clock.chance())
        return decision.planned_s + spread


plugin = CooldownWait()
