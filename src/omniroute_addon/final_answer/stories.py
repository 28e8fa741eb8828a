"""What became of a call that nobody served: which of its failures says most, and when something may work again."""

from __future__ import annotations

import math

from omniroute_addon.exchange import Exchange
from omniroute_addon.model import Kind, Story

_USEFULNESS: tuple[Kind, ...] = (
    "rate_limit",
    "concurrency_limited",
    "overloaded",
    "quota_exhausted",
    "server_error",
    "timeout",
    "network",
    "model_access_denied",
    "model_not_found",
    "credits_exhausted",
    "request_rejected",
    "forbidden",
    "auth_expired",
    "auth_invalid",
    "account_banned",
)
"""Most useful first: an error that ends by itself tells the client to come back, one about a key of ours does not."""
_ACCOUNT_TROUBLE = frozenset({"auth_expired", "auth_invalid", "account_banned", "forbidden"})
MAY_WAIT = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Statuses that say: come back."""


def of_a_pool(ex: Exchange) -> bool:
    """The operator's own connections had a part in it: what is said is about them, too, not only about the client."""
    seen = (*ex.targets, *(s.attempt.target for s in ex.stories), *(e.target for e in ex.exclusions))
    return any(not target.connection.own for target in seen)


def about_a_key_of_ours(story: Story) -> bool:
    """The client's own login is not meant. A 401 is taken for that whatever else it says."""
    verdict = story.verdict
    meant = verdict.status == 401 or (verdict.status == 403 and verdict.kind in _ACCOUNT_TROUBLE)
    return meant and not story.attempt.target.connection.own


def others_rest(ex: Exchange, story: Story) -> bool:
    """This failure does not end by itself, but another connection comes back: that is what the client must know."""
    waits = any(e.until is not None for e in ex.exclusions)
    return waits and story.verdict.retry_other and story.verdict.status not in MAY_WAIT


def most_useful(ex: Exchange) -> Story | None:
    if not ex.stories:
        return None
    last = ex.stories[-1]
    if not last.verdict.retry_other:  # about the request itself: no other answer says more
        return last

    def rank(story: Story) -> tuple[int, float, int]:
        kind, hint = story.verdict.kind, story.verdict.retry_after
        place = _USEFULNESS.index(kind) if kind in _USEFULNESS else len(_USEFULNESS)
        # Among equals: the one that comes back first, then the latest.
        return place, hint.seconds if hint else math.inf, -story.attempt.number

    # Who could not be reached at first and then answered is known by the answer.
    answered = {s.attempt.target.key for s in ex.stories if s.answer.status}
    return min((s for s in ex.stories if s.answer.status or s.attempt.target.key not in answered), key=rank)


def earliest_way_out(ex: Exchange, now: float) -> float | None:
    """Seconds until something may work again, as far as anybody said so."""
    waits = [e.until - now for e in ex.exclusions if e.until is not None]
    for story in ex.stories:
        verdict = story.verdict
        if verdict.terminal:
            continue
        if verdict.retry_after:
            waits.append(story.ended_at + verdict.retry_after.seconds - now)
        elif verdict.restatement and verdict.restatement.retry_after_s is not None:
            waits.append(story.ended_at + verdict.restatement.retry_after_s - now)
    return max(0.0, min(waits)) if waits else None
