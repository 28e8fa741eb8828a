"""What the client is told when every target is used up: the most useful upstream error, or an honest one of our own.

`design.md` §8: the upstream's own bytes where its status was true; the client's dialect and a stable `code` where we
speak ourselves; `Retry-After` of the earliest way out. A rejected key of a pool never reaches a client as 401: agents
take it for their own login and refresh or drop that (`clients.md`, "What the addon must do", 4).
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import Any

from .dialects import ClientError
from .exchange import Exchange, RawAnswer, Reply
from .model import Attempt, Kind, Restatement, Story
from .wire import Headers

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
_MAY_WAIT = frozenset({408, 429, 500, 502, 503, 504, 529})
_DROPPED = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"content-length", b"upgrade"}
)

CODES: dict[str, str] = {
    "all_targets_cooling_down": "Every connection that could serve this request is resting after earlier failures.",
    "all_targets_excluded": "No connection may be used for this request.",
    "no_connection": "The configuration names no connection that can serve this request.",
    "connections_rejected": "The provider rejected the credential of every configured connection.",
    "upstream_unreachable": "No connection could be made to the provider, or it was cut before an answer.",
    "upstream_timeout": "The provider did not answer in time.",
    "upstream_error": "The provider failed.",
    "websocket_not_offered": "Send the request over HTTP, with an event stream: there another connection can take over.",
    "internal_error": "omniroute failed internally; its log says why.",
}
"""Stable `code` of the errors that we write ourselves, and the sentence that goes with it."""


def final_reply(ex: Exchange, now: float) -> Reply:
    """The last answer for a call that no target served. `now` is epoch seconds."""
    story = _most_useful(ex)
    wait_s = _earliest_way_out(ex, now)
    if story is None:
        return _nobody(ex, wait_s)
    if _about_a_key_of_ours(story):
        return _ours(ex, status=503, code="connections_rejected", wait_s=wait_s, story=story)
    raw = ex.raw.get(story.attempt.number)
    if raw is None:
        if story.verdict.kind == "timeout":
            return _ours(ex, status=504, code="upstream_timeout", wait_s=wait_s, story=story)
        code = "upstream_unreachable" if story.verdict.kind == "network" else "upstream_error"
        return _ours(ex, status=max(story.verdict.status, 500), code=code, wait_s=wait_s, story=story)
    return _theirs(ex, story, raw, wait_s)


def _nobody(ex: Exchange, wait_s: float | None) -> Reply:
    """Nothing was tried. Only what ends by itself is a 429: an agent must not come back for ever to what does not."""
    if not ex.exclusions:
        return _ours(ex, status=503, code="no_connection", wait_s=None, story=None)
    resting = any(e.until is not None for e in ex.exclusions)
    if resting:
        return _ours(ex, status=429, code="all_targets_cooling_down", wait_s=wait_s, story=None)
    return _ours(ex, status=503, code="all_targets_excluded", wait_s=None, story=None)


def _about_a_key_of_ours(story: Story) -> bool:
    """The client's own login is not meant. A 401 is taken for that whatever else it says."""
    verdict = story.verdict
    meant = verdict.status == 401 or (verdict.status == 403 and verdict.kind in _ACCOUNT_TROUBLE)
    return meant and not story.attempt.target.connection.own


def _most_useful(ex: Exchange) -> Story | None:
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

    return min(ex.stories, key=rank)


def _earliest_way_out(ex: Exchange, now: float) -> float | None:
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


def _theirs(ex: Exchange, story: Story, raw: RawAnswer, wait_s: float | None) -> Reply:
    """The upstream's bytes; where its status lied, its words in the shape that belongs to the true status (`SR-21`)."""
    verdict = story.verdict
    hidden_overflow = verdict.kind == "context_overflow" and raw.status >= 500
    if verdict.status != raw.status or hidden_overflow:
        return _ours(ex, status=verdict.status, code="", wait_s=wait_s, story=story, message=verdict.message)
    headers = [(k, v) for k, v in raw.headers if k.lower() not in _DROPPED]
    said = next((v for k, v in headers if k.lower() == b"retry-after"), None)
    if wait_s is not None and verdict.status in _MAY_WAIT and verdict.retry_other and _sooner(said, wait_s, ex):
        headers = [(k, v) for k, v in headers if k.lower() not in (b"retry-after", b"retry-after-ms")]
        headers.append((b"retry-after", _seconds(wait_s)))
    headers.append((b"content-length", str(len(raw.body)).encode()))
    return Reply(
        status=verdict.status,
        headers=(*headers, *_story_marks(ex, story)),
        body=raw.body,
        attempt=story.attempt.number,
    )


def _sooner(said: bytes | None, wait_s: float, ex: Exchange) -> bool:
    """The upstream's own `Retry-After` stands unless it said none, or another connection is free earlier."""
    if said is None:
        return True
    if len({s.attempt.target.connection.id for s in ex.stories}) + len(ex.exclusions) < 2:
        return False
    try:
        return wait_s < float(said)
    except ValueError:
        return False


def _ours(
    ex: Exchange, *, status: int, code: str, wait_s: float | None, story: Story | None, message: str = ""
) -> Reply:
    error = ex.dialect.shown(_error(ex, status=status, code=code, wait_s=wait_s, story=story, message=message))
    body = ex.dialect.error_body(error)
    headers: list[tuple[bytes, bytes]] = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if wait_s is not None and error.status in _MAY_WAIT:
        headers.append((b"retry-after", _seconds(wait_s)))
    return Reply(status=error.status, headers=(*headers, *_story_marks(ex, story)), body=body)


def _error(
    ex: Exchange, *, status: int, code: str, wait_s: float | None, story: Story | None, message: str
) -> ClientError:
    return ClientError(
        status=status,
        code=code,
        kind=story.verdict.kind if story else "",
        message=message or _sentence(ex, code or "upstream_error", story),
        retry_after_s=wait_s,
        diagnostics=_diagnostics(ex) if code else None,
    )


def _sentence(ex: Exchange, code: str, story: Story | None) -> str:
    """What happened, in words that help whoever reads them in an agent's window."""
    parts = [CODES[code]]
    if story is not None and code.startswith("upstream_") and story.verdict.message:
        parts.append(story.verdict.message.rstrip(".") + ".")
    if ex.stories:
        tries = groupby(f"{s.attempt.target.connection.id}: {s.verdict.kind}" for s in ex.stories)
        told = [f"{text} ({count} times)" if (count := len([*same])) > 1 else text for text, same in tries]
        parts.append(f"Tried {len(ex.stories)}: {', '.join(told[-5:])}.")
    else:
        barred = [
            f"{e.target.connection.id}: {e.label}" + (f" ({e.detail})" if e.detail else "") for e in ex.exclusions
        ]
        parts += [f"{', '.join([*dict.fromkeys(barred)][:5])}."] if barred else []
    return " ".join(parts)


def _diagnostics(ex: Exchange) -> dict[str, Any]:
    return {
        "attempts": [
            {
                "connection": s.attempt.target.connection.id,
                "kind": s.verdict.kind,
                "status": s.verdict.status,
                "rule": s.verdict.rule.id,
            }
            for s in ex.stories
        ],
        "excluded": [
            {"connection": e.target.connection.id, "reason": e.label, "detail": e.detail, "until": e.until}
            for e in ex.exclusions
        ],
    }


def marks(ex: Exchange, attempt: Attempt | None, restatement: Restatement | None = None) -> Headers:
    """Response headers that say where an answer came from (`design.md` §8)."""
    out = [(b"x-omniroute-attempts", str(ex.attempts).encode())]
    if ex.id:
        out.append((b"x-omniroute-request", ex.id.encode()))
    if attempt is not None:
        out.append((b"x-omniroute-connection", attempt.target.connection.id.encode()))
    if restatement is not None:
        out.append((b"x-omniroute-restated-from", str(restatement.from_status).encode()))
    return tuple(out)


def _story_marks(ex: Exchange, story: Story | None) -> Headers:
    return marks(ex, story.attempt, story.verdict.restatement) if story else marks(ex, None)


def _seconds(wait_s: float) -> bytes:
    """Whole seconds, rounded up (`SR-23`)."""
    return str(math.ceil(wait_s)).encode()


def broken_engine(ex: Exchange) -> Reply:
    """Our own fault, told honestly in the client's dialect. Nothing is asked of the engine for this call any more."""
    ex.final = True
    return _ours(ex, status=502, code="internal_error", wait_s=None, story=None)
