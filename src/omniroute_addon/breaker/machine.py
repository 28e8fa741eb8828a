"""A breaker, and how it moves along the table. Pure: time comes in as integer milliseconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ..provider_settings import FailureKind
from .figures import Figures
from .table import PASSES, TABLE, Effect, Event, State

HISTORY: Final = 20
"""Transitions that are kept (`CB-65`)."""
_EMPTY: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step of the past."""

    old: State
    new: State
    at_ms: int
    failures: int
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is remembered of one provider. `Breaker()` is a new one (`CB-3`)."""

    state: State = State.CLOSED
    failures: int = 0
    failed_at_ms: int | None = None
    """When the last failure was counted; the hold runs from here."""
    kind: FailureKind | None = None
    """Of the last counted failure."""
    cycles: int = 0
    """Failed rounds of probing since it was last closed."""
    of_kind: Mapping[str, int] = field(default=_EMPTY)
    """Kind -> counted failures."""
    period: int = 0
    """Grows with every transition; a probe belongs to one."""
    history: tuple[Transition, ...] = field(default=(), repr=False)
    counted: Mapping[str, int] = field(default=_EMPTY, repr=False)
    """Connection -> when a failure of it was last counted (`CB-17`); only recent ones."""
    network_at_ms: int | None = None
    """When a network failure was last counted (`CB-18`)."""

    def __repr__(self) -> str:
        return f"<Breaker {self.state} failures={self.failures} kind={self.kind} cycles={self.cycles} period={self.period}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failure of the provider, as far as the breaker looks at it."""

    connection: str
    kind: FailureKind | None = "transient"
    network: bool = False
    """There was no HTTP answer at all."""


# ---------------------------------------------------------------- what can happen


def refreshed(breaker: Breaker, figures: Figures, now_ms: int) -> Breaker:
    """The breaker as it is now: time has had its say (`CB-20` to `CB-25`)."""
    at = breaker.failed_at_ms
    if at is not None and at > now_ms:  # the clock was turned back: nothing may last longer than it would have
        breaker, at = replace(breaker, failed_at_ms=now_ms), now_ms
    if breaker.state is State.OPEN and (
        at is None or now_ms >= at + figures.hold_ms(breaker.kind, breaker.cycles)  # CB-21, CB-22
    ):
        return _moved(breaker, Event.HOLD_OVER, figures, now_ms)
    counts = breaker.failures > 0 or breaker.state is State.DEGRADED
    if breaker.state in PASSES and counts and at is not None and now_ms >= at + figures.quiet_ms(breaker.kind):
        return _moved(breaker, Event.QUIET, figures, now_ms)
    return breaker


def after_failure(breaker: Breaker, failure: Failure, figures: Figures, now_ms: int, *, probe: bool = False) -> Breaker:
    """One failed attempt that may count. `probe`: it was let through in this very period."""
    breaker = refreshed(breaker, figures, now_ms)
    if probe and breaker.state is State.HALF_OPEN:
        return _moved(breaker, Event.PROBE_FAILED, figures, now_ms, failure)
    if breaker.state not in PASSES:
        return _moved(breaker, Event.FAILED, figures, now_ms, failure)
    if _is_echo(breaker, failure, figures, now_ms):
        return breaker
    failures, of_kind = breaker.failures + 1, breaker.of_kind.get(failure.kind or "", 0) + 1
    if figures.opens(failures, failure.kind, of_kind):
        event = Event.BROKE
    else:
        event = Event.WORSENED if failures >= figures.degradation_threshold else Event.FAILED
    return _moved(breaker, event, figures, now_ms, failure)


def after_success(breaker: Breaker, figures: Figures, now_ms: int, *, probe: bool = False) -> Breaker:
    """One attempt that ended well."""
    breaker = refreshed(breaker, figures, now_ms)
    if probe and breaker.state is State.HALF_OPEN:
        return _moved(breaker, Event.PROBE_SUCCEEDED, figures, now_ms)
    healed = breaker.state in PASSES and max(0, breaker.failures - 1) <= figures.degradation_threshold
    return _moved(breaker, Event.RECOVERED if healed else Event.SUCCEEDED, figures, now_ms)


def after_nothing(breaker: Breaker, figures: Figures, now_ms: int) -> Breaker:
    """A probe ended without a word about the provider (`CB-39`)."""
    breaker = refreshed(breaker, figures, now_ms)
    if breaker.state is not State.HALF_OPEN:
        return breaker
    return _moved(breaker, Event.PROBE_SAID_NOTHING, figures, now_ms)


def after_test(breaker: Breaker, figures: Figures, now_ms: int) -> Breaker:
    """Somebody tested a connection of the provider and it worked (`CB-32`)."""
    return _moved(refreshed(breaker, figures, now_ms), Event.TESTED, figures, now_ms)


def after_reset(breaker: Breaker, figures: Figures, now_ms: int) -> Breaker:
    """A person said: begin anew (`CB-68`)."""
    return _moved(breaker, Event.RESET, figures, now_ms)


def remaining_ms(breaker: Breaker, figures: Figures, now_ms: int) -> int:
    """What is left of the hold; 0 unless OPEN. `breaker` is refreshed."""
    if breaker.state is not State.OPEN or breaker.failed_at_ms is None:
        return 0
    return max(0, breaker.failed_at_ms + figures.hold_ms(breaker.kind, breaker.cycles) - now_ms)


# ---------------------------------------------------------------- moving


def _moved(breaker: Breaker, event: Event, figures: Figures, now_ms: int, failure: Failure | None = None) -> Breaker:
    row = TABLE[breaker.state, event]
    after = _with(breaker, row.effect, figures, now_ms, failure)
    if row.to is breaker.state and not row.reason:
        return after
    threshold = figures.failure_threshold
    wanted = row.reason and ("{kind}" not in row.reason or after.kind)
    reason = row.reason.format(failures=after.failures, threshold=threshold, kind=after.kind, cycle=after.cycles)
    step = Transition(
        old=breaker.state, new=row.to, at_ms=now_ms, failures=after.failures, reason=reason if wanted else None
    )
    return replace(after, state=row.to, period=breaker.period + 1, history=(*breaker.history, step)[-HISTORY:])


def _with(breaker: Breaker, effect: Effect, figures: Figures, now_ms: int, failure: Failure | None) -> Breaker:
    if effect == "forgive" and breaker.failures:
        return replace(breaker, failures=breaker.failures - 1)
    if effect == "heal":
        return replace(breaker, failures=0, kind=None, of_kind=_EMPTY)
    if effect == "close":
        return replace(breaker, failures=0, kind=None, of_kind=_EMPTY, cycles=0)
    if effect == "forget":
        return Breaker(period=breaker.period, history=breaker.history)
    if effect == "count" and failure is not None:
        return _counted(breaker, failure, figures, now_ms)
    if effect == "reopen" and failure is not None:
        return replace(_counted(breaker, failure, figures, now_ms), cycles=breaker.cycles + 1)
    return breaker


def _counted(breaker: Breaker, failure: Failure, figures: Figures, now_ms: int) -> Breaker:
    """`CB-28`."""
    recent = {name: at for name, at in breaker.counted.items() if 0 <= now_ms - at < figures.same_connection_ms}
    of_kind = dict(breaker.of_kind)
    if failure.kind is not None:
        of_kind[failure.kind] = of_kind.get(failure.kind, 0) + 1
    return replace(
        breaker,
        failures=breaker.failures + 1,
        failed_at_ms=now_ms,
        kind=failure.kind,
        of_kind=MappingProxyType(of_kind),
        counted=MappingProxyType({**recent, failure.connection: now_ms}),
        network_at_ms=now_ms if failure.network else breaker.network_at_ms,
    )


def _is_echo(breaker: Breaker, failure: Failure, figures: Figures, now_ms: int) -> bool:
    """One trouble seen many times is one failure (`CB-17`, `CB-18`)."""
    last = breaker.counted.get(failure.connection)
    if last is not None and 0 <= now_ms - last < figures.same_connection_ms:
        return True
    network_at = breaker.network_at_ms if failure.network else None
    return network_at is not None and 0 <= now_ms - network_at < figures.same_network_ms
