"""The facts beside our own errors: who was tried, who was passed by and until when, and what helps (`CT-107` to `CT-116`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from omniroute_addon.exchange import Exchange
from omniroute_addon.model import Exclusion, Story, Target

_MOST: Final = 64
"""`CT-109`."""
_LONGEST_S: Final = 3600
_TERMINAL: Final[Mapping[str, tuple[str, str]]] = {
    "all_targets_cooling_down": ("all_targets_cooling_down", "wait"),
    "all_targets_excluded": ("all_targets_skipped", "switch-combo"),
    "no_connection": ("no_executable_targets", "switch-combo"),
    "connections_rejected": ("all_accounts_inactive", "switch-combo"),
    "upstream_unreachable": ("all_models_failed", "try-auto"),
    "upstream_timeout": ("all_models_failed", "try-auto"),
    "upstream_error": ("all_models_failed", "try-auto"),
}
"""Our code -> terminal reason and recovery action (`CT-111`)."""
_STEPS: Final[Mapping[str, str]] = {
    "wait": "Wait, then send the request again; `omniroute status` shows what rests.",
    "switch-combo": "Renew or add a connection; `omniroute status` shows which are out, and why.",
    "try-auto": "Send the request again later, or ask for another model.",
}


def diagnostics(ex: Exchange, code: str, wait_s: float | None, now: float) -> dict[str, Any]:
    """JSON for the client. `wait_s` is the earliest way out. No upstream's text, no credential."""
    excluded = [_excluded(e, now) for e in ex.exclusions[:_MOST]]
    found: dict[str, Any] = {
        # Nothing was dispatched: everybody who was passed by (`CT-115`).
        "poolSize": len(ex.targets) if ex.stories else max(len(ex.targets), len({e.target.key for e in ex.exclusions})),
        "attempted": len(ex.stories),
        "excluded": excluded,
        "attemptOrder": [_named(story.attempt.target) for story in ex.stories[:_MOST]],
        "attempts": [_attempt(story) for story in ex.stories[:_MOST]],
    }
    if code not in _TERMINAL:
        return found
    reason, action = _TERMINAL[code]
    if ex.stories and all(s.verdict.kind in ("quota_exhausted", "credits_exhausted") for s in ex.stories):
        reason, action = "quota_exhausted", "switch-combo"  # CT-108
    recovery: dict[str, Any] = {"action": action, "next_step": _STEPS[action]}
    if action == "wait" and wait_s is not None:
        recovery["retry_after_seconds"] = min(_LONGEST_S, max(1, math.ceil(wait_s)))
    return {**found, "terminalReason": reason, "recovery": recovery}


def _excluded(exclusion: Exclusion, now: float) -> dict[str, Any]:
    """Beyond the reference: which connection, which rule or timer, and when it ends."""
    until = exclusion.until
    return {
        "provider": exclusion.target.connection.provider[:64],
        "model": exclusion.target.model[:96],
        "reason": exclusion.label[:64],
        "connection": exclusion.target.connection.id,
        "detail": exclusion.detail,
        "until": until,
        "retry_after_ms": max(0, round((until - now) * 1000)) if until is not None else None,
    }


def _attempt(story: Story) -> dict[str, Any]:
    verdict = story.verdict
    who = story.attempt.target.connection.id
    return {"connection": who, "kind": verdict.kind, "status": verdict.status, "rule": verdict.rule.id}


def _named(target: Target) -> str:
    return f"{target.connection.provider[:64]}/{target.model[:96]}"
