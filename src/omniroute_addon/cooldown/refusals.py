"""How often in a row an upstream refused the way of calling (`CC-60`, `CC-62`). Only in memory."""

from __future__ import annotations

from collections.abc import Container

from omniroute_addon.connection_key import is_guest


class Refusals:
    """Streaks by connection key. Refusals are told late, at the end of a request, so each comes with its own time."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._ended_at: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Refusals {self._counts}>"

    def count(self, key: str, at: float) -> int:
        """One more refusal, at `at` (epoch seconds); the streak with it. One from before the last other answer is none."""
        if at >= self._ended_at.get(key, 0.0):
            self._counts[key] = self._counts.get(key, 0) + 1
            return self._counts[key]
        return 0

    def ended(self, key: str, at: float) -> None:
        """Another answer came: the streak is over (`CC-51`)."""
        if not is_guest(key):  # a client's own credential is never banned, so nobody counts
            self._counts.pop(key, None)
            self._ended_at[key] = at

    def keep(self, keys: Container[str]) -> None:
        """Forget all others."""
        self._counts = {k: v for k, v in self._counts.items() if k in keys}
        self._ended_at = {k: v for k, v in self._ended_at.items() if k in keys}
