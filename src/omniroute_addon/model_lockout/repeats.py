"""Failures that lock only when they repeat: three within ten minutes on one key (`ML-21`). Only in memory."""

from __future__ import annotations

from typing import Final

TIMES: Final = 3
WITHIN_S: Final = 600.0
_MOST: Final = 1_000


class Repeats:
    """Points in time by key, newest key last."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, ...]] = {}

    def __repr__(self) -> str:
        return f"<Repeats keys={len(self._seen)}>"

    def enough(self, key: str, now: float) -> bool:
        """Note one; whether it is the third within the time. Then counting begins anew."""
        seen = (*(at for at in self._seen.pop(key, ()) if 0 <= now - at <= WITHIN_S), now)
        if len(seen) >= TIMES:
            return True
        self._seen[key] = seen
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]
        return False
