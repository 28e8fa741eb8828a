"""Connection cooldown: a connection that failed rests for a while, others serve meanwhile (`spec/03`).

Theory. A connection is *free*, *resting* until a point in time, or *out* until a person changes something:

    free ── recoverable failure ──► resting ── time passes (seen at the next read) ──► free
    free, resting ── terminal verdict ──► out          (never the client's own credential)
    any but out ── success that started after the failure ──► free, level 0

How long it rests: what the upstream declared, when the class of the provider uses hints (`CC-20` to `CC-22`), else the
ladder: base × 2^level, the level capped (`CC-12` to `CC-17`). Many failures of one moment are one failure: while a
connection rests its level stays, and only a later declared deadline moves the end (`CC-36`, `CC-37`, `CC-39`, `A01`).

Not modelled here: limits of one model, overload of the provider (`A07`: never the account's fault), persistence.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import Attempt, Connection, Exclusion, Kind, ModelCall, Story, Target
from omniroute_addon.settings import ApiKeyCooldown, LocalCooldown, OauthCooldown

log = logging.getLogger(__name__)

Figures = OauthCooldown | ApiKeyCooldown | LocalCooldown
LABEL = "connection_cooldown"
TERMINAL_LABEL = "connection_terminal"
_UNREACHABLE: frozenset[Kind] = frozenset({"network", "timeout", "server_error"})
"""Failures that say nothing about the account, but that the next request should not run into at once either."""
_TURN_FAULTS = frozenset({"empty", "half_tool_call"})
"""`ST-72`: one bad turn of a model says nothing about the connection."""
_CONCURRENCY_S = 1.0
"""`CC-42`: busy, not exhausted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What is remembered of one connection."""

    until: float = 0.0
    """Epoch seconds."""
    level: int = 0
    """Step on the ladder that the next failure takes (`CC-14`)."""
    failed_at: float = 0.0
    cause: str = ""
    """Kind and rule of the failure that set `until`, for people."""
    terminal: bool = False

    def __repr__(self) -> str:
        state = "OUT" if self.terminal else f"until={self.until:.3f}"
        return f"<Rest {state} level={self.level} cause={self.cause}>"


def ladder_s(figures: Figures, level: int, max_cooldown_ms: int) -> float:
    """Seconds for a failure at this level (`CC-14`, `CC-16`)."""
    steps = min(level, figures.max_backoff_steps)
    return min(figures.base_cooldown_ms * 2**steps, max_cooldown_ms) / 1000


def after_failure(rest: Rest, story: Story, figures: Figures, *, max_cooldown_ms: int, now: float) -> Rest:
    """The state that follows from one failed attempt. Pure."""
    verdict, connection = story.verdict, story.attempt.target.connection
    cause = f"{verdict.kind} ({verdict.rule.id})"
    if rest.terminal:
        return rest
    if verdict.terminal and not connection.own:
        return replace(rest, terminal=True, until=0.0, failed_at=now, cause=cause)
    hint = verdict.retry_after.seconds if verdict.retry_after and figures.use_upstream_retry_hints else 0.0
    if connection.disable_cooling:
        return replace(rest, failed_at=now, cause=cause)
    if now < rest.until:  # one of many failures of the same moment
        later = now + hint
        return replace(rest, until=later, cause=cause) if hint and later > rest.until else rest
    if verdict.kind == "concurrency_limited":
        return replace(rest, until=now + (hint or _CONCURRENCY_S), failed_at=now, cause=cause)
    if hint:
        return Rest(until=now + hint, level=0, failed_at=now, cause=cause)
    if verdict.cooldown_s is not None:  # `CC-18`: as it is, neither doubled nor capped
        return replace(rest, until=now + verdict.cooldown_s, failed_at=now, cause=cause)
    pause = ladder_s(figures, rest.level, max_cooldown_ms)
    return Rest(until=now + pause, level=min(rest.level + 1, figures.max_backoff_steps), failed_at=now, cause=cause)


class ConnectionCooldown:
    """The mechanism's state, by connection id. In memory: a restart starts clean."""

    def __init__(self) -> None:
        self.rests: dict[str, Rest] = {}
        self._core: Core | None = None

    @hookimpl
    def start(self, core: Core) -> None:
        self._core = core
        # Connections that the operator took away, or whose credential changed, are forgotten.
        known = {_key_of(c) for c in core.config.connections}
        self.rests = {k: v for k, v in self.rests.items() if k in known or k.startswith("client")}

    @hookimpl
    def exclude(self, targets: Sequence[Target], now: float) -> list[Exclusion]:
        out = []
        for target in targets:
            rest = self.rests.get(_key(target))
            if rest is None:
                continue
            if rest.terminal:
                detail = f"needs a person: {rest.cause}"
                out.append(Exclusion(target=target, label=TERMINAL_LABEL, detail=detail))
            elif now < rest.until:
                out.append(Exclusion(target=target, label=LABEL, detail=rest.cause, until=rest.until))
        return out

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        verdict = story.verdict
        unreachable = verdict.kind in _UNREACHABLE and story.answer.fault not in _TURN_FAULTS
        if verdict.scope not in ("connection", "egress_ip") and not unreachable:
            return
        assert self._core
        target, settings = story.attempt.target, self._core.config.settings
        provider = self._core.packs.providers.get(target.connection.provider)
        figures: Figures = getattr(settings.connection_cooldown, provider.category if provider else "api_key")
        key = _key(target)
        before = self.rests.get(key, Rest())
        after = after_failure(before, story, figures, max_cooldown_ms=settings.max_cooldown_ms, now=now)
        if after != before:
            self.rests[key] = after
            log.info("connection rests: connection=%s state=%r", target.connection.id, after)

    @hookimpl
    def succeeded(self, attempt: Attempt) -> None:
        """`CC-48` to `CC-50`: clears everything but a terminal state, and nothing that failed after this attempt began."""
        key = _key(attempt.target)
        rest = self.rests.get(key)
        if rest is not None and not rest.terminal and rest.failed_at <= attempt.started_at:
            del self.rests[key]


def _key(target: Target) -> str:
    return _key_of(target.connection)


def _key_of(connection: Connection) -> str:
    """A credential is its own identity: the id may stay while the key behind it changes."""
    return f"{connection.id}#{connection.secret.digest}" if connection.secret else connection.id


plugin = ConnectionCooldown()
