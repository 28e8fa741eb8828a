"""Finished requests, for a bounded time and size: what `omniroute explain` looks into.

A request that succeeded at once costs one tuple in a ring in memory; only one with something to tell, a failure or a target
that was passed by, is written down whole, in a journal of the store that survives a restart.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import Any

from .core import Core
from .exchange import Exchange
from .history_settings import HistorySettings
from .model import Attempt, ModelCall
from .request_record import brief, record_of
from .store import Journal

type _Smooth = tuple[str, ModelCall, Attempt | None, int, bool, float, float]
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Without letters that are taken for others when somebody reads an id aloud."""
JOURNAL = "requests"


class History:
    """One per engine. Reads and writes on the event loop only."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._smooth: deque[_Smooth] = deque(maxlen=0)
        self._settings: HistorySettings | None = None
        self._journal: Journal | None = None
        # Ids of one run begin alike; those of two runs hardly ever do, and both may be in one journal.
        number = int(core.clock.chance() * 32**5)
        self._run = "".join(_ALPHABET[number >> 5 * place & 31] for place in range(5))
        self._numbers = count(1)
        self._use(core.config.settings.history)

    def __repr__(self) -> str:
        return f"<History run={self._run} smooth={len(self._smooth)} journal={self._journal!r}>"

    def new_id(self) -> str:
        """`k3f9x-12`: short enough to type."""
        return f"{self._run}-{next(self._numbers)}"

    def note(self, ex: Exchange, *, good: bool, now: float) -> None:
        """A request is over. Cheap where nothing happened."""
        settings = self._core.config.settings.history
        if settings is not self._settings:
            self._use(settings)
        if ex.stories or ex.skipped or not (good or ex.attempt):
            if self._journal is not None:
                self._journal.append(record_of(ex, good=good, now=now))
        else:
            self._smooth.append((ex.id, ex.call, ex.attempt, ex.status, good, ex.started_at, now))

    def recent(self, limit: int = 20, *, eventful: bool = False) -> list[dict[str, Any]]:
        """The newest requests, newest first; `eventful`: only those with a failure or something that was passed by."""
        told = [dict(value) for value in self._journal.recent(limit)] if self._journal is not None else []
        if not eventful:
            smooth = [_shown(one) for one, _ in zip(reversed(self._smooth), range(limit), strict=False)]
            told = sorted([*told, *smooth], key=lambda record: -record["endedAt"])[:limit]
        return told

    def find(self, id: str) -> dict[str, Any] | None:
        """The request with this id, or None."""
        found = self._journal.find(id) if self._journal is not None else None
        if found is not None:
            return dict(found)
        return next((_shown(one) for one in self._smooth if one[0] == id), None)

    def _use(self, settings: HistorySettings) -> None:
        self._settings = settings
        self._smooth = deque(self._smooth, maxlen=settings.successes)
        self._journal = None
        if settings.keep_ms and settings.keep_bytes:
            store = self._core.store
            self._journal = store.journal(JOURNAL, keep_s=settings.keep_ms / 1000, keep_bytes=settings.keep_bytes)


def _shown(one: _Smooth) -> dict[str, Any]:
    id, call, attempt, status, good, started_at, ended_at = one
    return brief(id, call, attempt, status=status, good=good, started_at=started_at, ended_at=ended_at)
