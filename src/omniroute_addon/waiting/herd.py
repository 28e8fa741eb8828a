"""Requests that wait for the same moment, spread behind it (`CW-37`, `A37`). Pure."""

from __future__ import annotations

_ALONE_S = 0.25
"""Width of the spread for one; each other one that wakes then adds as much."""
_WIDEST_S = 10.0
_SAME_MOMENT_S = 1.0


class Herd:
    """When the requests that are held will wake. One whose client left is forgotten when its time has come."""

    def __init__(self) -> None:
        self._wakes: list[float] = []

    def __repr__(self) -> str:
        return f"<Herd waiting={len(self._wakes)}>"

    def spread(self, wakes_at: float, *, now: float, chance: float) -> float:
        """Seconds behind `wakes_at` (epoch seconds) at which one more shall wake; `chance` is from 0 to 1."""
        self._wakes = [at for at in self._wakes if at > now]
        beside = sum(abs(at - wakes_at) <= _SAME_MOMENT_S for at in self._wakes)
        self._wakes.append(wakes_at)
        return chance * min(_ALONE_S * (1 + beside), _WIDEST_S)
