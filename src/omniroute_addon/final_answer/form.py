"""In which form this client is told: the facts of its profile against the way out (`clients.md`, 5 and section 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from omniroute_addon.exchange import Exchange
from omniroute_addon.model import AnswerForm

from .stories import MAY_WAIT, of_a_pool

HONEST = AnswerForm()
"""Everything is said as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """A final answer's status and time as they are sent."""

    form: AnswerForm
    status: int
    retry_after_s: int | None
    """Whole seconds, rounded up (`SR-23`); None: no header."""
    told_s: float | None
    """The true wait, for the message; None when nobody knows one or when the answer is none to wait for."""
    ours: bool
    """The upstream's bytes do not fit any more: the answer is written anew."""


def put(ex: Exchange, *, status: int, wait_s: float | None, ends: bool, survival: bool) -> Put:
    """The form for an answer with this true status.

    `ends`: it ends by itself some time, also when nobody knows when; an answer that does not is never `near`.
    """
    waits = status in MAY_WAIT
    wait_s = wait_s if waits else None
    form = _form(ex, wait_s, ends=ends) if survival and waits and of_a_pool(ex) else HONEST
    sent = form.statuses.get(status, status)
    shown = _shown(form, wait_s, unknown=waits and ends)
    rewritten = sent != status or (wait_s is not None and shown is not None and shown < wait_s)
    worded = sent == 429 and bool(form.type or form.code or form.details)
    return Put(
        form=form,
        status=sent,
        retry_after_s=None if shown is None else math.ceil(shown),
        told_s=wait_s,
        ours=rewritten or worded or form.own_words,
    )


def _form(ex: Exchange, wait_s: float | None, *, ends: bool) -> AnswerForm:
    profile = ex.profile
    near = ends and profile.reach_s > 0 and (wait_s is None or wait_s <= profile.reach_s)
    return profile.near if near else profile.far


def _shown(form: AnswerForm, wait_s: float | None, *, unknown: bool) -> float | None:
    if not form.retry_after:
        return None
    if wait_s is None:
        return form.retry_after_unknown_s if unknown else None
    return wait_s if form.retry_after_max_s is None else min(wait_s, form.retry_after_max_s)
