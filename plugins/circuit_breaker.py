"""Circuit breaker: a provider that keeps failing is left alone, then tried with one request at a time (`spec/01`).

The theory and the table of states stand in `omniroute_addon.breaker.table`. This plugin ties them to a request's life:

    exclude    a provider whose breaker is open, or whose probe is under way, is passed by, with the time it comes back
    admit      the right to be the probe is taken, together with the check (`CB-42`)
    failed     counts, when it is the provider's fault (`provider_failure`)
    succeeded  forgives, or closes
    finish     a probe that ended without a word gives its place back

The client's own credential is never held back: without an alternative the engine sends it although it is excluded. If
it is not the probe, its result changes nothing, like that of any request which an open breaker did not let through.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from itertools import count
from typing import Any

from omniroute_addon import hookimpl
from omniroute_addon.breaker.dead_network import DeadNetwork
from omniroute_addon.breaker.figures import Figures, figures_for
from omniroute_addon.breaker.machine import Failure
from omniroute_addon.breaker.registry import Breakers, Probe, Refusal
from omniroute_addon.breaker.shown import as_timer
from omniroute_addon.core import Core
from omniroute_addon.model import Attempt, Cleared, Exclusion, ModelCall, ResetOrder, Story, Target, Timer
from omniroute_addon.provider_failure import (
    class_of,
    counts_against_provider,
    failure_kind,
    is_network_failure,
    provider_key,
    tells_kinds,
)
from omniroute_addon.refused import Refused

log = logging.getLogger(__name__)


class CircuitBreaker:
    """The mechanism. Its state is in the store; here is only which call holds which probe."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._breakers: Breakers | None = None
        self._figures: dict[str, Figures] = {}
        self._local: frozenset[str] = frozenset()
        self._network = DeadNetwork()
        # By identity: two calls may be equal. The call is kept with its probe so that its identity stays its own.
        self._probes: dict[int, tuple[ModelCall, Probe]] = {}
        self._holders = count(1)
        self._proxy = ""

    # ------------------------------------------------------------ hooks

    @hookimpl
    def start(self, core: Core) -> None:
        settings = core.config.settings.circuit_breaker
        self._core, self._local, self._figures = core, *_figures(core)
        # Several proxies may share a store: their holders must differ.
        self._proxy = self._proxy or f"{core.clock.chance():.12f}"
        if self._breakers is None:  # a reload keeps it: it knows the leases of probes under way
            self._breakers = Breakers(core.store, self._figures_of)
        self._breakers.look_again()
        self._breakers.most, self._breakers.forget_after_ms = settings.max_breakers, settings.forget_after_ms
        self._breakers.forget_idle(_ms(core.clock.now()))

    @hookimpl
    def stop(self) -> None:
        if self._breakers is not None:
            self._breakers.close()
            self._breakers = None
        self._probes.clear()

    @hookimpl
    def exclude(self, call: ModelCall, targets: Sequence[Target], now: float) -> list[Exclusion]:
        breakers = self.breakers
        self._release(call, now)  # whoever chooses anew has no attempt under way
        refused = {p: refusal for p in breakers.blocking if (refusal := breakers.refusal(p, _ms(now)))}
        if not refused:
            return []
        return [
            Exclusion(target=target, label="circuit_open", detail=refusal.detail, until=refusal.until_ms / 1000)
            for target in targets
            if (refusal := refused.get(provider_key(target.connection.provider)))
        ]

    @hookimpl
    def admit(self, call: ModelCall, target: Target, now: float) -> Awaitable[None] | None:
        self._release(call, now)
        provider = provider_key(target.connection.provider)
        if provider not in self.breakers.blocking:
            return None
        leave = self.breakers.claim(provider, f"{self._proxy}-{next(self._holders)}", _ms(now))
        if isinstance(leave, Probe):
            self._probes[id(call)] = (call, leave)
        elif isinstance(leave, Refusal) and not target.connection.own:
            return Refused(leave.detail)  # a try in place after the failure that opened the breaker
        return None

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        now_ms, connection = _ms(now), story.attempt.target.connection
        provider, probe = provider_key(connection.provider), self._probe(call)
        network = is_network_failure(story)
        if counts_against_provider(story, self._settings) and not (network and self._network_is_dead(provider, now_ms)):
            kind = failure_kind(story) if self._figures_of(provider).tells_kinds else None
            failure = Failure(connection=connection.id, kind=kind, network=network)
            self.breakers.failed(provider, failure, now_ms, probe)
        elif probe is not None:
            self.breakers.said_nothing(probe, now_ms)
        if not network and provider not in self._local and story.answer.status:
            self._network.answered(provider, now_ms)

    @hookimpl
    def succeeded(self, call: ModelCall, attempt: Attempt, now: float) -> None:
        provider = provider_key(attempt.target.connection.provider)
        if provider not in self._local:
            self._network.answered(provider, _ms(now))
        self.breakers.succeeded(provider, _ms(now), self._probe(call))

    @hookimpl
    def finish(self, call: ModelCall, now: float) -> None:
        self._release(call, now)

    # ------------------------------------------------------------ for people

    @hookimpl
    def timers(self, now: float) -> list[Timer]:
        """Every known breaker (`CB-67`); one that is closed blocks nothing."""
        refusals = {p: self.breakers.refusal(p, _ms(now)) for p in self.breakers.blocking}
        return [as_timer(row, refusals.get(row["name"]), now) for row in self.status(now)]

    @hookimpl
    def reset(self, order: ResetOrder, now: float) -> list[Cleared]:
        """Close one provider's breaker, or all (`CB-68`, `CB-69`). Touches nothing else (`CB-70`)."""
        if order.part not in ("provider", "all"):
            return []
        states = {row["name"]: row["state"] for row in self.status(now)}
        names = self.breakers.reset(_ms(now), provider_key(order.provider) if order.provider is not None else None)
        return [
            Cleared(part="provider", mechanism="circuit_breaker", provider=name, state=states.get(name, ""))
            for name in names
        ]

    def status(self, now: float) -> list[Mapping[str, Any]]:
        """Every known breaker, as `GET /api/monitoring/health` shows it (`CB-67`)."""
        return self.breakers.status(_ms(now))

    def tested(self, provider: str, now: float) -> None:
        """A test of one of the provider's connections passed (`CB-32`)."""
        self.breakers.tested(provider_key(provider), _ms(now))

    # ------------------------------------------------------------ inside

    @property
    def breakers(self) -> Breakers:
        assert self._breakers is not None, "start() comes first"
        return self._breakers

    @property
    def _settings(self) -> Any:
        assert self._core is not None, "start() comes first"
        return self._core.config.settings.circuit_breaker

    def _figures_of(self, provider: str) -> Figures:
        """A provider that no pack names any more has the figures of an API key."""
        found = self._figures.get(provider)
        if found is None:
            found = self._figures[provider] = figures_for("api_key", self._settings, tells_kinds=False)
        return found

    def _network_is_dead(self, provider: str, now_ms: int) -> bool:
        least = self._settings.dead_network_providers
        if not least or provider in self._local:
            return False
        self._network.failed(provider, now_ms)
        silent = self._network.silent(now_ms)
        if len(silent) < least or provider not in silent:
            return False
        log.warning("own network seems down, no breaker counts it: providers=%s", ",".join(sorted(silent)))
        return True

    def _probe(self, call: ModelCall) -> Probe | None:
        """The probe that the running attempt of this call is; it is settled by whoever asks."""
        held = self._probes.pop(id(call), None)
        return held[1] if held else None

    def _release(self, call: ModelCall, now: float) -> None:
        probe = self._probe(call)
        if probe is not None:
            self.breakers.said_nothing(probe, _ms(now))


def _figures(core: Core) -> tuple[frozenset[str], dict[str, Figures]]:
    """Providers with local figures, and the figures of every provider that a pack names."""
    settings, connections = core.config.settings, core.config.connections
    local: set[str] = set()
    figures: dict[str, Figures] = {}
    for provider in core.packs.providers.values():
        name, category = provider_key(provider.id), class_of(provider, connections)
        if category == "local":
            local.add(name)
        wanted = getattr(settings.connection_cooldown, category).use_upstream_429_breaker_hints
        trusted = tells_kinds(provider, connections, wanted, category)
        figures[name] = figures_for(category, settings.circuit_breaker, tells_kinds=trusted)
    return frozenset(local), figures


def _ms(now: float) -> int:
    return round(now * 1000)


plugin = CircuitBreaker()
