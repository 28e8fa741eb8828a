"""Permits that are counted in memory: after a restart nobody holds one."""

from __future__ import annotations


class MemoryPermits:
    """`Permits` of one process. A permit that was never given back ends by itself at its `until`."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, float]] = {}

    def __repr__(self) -> str:
        return f"<MemoryPermits keys={len(self._holders)} holders={sum(map(len, self._holders.values()))}>"

    def take(self, key: str, *, limit: int, holder: str, until: float, now: float) -> bool:
        holders = self._living(key, now)
        # Renewed even when the limit was lowered meanwhile: who holds a permit is at work.
        if holder not in holders and len(holders) >= limit:
            return False
        holders[holder] = until
        self._holders[key] = holders
        return True

    def give(self, key: str, *, holder: str) -> None:
        holders = self._holders.get(key)
        if holders is None:
            return
        holders.pop(holder, None)
        if not holders:
            del self._holders[key]

    def held(self, key: str, *, now: float) -> int:
        return len(self._living(key, now))

    def _living(self, key: str, now: float) -> dict[str, float]:
        """Holders whose time is not over; forgets the others."""
        holders = self._holders.get(key)
        if not holders:
            return {}
        for holder in [holder for holder, until in holders.items() if until <= now]:
            del holders[holder]
        if not holders:
            del self._holders[key]
        return holders
