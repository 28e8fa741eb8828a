"""From the deciding rule to the verdict: the kind's row, what the rule overrides, what the answer itself says."""

from __future__ import annotations

import logging
from datetime import UTC, tzinfo
from typing import Final

from omniroute_addon.model import Answer, Kind, Restatement, RetryAfter, RuleRef, Verdict

from .answer_view import AnswerView
from .kinds import BREAKER_STATUSES, BY_KIND, BY_REASON
from .retry_after import find_retry_after
from .rules import Rule
from .sanitise import sanitised
from .schema import ClassifyRule

log = logging.getLogger(__name__)

_NO_RULE: Final = RuleRef(id="no-rule")
_NEVER_WAITS: Final[frozenset[Kind]] = frozenset({"ok", "invalid_request", "context_overflow", "content_policy"})
"""A number in these answers is about the request: no time to wait is read from them."""


def kind_of(rule: ClassifyRule) -> Kind:
    return rule.kind or BY_REASON[rule.reason or "unknown"]


def status_for(kind: Kind) -> int:
    status = BY_KIND[kind].status
    return status if status >= 400 else 502


def build_verdict(
    answer: Answer,
    seen: AnswerView,
    rule: Rule[ClassifyRule] | None,
    restatement: Restatement | None,
    now: float,
    zone: tzinfo | None = None,
    pause: ClassifyRule | None = None,
) -> Verdict:
    """`zone` is the provider's, where it is known: of the times that its sentences and our rules state without one.

    `pause` is the rule whose duration holds.
    """
    written = rule.written if rule else ClassifyRule.model_construct(id="no-rule", when=[], kind=_fallback(seen.status))
    kind = kind_of(written)
    row = BY_KIND[kind]
    retry_after = None if kind in _NEVER_WAITS else _wait(answer, now, zone or UTC)
    if restatement is not None and retry_after is not None:
        restatement = _with_wait(restatement, retry_after)
    return Verdict(
        kind=kind,
        scope=written.scope or row.scope,
        retry_other=_either(written.retry_other, row.retry_other) and not seen.output,
        terminal=_either(written.terminal, row.terminal),
        breaker=_either(written.breaker, _counts(kind, seen)),
        status=written.status or _client_status(kind, seen, restatement),
        reason=written.reason or row.reason,
        rule=rule.ref if rule else _NO_RULE,
        retry_after=retry_after,
        restatement=restatement,
        retry_same=_either(written.retry_same, row.retry_same) and not seen.output,
        cooldown_s=_cooldown_s(pause, now, zone),
        repair=written.repair,
        message=sanitised(seen.message),
    )


def _either(said: bool | None, default: bool) -> bool:
    return default if said is None else said


def _cooldown_s(rule: ClassifyRule | None, now: float, zone: tzinfo | None) -> float | None:
    if rule is None:
        return None
    return rule.renews.seconds_until(now, zone) if rule.renews else rule.cooldown


def _wait(answer: Answer, now: float, zone: tzinfo) -> RetryAfter | None:
    try:
        return find_retry_after(answer, now=now, zone=zone)
    except Exception:  # a hostile time must not cost the verdict
        log.exception("the time to wait could not be read")
        return None


def _with_wait(restatement: Restatement, wait: RetryAfter) -> Restatement:
    """`SR-22`: the upstream's own wait comes before the rule's default."""
    return Restatement(
        from_status=restatement.from_status,
        status=restatement.status,
        retry_after_s=wait.seconds,
        rule=restatement.rule,
    )


def _counts(kind: Kind, seen: AnswerView) -> bool:
    """The provider's own failure counts by its status; inside a 2xx only a broken connection does (`FC-71`)."""
    if not BY_KIND[kind].upstream_fault:
        return False
    if 200 <= seen.sent_status < 300:
        return kind == "network"
    return seen.status in BREAKER_STATUSES


def _client_status(kind: Kind, seen: AnswerView, restatement: Restatement | None) -> int:
    if restatement is not None:
        return restatement.status
    if seen.status == 0 or (200 <= seen.status < 300 and BY_KIND[kind].upstream_fault):
        return BY_KIND[kind].status
    return seen.status


def _fallback(status: int) -> Kind:
    """The last word when no rule file is there at all."""
    if status == 0:
        return "network"
    if status < 400:
        return "ok"
    return "server_error" if status >= 500 else "rate_limit" if status == 429 else "invalid_request"


def verdict_by_status(answer: Answer, restatement: Restatement | None) -> Verdict:
    status = restatement.status if restatement else answer.status
    kind = _fallback(status)
    row = BY_KIND[kind]
    return Verdict(
        kind=kind,
        scope=row.scope,
        retry_other=row.retry_other,
        terminal=False,
        breaker=row.upstream_fault and status in BREAKER_STATUSES,
        status=status or row.status,
        reason=row.reason,
        rule=_NO_RULE,
        restatement=restatement,
    )
