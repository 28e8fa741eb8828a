"""How a connection's state follows from what happened: pure steps, one per event (`spec/03`).

Theory. A connection is *free*, *resting* until a point in time, or *out* until a person changes something:

    free ── recoverable failure ──► resting ── time passes (seen at the next read) ──► free
    free, resting ── terminal verdict ──► out          (never the client's own credential)
    free, resting ── success that started after the failure ──► free, level 0
    out as `expired` ── one of a few bounded tries succeeds ──► free

How long it rests, first that applies: what the upstream declared, when the class of the provider uses hints (`CC-21`) or
an allowance is used up (`FC-87`); a second, when it is busy only (`CC-42`); what the rule declares (`CC-18`); the ladder,
base × 2^level (`CC-14`). Many failures of one moment are one failure: while a connection rests its level stays, and only
a later declared deadline, the upstream's or a rule's, moves the end (`CC-36`, `CC-37`, `CC-39`, `A01`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from omniroute_addon.declared_wait import declared_wait_s
from omniroute_addon.failure_effects import OnConnection
from omniroute_addon.model import Category, Kind, Story, Verdict
from omniroute_addon.settings import Settings

from .rest import CLEAN, Rest, Status, error_text

_OUT_AS: dict[Kind, Status] = {
    "credits_exhausted": "credits_exhausted",
    "quota_exhausted": "credits_exhausted",
    "auth_invalid": "expired",
    "auth_expired": "expired",
}
"""`CC-58`; any other terminal kind is a ban."""
_NEVER_OUT: frozenset[Kind] = frozenset({"model_not_found", "network", "timeout", "overloaded", "concurrency_limited"})
"""`CC-70`, whatever a rule says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The figures that hold for one connection."""

    base_ms: int
    steps: int
    hints: bool
    cap_ms: int
    max_hint_ms: int
    concurrency_ms: int = 1_000
    forget_ms: int = 600_000
    forbidden_window_ms: int = 600_000

    @classmethod
    def of(cls, settings: Settings, category: Category) -> Policy:
        group = settings.connection_cooldown
        figures = getattr(group, category)
        return cls(
            base_ms=figures.base_cooldown_ms,
            steps=figures.max_backoff_steps,
            hints=figures.use_upstream_retry_hints,
            cap_ms=settings.longest_rest_ms,
            max_hint_ms=settings.max_hint_ms,
            concurrency_ms=group.concurrency_ms,
            forget_ms=group.forget_ladder_ms,
            forbidden_window_ms=group.forbidden_window_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What of a failed attempt matters here."""

    cause: str
    error: str
    error_type: str
    code: int
    rests: bool = True
    """False: written down only."""
    rule: str = ""
    declared_s: float = 0.0
    """The upstream's own wait, where hints count; 0 for none."""
    hint: str = ""
    """Where it said so."""
    fixed_s: float | None = None
    """The rule's duration."""
    busy: bool = False
    """Concurrency limit: healthy, only busy."""
    out: Status | None = None
    """Terminal state that it leads to; never for a client's own credential."""
    unexplained_403: bool = False
    """`out` only when it is the second one within a while."""
    never_cools: bool = False
    """The operator's `disable_cooling` (`CC-52`)."""
    least_s: float = 0.0
    """Stands in for a duration of 0 (`EL-14`)."""
    label: str = CLEAN.label


def wait_counts(verdict: Verdict, policy: Policy) -> bool:
    """`CC-20`; when an allowance renews is no hint but a fact, for every class (`FC-87`), though not under a 5xx (`FC-88`)."""
    return policy.hints or (verdict.kind == "quota_exhausted" and verdict.status < 500)


def failure_of(story: Story, effect: OnConnection, policy: Policy, *, shared_rule: bool) -> Failure:
    """A failed attempt as a `Failure`."""
    verdict, connection = story.verdict, story.attempt.target.connection
    counts = wait_counts(verdict, policy)
    declared = declared_wait_s(verdict.retry_after, max_hint_ms=policy.max_hint_ms) if counts else 0.0
    out: Status | None = None
    if verdict.terminal and verdict.scope == "connection" and not connection.own and verdict.kind not in _NEVER_OUT:
        out = _OUT_AS.get(verdict.kind, "banned")
    return Failure(
        cause=f"{verdict.kind} ({verdict.rule.id})",
        error=error_text(verdict.message),
        error_type=verdict.reason,
        code=verdict.status,
        rests=effect == "rest",
        rule=verdict.rule.id,
        declared_s=declared,
        hint=verdict.retry_after.source if declared and verdict.retry_after else "",
        fixed_s=verdict.cooldown_s,
        busy=verdict.kind == "concurrency_limited",
        out=out if effect == "rest" else None,
        unexplained_403=out is not None and verdict.kind == "forbidden" and shared_rule,
        never_cools=connection.disable_cooling,
    )


def ladder_s(policy: Policy, level: int) -> float:
    """Seconds for a failure at this level (`CC-14`, `CC-16`)."""
    steps: int = min(level, policy.steps)
    return min(policy.base_ms << steps, policy.cap_ms) / 1000


def after_failure(rest: Rest, failure: Failure, policy: Policy, now: float) -> Rest:
    """The state after a failed attempt; the decision table of `spec/03`, from its top."""
    if rest.terminal:
        return rest  # CC-38
    out = failure.out
    if out and failure.unexplained_403 and policy.forbidden_window_ms:
        second = rest.forbidden_at > 0 and now - rest.forbidden_at <= policy.forbidden_window_ms / 1000
        out = out if second and now >= rest.until else None
    if out:
        # A failure that follows another at once is still told as its own: people must see why the connection is out.
        return replace(_caused(_noted(rest, failure, now), failure), status=out, until=0.0, tries=0, tried_at=0.0)
    if now < rest.until:
        return _extended(rest, failure, now)
    noted = _noted(rest, failure, now)
    if failure.unexplained_403:
        noted = replace(noted, forbidden_at=now)
    if not failure.rests:
        return noted
    seconds, level = _duration(replace(rest, level=_level(rest, policy, now)), failure, policy)
    noted = replace(noted, level=level)
    seconds = seconds or failure.least_s
    if failure.never_cools or seconds <= 0:
        return replace(noted, until=0.0)  # CC-19, CC-52
    return replace(_caused(noted, failure), status="unavailable", until=now + seconds, label=failure.label)


def after_success(rest: Rest, *, started_at: float, tried: bool = False) -> Rest:
    """`CC-48` to `CC-50`. `tried`: the attempt was one of the bounded tries of an expired login (`CC-73`)."""
    if rest.terminal:
        return CLEAN if tried and rest.status == "expired" else rest
    return CLEAN if rest.failed_at <= started_at else rest


def next_try_at(rest: Rest, *, tries: int, base_ms: int) -> float | None:
    """When an expired login may be tried again by itself (`CC-71`); None when a person is needed."""
    if rest.status != "expired" or rest.tries >= tries:
        return None
    return (rest.tried_at or rest.failed_at) + (base_ms << rest.tries) / 1000


def after_try(rest: Rest, now: float) -> Rest:
    """Such a try is on its way: counted before its result is known, so that a crash grants none (`CC-72`)."""
    return replace(rest, tries=rest.tries + 1, tried_at=now)


def cooled(
    rest: Rest,
    *,
    until: float,
    error: str,
    error_type: str,
    cause: str,
    label: str,
    now: float,
    rule: str = "",
    hint: str = "",
) -> Rest:
    """Cooled for somebody else's failure (`EL-22` to `EL-25`): nobody who rests already or is out, and no level."""
    if rest.terminal or now < rest.until or until <= now:
        return rest
    return replace(
        rest,
        status="unavailable",
        until=until,
        failed_at=now,
        error=error_text(error),
        error_type=error_type,
        code=429,
        cause=cause,
        rule=rule,
        hint=hint,
        label=label,
    )


def _noted(rest: Rest, failure: Failure, now: float) -> Rest:
    """The error fields (`CC-19`, `CC-45`)."""
    return replace(rest, failed_at=now, error=failure.error, error_type=failure.error_type, code=failure.code)


def _extended(rest: Rest, failure: Failure, now: float) -> Rest:
    """One of many failures of the same moment: only a later declared deadline counts (`CC-36`, `CC-39`, `A01`)."""
    later = now + (failure.declared_s or failure.fixed_s or 0.0)
    if not failure.rests or failure.never_cools or later <= rest.until:
        return rest
    return replace(_caused(_noted(rest, failure, now), failure), until=later, label=failure.label)


def _caused(rest: Rest, failure: Failure) -> Rest:
    """Why it is as it is now."""
    hint = failure.hint if failure.declared_s else ""
    return replace(rest, cause=failure.cause, rule=failure.rule, hint=hint)


def _duration(rest: Rest, failure: Failure, policy: Policy) -> tuple[float, int]:
    """Seconds, and the level after it."""
    if failure.busy:
        return failure.declared_s or policy.concurrency_ms / 1000, rest.level  # CC-42, CC-43
    if failure.declared_s:
        return failure.declared_s, 0  # CC-21
    if failure.fixed_s is not None:
        return failure.fixed_s, rest.level  # CC-18
    return ladder_s(policy, rest.level), min(rest.level + 1, policy.steps)


def _level(rest: Rest, policy: Policy, now: float) -> int:
    """The level that counts: forgotten after a quiet while (`CC-85`)."""
    quiet_since = max(rest.until, rest.failed_at)
    return 0 if now - quiet_since > policy.forget_ms / 1000 else rest.level
