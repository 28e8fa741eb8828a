"""Time and chance, injected: the only module that reads the real ones for the core."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Epoch seconds and a number in [0, 1). Tests pass functions of their own (`omniroute_addon.testing.ManualClock`)."""

    now: Callable[[], float] = field(default=time.time)
    chance: Callable[[], float] = field(default=random.random)
