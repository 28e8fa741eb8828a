"""The sentences of our own errors."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import groupby

from omniroute_addon.exchange import Exchange
from omniroute_addon.model import Story

from .codes import CODES


def sentence(ex: Exchange, code: str, story: Story | None) -> str:
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


def time_of(wait_s: float, now: float) -> str:
    """`A connection is free again in 59 min, at 2026-11-30 23:59:10 UTC.`"""
    seconds = max(1, math.ceil(wait_s))
    minutes = math.ceil(seconds / 60)
    told = f"{seconds} s" if seconds < 120 else f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
    return f"A connection is free again in {told}, at {at(wait_s, now):%Y-%m-%d %H:%M:%S} UTC."


def at(wait_s: float, now: float) -> datetime:
    """The whole second at which the wait is over."""
    return datetime.fromtimestamp(math.ceil(now + wait_s), UTC)
