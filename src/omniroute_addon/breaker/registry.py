"""All breakers of a proxy, over the store: the only door to their state (`CB-27`).

Whoever asks here gets a breaker after time has had its say; what time changed is written back at once. A probe is a
permit whose key holds the breaker's period: when the period ends, its permits end with it (`CB-41`), and a restart
grants a fresh set (`CB-59`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..store import Store, Value
from . import machine, stored
from .figures import Figures
from .machine import Breaker, Failure, Transition
from .table import PASSES, State

log = logging.getLogger(__name__)

TABLE_NAME: Final = "circuit_breaker"
FLAPPING_MS: Final = 60_000
"""A breaker that goes back and forth between CLOSED and DEGRADED is told of once in this time."""

type Step = Callable[[Breaker], Breaker]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Leave to send one request to a provider whose breaker is half-open."""

    provider: str
    period: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The provider may not be asked now."""

    provider: str
    until_ms: int
    detail: str
    """One sentence for people."""


class Breakers:
    """Every breaker by provider id. Times are integer milliseconds since the epoch.

    `figures` says what holds for a provider now; it is asked anew each time (`CB-62`).
    """

    def __init__(
        self, store: Store, figures: Callable[[str], Figures], *, most: int = 500, forget_after_ms: int = 1_800_000
    ) -> None:
        self.figures = figures
        self.most = most
        self.forget_after_ms = forget_after_ms
        self._table = store.table(TABLE_NAME, keep=True)
        self._permits = store.permits
        self._leases: dict[
            str, dict[str, int]
        ] = {}  # permit key -> holder -> until_ms: after that its word means nothing (CB-40)
        self._told_at: dict[str, int] = {}
        self._parsed: dict[str, tuple[Value, Breaker]] = {}
        self._blocking: set[str] = set()
        self.look_again()
        self.close = self._table.subscribe(self._note)
        """Listen to the store no longer."""

    def __repr__(self) -> str:
        return f"<Breakers blocking={sorted(self._blocking)}>"

    def look_again(self) -> None:
        """Take note of what the store has read since from before a restart."""
        for provider, value in self._table.scan():
            self._note(provider, value)

    # ------------------------------------------------------------ reading

    @property
    def blocking(self) -> frozenset[str]:
        """Providers that are perhaps not to be asked; empty in good times, so that a request costs nothing."""
        return frozenset(self._blocking)

    def read(self, provider: str, now_ms: int) -> Breaker:
        """The breaker as it is now (`CB-20`)."""
        figures = self.figures(provider)
        breaker = self._apply(provider, lambda b: machine.refreshed(b, figures, now_ms), now_ms)
        if breaker.state is State.HALF_OPEN:
            self._shorten_leases(_permit(provider, breaker.period), now_ms, figures)
        return breaker

    def refusal(self, provider: str, now_ms: int) -> Refusal | None:
        """Why the provider may not be asked now; None when it may."""
        breaker = self.read(provider, now_ms)
        if breaker.state in PASSES:
            return None
        if breaker.state is State.OPEN:
            until = now_ms + machine.remaining_ms(breaker, self.figures(provider), now_ms)
            cause = f" ({breaker.kind})" if breaker.kind else ""
            detail = f"the breaker of {provider} is open after {breaker.failures} failures{cause}"
            return Refusal(provider=provider, until_ms=until, detail=detail)
        held = self._permits.held(_permit(provider, breaker.period), now=now_ms / 1000)
        return None if held < self.figures(provider).half_open_requests else self._busy(provider, breaker, now_ms)

    def claim(self, provider: str, holder: str, now_ms: int) -> Probe | Refusal | None:
        """Leave to send now: None in good times, a probe, or a refusal. Atomic: never more probes than allowed (`CB-42`)."""
        breaker = self.read(provider, now_ms)
        if breaker.state in PASSES:
            return None
        if breaker.state is State.OPEN:
            return self.refusal(provider, now_ms)
        figures, key = self.figures(provider), _permit(provider, breaker.period)
        until = now_ms + figures.reset_timeout_ms
        limit = figures.half_open_requests
        if not self._permits.take(key, limit=limit, holder=holder, until=until / 1000, now=now_ms / 1000):
            return self._busy(provider, breaker, now_ms)
        self._leases = {k: v for k, v in self._leases.items() if k == key or _is_other(k, provider)}
        self._leases.setdefault(key, {})[holder] = until
        return Probe(provider=provider, period=breaker.period, holder=holder)

    # ------------------------------------------------------------ learning

    def failed(self, provider: str, failure: Failure, now_ms: int, probe: Probe | None = None) -> None:
        """A failure that counts. That of a probe whose time is over is ignored (`CB-40`, `CB-41`)."""
        figures, valid = self.figures(provider), self._settled(probe, now_ms)
        if probe is None or valid:
            self._make_room(provider, now_ms)
            self._apply(provider, lambda b: machine.after_failure(b, failure, figures, now_ms, probe=valid), now_ms)

    def succeeded(self, provider: str, now_ms: int, probe: Probe | None = None) -> None:
        """An answer that ended well. A provider without a breaker stays without."""
        figures, valid = self.figures(provider), self._settled(probe, now_ms)
        if self._table.get(provider) is not None and (probe is None or valid):
            self._apply(provider, lambda b: machine.after_success(b, figures, now_ms, probe=valid), now_ms)

    def said_nothing(self, probe: Probe, now_ms: int) -> None:
        """A probe ended without a word about the provider: its place is free again (`CB-39`)."""
        figures = self.figures(probe.provider)
        if self._settled(probe, now_ms):
            self._apply(probe.provider, lambda b: machine.after_nothing(b, figures, now_ms), now_ms)

    def tested(self, provider: str, now_ms: int) -> None:
        """A test of one of the provider's connections passed (`CB-32`)."""
        figures = self.figures(provider)
        if self._table.get(provider) is not None:
            self._apply(provider, lambda b: machine.after_test(b, figures, now_ms), now_ms)

    def reset(self, now_ms: int, provider: str | None = None) -> list[str]:
        """Begin anew, for one provider or all of them; whose there were (`CB-68`, `CB-69`)."""
        names = [name for name, _ in self._table.scan() if provider is None or name == provider]
        for name in names:
            figures = self.figures(name)
            self._apply(name, lambda b, f=figures: machine.after_reset(b, f, now_ms), now_ms)  # type: ignore[misc]
        return names

    def status(self, now_ms: int) -> list[Mapping[str, Any]]:
        """Every known breaker, as the API shows it (`CB-67`)."""
        return [self._status(name, now_ms) for name in [name for name, _ in self._table.scan()]]

    def forget_idle(self, now_ms: int) -> None:
        """Drop what is closed, has no failures and saw none for a while (`CB-64`)."""
        for name, breaker in list(self._idle()):
            if breaker.failed_at_ms is None or now_ms - breaker.failed_at_ms > self.forget_after_ms:
                self._table.update(name, lambda _: None)

    # ------------------------------------------------------------ inside

    def _status(self, provider: str, now_ms: int) -> Mapping[str, Any]:
        breaker = self.read(provider, now_ms)
        leases = self._leases.get(_permit(provider, breaker.period), {})
        left = max((until - now_ms for until in leases.values()), default=0)
        return stored.status(provider, breaker, self.figures(provider), now_ms=now_ms, lease_ms=max(0, left))

    def _busy(self, provider: str, breaker: Breaker, now_ms: int) -> Refusal:
        leases = self._leases.get(_permit(provider, breaker.period), {})
        # Another proxy's probe: its lease ends within one reset timeout.
        until = min(leases.values(), default=now_ms + self.figures(provider).reset_timeout_ms)
        detail = f"the breaker of {provider} is half-open and its probe is under way"
        return Refusal(provider=provider, until_ms=max(until, now_ms), detail=detail)

    def _shorten_leases(self, key: str, now_ms: int, figures: Figures) -> None:
        """No lease lasts longer than one reset timeout from now, also when the clock was turned back (`CB-40`)."""
        if key in self._leases:  # one that was over once is over, whatever the clock says later
            self._leases[key] = {holder: until for holder, until in self._leases[key].items() if until > now_ms}
        longest = now_ms + figures.reset_timeout_ms
        for holder, until in self._leases.get(key, {}).items():
            if until > longest:
                limit = figures.half_open_requests
                self._permits.take(key, limit=limit, holder=holder, until=longest / 1000, now=now_ms / 1000)
                self._leases[key][holder] = longest

    def _settled(self, probe: Probe | None, now_ms: int) -> bool:
        """Give the probe's permit back; whether its result still means something."""
        if probe is None:
            return False
        key = _permit(probe.provider, probe.period)
        self._permits.give(key, holder=probe.holder)
        until_ms = self._leases.get(key, {}).pop(probe.holder, 0)
        breaker = self._get(probe.provider)
        return breaker.state is State.HALF_OPEN and breaker.period == probe.period and now_ms < until_ms

    def _get(self, provider: str) -> Breaker:
        value = self._table.get(provider)
        if value is None:
            return Breaker()
        known = self._parsed.get(provider)
        if known is None or known[0] is not value:
            known = self._parsed[provider] = (value, stored.from_value(value))
        return known[1]

    def _apply(self, provider: str, step: Step, now_ms: int) -> Breaker:
        """Take one step, atomically, and tell of what changed."""
        if step(before := self._get(provider)) == before:  # nothing to do, as nearly always: the store is not bothered
            return before
        steps: list[tuple[Breaker, Breaker]] = []

        def change(value: Value | None) -> Value | None:
            before = stored.from_value(value)
            after = step(before)
            steps[:] = [(before, after)]
            return value if after == before else stored.as_value(provider, after, self.figures(provider))

        value = self._table.update(provider, change)
        if value is not None:
            self._note(provider, value)
        [(before, after)] = steps
        for transition in after.history[-(after.period - before.period) :] if after.period > before.period else ():
            self._tell(provider, transition, now_ms)
        return after

    def _tell(self, provider: str, step: Transition, now_ms: int) -> None:
        """`CB-66`: one event for each real change."""
        if step.old is step.new:
            return
        level = logging.WARNING if step.new is State.OPEN else logging.INFO
        if {step.old, step.new} == PASSES:
            if 0 <= now_ms - self._told_at.get(provider, now_ms - FLAPPING_MS) < FLAPPING_MS:
                level = logging.DEBUG
            else:
                self._told_at[provider] = now_ms
        log.log(
            level,
            "circuit breaker changed: provider=%s from=%s to=%s reason=%s failures=%d",
            *(provider, step.old, step.new, step.reason, step.failures),
        )

    def _note(self, provider: str, value: Value | None) -> None:
        """Somebody changed a breaker: keep the short list of those that may block."""
        if value is None:
            self._parsed.pop(provider, None)
        if value is not None and self._get(provider).state not in PASSES:
            self._blocking.add(provider)
        else:
            self._blocking.discard(provider)

    def _idle(self) -> Iterator[tuple[str, Breaker]]:
        for name, _ in self._table.scan():
            breaker = self._get(name)
            if breaker.state is State.CLOSED and not breaker.failures:
                yield name, breaker

    def _make_room(self, provider: str, now_ms: int) -> None:
        """Before a new breaker: at most so many are remembered, and none that means something is dropped (`CB-63`)."""
        if self._table.get(provider) is not None:
            return
        self.forget_idle(now_ms)
        surplus = sum(1 for _ in self._table.scan()) + 1 - self.most
        if surplus > 0:
            idle = sorted(self._idle(), key=lambda item: item[1].failed_at_ms or 0)
            for name, _ in idle[:surplus]:
                self._table.update(name, lambda _: None)


def _permit(provider: str, period: int) -> str:
    return f"{TABLE_NAME}/{provider}/{period}"


def _is_other(key: str, provider: str) -> bool:
    return not key.startswith(f"{TABLE_NAME}/{provider}/")
