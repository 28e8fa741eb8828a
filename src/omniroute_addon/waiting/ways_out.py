"""When may each target of a call be asked again, and is that worth waiting for (`CW-9` to `CW-21`)? Pure.

Two sources tell: what excludes a target now (a cooldown, a lock), and what it answered inside this very call. A target is
worth waiting for only if everything that is known of it ends by itself and soon: one quota, one bad key, one open breaker
in between, and it is not. Among those that are, the earliest decides (`CW-19`).

A quota is waited for only where the upstream itself said in this call when it ends (`A25`: a session limit that resets in
90 s). A lock that merely says "quota" is not (`CW-12`): when that ends nobody knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omniroute_addon.model import Exclusion, Story, Target

REASONS = frozenset(
    {"rate_limit", "rate_limited", "transient", "overloaded", "server_error"}
    | {"rate_limit_exceeded", "model_capacity", "concurrency_limited"}
)
"""Reasons of locks that heal within moments (`CW-10`, `CW-11`). Whatever is missing or unknown does not (`CW-9`)."""
KINDS = frozenset({"rate_limit", "concurrency_limited", "overloaded"})
"""Answers after which the same target may well serve a moment later."""
LADDER_S = (5.0, 10.0, 20.0, 40.0)
"""An overload names no time and locks nobody (`A07`): so long until the next pass, the last one again and again (`A08`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """One target that will be usable again by itself."""

    target: Target
    in_s: float
    """From now, above 0."""
    why: str
    """A word for the log: the label of what excludes it, or the kind of its answer."""


def ways_out(
    targets: Sequence[Target],
    exclusions: Sequence[Exclusion],
    stories: Sequence[Story],
    *,
    passes: int,
    now: float,
) -> list[WayOut]:
    """Every target worth waiting for, the earliest first. `passes`: how often this call has waited already."""
    last = {story.attempt.target.key: story for story in stories}
    found = []
    for target in targets:
        barred = [e for e in exclusions if e.target.key == target.key]
        way = _way(target, barred, last.get(target.key), passes=passes, now=now)
        if way is not None:
            found.append(way)
    return sorted(found, key=lambda way: way.in_s)


def _way(target: Target, barred: Sequence[Exclusion], story: Story | None, *, passes: int, now: float) -> WayOut | None:
    declared = 0.0
    if story is not None:
        verdict = story.verdict
        hint = verdict.retry_after
        declared = story.ended_at + hint.seconds - now if hint is not None else 0.0
        if verdict.terminal or not (verdict.kind in KINDS or (verdict.kind == "quota_exhausted" and hint is not None)):
            return None
    for exclusion in barred:
        own_quota = story is not None and story.verdict.reason == exclusion.reason
        if exclusion.until is None or not (exclusion.reason in REASONS or own_quota):
            return None
    remaining = max((e.until - now for e in barred if e.until is not None), default=0.0)
    in_s = max(remaining, declared)
    if in_s <= 0 and story is not None and not barred and story.verdict.retry_after is None:
        in_s = LADDER_S[min(passes, len(LADDER_S) - 1)]
    if in_s <= 0:
        return None
    why = max(barred, key=lambda e: e.until or 0.0).label if barred else story.verdict.kind if story else ""
    return WayOut(target=target, in_s=in_s, why=why)
