"""One finished request as `omniroute explain` tells it: every candidate, every attempt, every exclusion.

JSON, so that a store can keep it. No body, no header, no credential: ids, names, statuses, times, and the upstream's error in
the short form that logs show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exchange import Exchange
from .learning import on_one_line
from .model import Attempt, Exclusion, ModelCall, Story, Target

MOST_CANDIDATES = 64
MOST_ATTEMPTS = 64


def record_of(ex: Exchange, *, good: bool, now: float) -> dict[str, Any]:
    """The whole story of a request that was not plain sailing."""
    served = ex.attempt if good else None
    return {
        **brief(ex.id, ex.call, served, status=ex.status, good=good, started_at=ex.started_at, ended_at=now),
        "outcome": _outcome(ex, good),
        "attemptCount": ex.attempts,
        "heldMs": round(sum(ex.waited) * 1000),
        "candidates": [_target(target) for target in ex.targets[:MOST_CANDIDATES]],
        "attempts": [*(_failure(story) for story in ex.stories[:MOST_ATTEMPTS]), *_last(ex, good, now)],
        "exclusions": [_exclusion(exclusion) for exclusion in [*ex.skipped.values()][:MOST_CANDIDATES]],
    }


def brief(
    id: str, call: ModelCall, attempt: Attempt | None, *, status: int, good: bool, started_at: float, ended_at: float
) -> dict[str, Any]:
    """What a list of requests shows; all there is of one that succeeded at once. Times are epoch milliseconds."""
    return {
        "id": id,
        "startedAt": round(started_at * 1000),
        "endedAt": round(ended_at * 1000),
        "provider": call.provider,
        "model": on_one_line(call.model),
        "dialect": call.dialect,
        "stream": call.stream,
        "agent": call.agent,
        "status": status,
        "good": good,
        "outcome": "answered" if good else "client left",
        "connectionId": attempt.target.connection.id if attempt is not None else None,
        "attemptCount": attempt.number if attempt is not None else 0,
        "heldMs": 0,
        "candidates": [],
        "attempts": [],
        "exclusions": [],
    }


def _outcome(ex: Exchange, good: bool) -> str:
    if good:
        return "answered"
    if ex.committed:
        return "broke off" if ex.stories else "client left"
    return "gave up" if ex.status else "client left"


def _last(ex: Exchange, good: bool, now: float) -> list[dict[str, Any]]:
    """The attempt whose answer the client got, or was waiting for."""
    attempt = ex.attempt
    if attempt is None or (ex.stories and ex.stories[-1].attempt.number == attempt.number):
        return []
    return [_attempt(attempt, now) | {"kind": "ok" if good else None, "status": ex.status or None}]


def _failure(story: Story) -> dict[str, Any]:
    verdict, answer = story.verdict, story.answer
    hint = verdict.retry_after
    restated = verdict.restatement
    return _attempt(story.attempt, story.ended_at) | {
        "kind": verdict.kind,
        "status": answer.status or None,
        "fault": answer.fault,
        "restatedTo": restated.status if restated is not None else None,
        "restatedBy": restated.rule.id if restated is not None else None,
        "scope": verdict.scope,
        "reason": verdict.reason,
        "terminal": verdict.terminal,
        "rule": verdict.rule.id,
        "ruleAt": f"{verdict.rule.file}:{verdict.rule.line}" if verdict.rule.file else None,
        "retryAfterMs": round(hint.seconds * 1000) if hint is not None else None,
        "hint": hint.source if hint is not None else None,
        # An upstream may repeat the credential that it refuses; ours is known and masked, a client's is not ours to keep.
        "message": None if story.attempt.target.connection.own else on_one_line(verdict.message) or None,
    }


def _attempt(attempt: Attempt, ended_at: float) -> dict[str, Any]:
    return {
        "number": attempt.number,
        "tries": attempt.tries,
        **_target(attempt.target),
        "ms": max(0, round((ended_at - attempt.started_at) * 1000)),
    }


def _target(target: Target) -> Mapping[str, Any]:
    connection = target.connection
    return {"connectionId": connection.id, "provider": connection.provider, "model": on_one_line(target.model)}


def _exclusion(exclusion: Exclusion) -> dict[str, Any]:
    return {
        **_target(exclusion.target),
        "label": exclusion.label,
        "detail": on_one_line(exclusion.detail) or None,
        "until": round(exclusion.until * 1000) if exclusion.until is not None else None,
    }
