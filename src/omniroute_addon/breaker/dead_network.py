"""Is it many providers, or our own network? ("Beyond the reference" of `spec/01`.)

A cable that is pulled out looks like a network failure of every provider at once and would open every breaker. While
several providers had nothing but network failures lately, such a failure says nothing about any of them.
"""

from __future__ import annotations

from typing import Final

WITHIN_MS: Final = 10_000


class DeadNetwork:
    """What was heard of each provider lately. Servers on this machine or network are no witnesses: leave them out."""

    def __init__(self) -> None:
        self._failed_at: dict[str, int] = {}
        self._answered_at: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<DeadNetwork failed={sorted(self._failed_at)}>"

    def answered(self, provider: str, now_ms: int) -> None:
        """There was an answer of any status: the network lives."""
        self._answered_at[provider] = now_ms

    def failed(self, provider: str, now_ms: int) -> None:
        """There was no answer at all."""
        self._failed_at[provider] = now_ms

    def silent(self, now_ms: int) -> list[str]:
        """Providers that had only network failures in the last ten seconds."""
        return [
            provider
            for provider, at in self._failed_at.items()
            if _lately(at, now_ms) and not _lately(self._answered_at.get(provider), now_ms)
        ]


def _lately(at: int | None, now_ms: int) -> bool:
    return at is not None and 0 <= now_ms - at < WITHIN_MS
