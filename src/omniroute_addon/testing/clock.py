"""A clock that stands still until the test moves it."""

from __future__ import annotations

from omniroute_addon.clock import Clock


class ManualClock:
    """Epoch seconds under the test's hand.

    >>> manual = ManualClock(start=1000.0)
    >>> manual.clock.now()
    1000.0
    >>> manual.advance(2.5)
    1002.5
    """

    def __init__(self, start: float = 1_800_000_000.0, *, chance: float = 0.5) -> None:
        """`start`: epoch seconds. `chance`: what every draw in [0, 1) gives; change it at any time."""
        self.time = start
        self.chance = chance
        self.clock = Clock(now=lambda: self.time, chance=lambda: self.chance)

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> float:
        """Let time pass; returns the new time. Time never runs backwards here: see `set`."""
        if seconds < 0:
            raise ValueError(f"cannot advance by {seconds} s; use set() to turn the clock back")
        self.time += seconds
        return self.time

    def set(self, at: float) -> None:
        """Jump, also back: what a machine's clock does when it is corrected."""
        self.time = at

    def __repr__(self) -> str:
        return f"<ManualClock {self.time:.3f} chance={self.chance}>"
