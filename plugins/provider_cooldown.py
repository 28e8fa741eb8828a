"""Provider cooldown: an optional, short memory of what failed a moment ago, across requests (`spec/02`).

Theory. Two sorts of entries, both only in memory, both free of probes:

*Window* of a provider. Failures that count against the provider fall into a sliding window. The one that makes the
window full cools the provider for a fixed time; what fails meanwhile is not looked at, and when the time is over the
window begins empty. Below the threshold nothing happens, however close the failures are.

*Streak* of a connection. Each failure in a row doubles the delay after the last of them, up to a maximum.

A success on a connection ends its streak and its provider's window at once. No end of a timer is stored: it follows from
the failures and the settings in force (`PC-30`).

It only chooses among several targets: the only one left is never held back (`PC-25`). The circuit breaker and the
connection cooldown keep their own accounts; nothing here changes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import (
    Attempt,
    Category,
    Cleared,
    Exclusion,
    ModelCall,
    Part,
    ResetOrder,
    Story,
    Target,
    Timer,
)
from omniroute_addon.provider_failure import class_of, counts_against_provider, provider_key
from omniroute_addon.provider_settings import ProviderCooldownSettings
from omniroute_addon.provider_window import Figures, Streak, Window
from omniroute_addon.store import Table, Value

_MOST = 1_000
"""Entries, because clients' own credentials are among them; the oldest go first."""
_NOBODY = frozenset({"", "unknown"})
"""Not a provider (`PC-5`)."""


class ProviderCooldown:
    """The mechanism. Entries by `provider` or `provider:connection` (`PC-4`), in a table that no restart survives."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._table: Table | None = None
        self._classes: dict[str, Category] = {}

    # ------------------------------------------------------------ hooks

    @hookimpl
    def start(self, core: Core) -> None:
        self._core, self._table = core, core.store.table("provider_cooldown")
        self._classes = {
            provider_key(p.id): class_of(p, core.config.connections) for p in core.packs.providers.values()
        }
        if not self._settings.enabled:
            self.clear()  # PC-3

    @hookimpl
    def exclude(self, targets: Sequence[Target], now: float) -> list[Exclusion]:
        if not self._settings.enabled or len(targets) < 2 or not self.entries():
            return []
        now_ms = round(now * 1000)
        excluded = []
        for target in targets:
            left = max(self._provider_left(target, now_ms), self._connection_left(target, now_ms))
            if left:
                until = (now_ms + left) / 1000
                detail = f"{target.connection.provider} failed a moment ago"
                excluded.append(
                    Exclusion(target=target, label="provider_cooldown", detail=detail, reason="transient", until=until)
                )
        return excluded

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        target, now_ms = story.attempt.target, round(now * 1000)
        provider = provider_key(target.connection.provider)
        if not self._settings.enabled or provider in _NOBODY:
            return
        self._forget(now_ms)
        counts = counts_against_provider(story, self._all_settings.circuit_breaker)
        if counts:
            figures = self._figures(provider)
            self._put(provider, lambda old: _written(_window(old).after_failure(figures, now_ms)))
        about_account = story.verdict.scope in ("connection", "egress_ip")
        if (counts or about_account) and not target.connection.disable_cooling and _is_fixed(target):
            self._put(_key(target), lambda old: _written(Streak(count=_streak(old).count + 1, at_ms=now_ms)))

    @hookimpl
    def succeeded(self, attempt: Attempt, now: float) -> None:
        """`PC-15`, `PC-20`, `PC-21`."""
        if self._settings.enabled:
            for key in (provider_key(attempt.target.connection.provider), _key(attempt.target)):
                if self.table.get(key) is not None:
                    self._put(key, lambda _: None)

    # ------------------------------------------------------------ for people

    def entries(self) -> int:
        """How many entries there are (`PC-29`)."""
        return sum(1 for _ in self.table.scan())

    @hookimpl
    def timers(self, now: float) -> list[Timer]:
        """What cools now."""
        return [
            Timer(
                part="connection" if row["connectionId"] else "provider",
                mechanism="provider_cooldown",
                provider=row["provider"],
                connection=row["connectionId"],
                state="cooling",
                detail="failed a moment ago; passed by while something else is left",
                failures=row["failureCount"],
                until=row["until"] / 1000,
                listed="providerCooldowns",
                row=row,
            )
            for row in self.status(now)
        ]

    @hookimpl
    def reset(self, order: ResetOrder) -> list[Cleared]:
        """`PC-29`. An order about models concerns nothing here."""
        if order.part == "model":
            return []
        return self.clear(
            provider=order.provider,
            connections=order.connections,
            windows=order.part in ("provider", "all"),
            streaks=order.part in ("connection", "all") or order.connections is None,
        )

    def clear(
        self,
        *,
        provider: str | None = None,
        connections: Collection[str] | None = None,
        windows: bool = True,
        streaks: bool = True,
    ) -> list[Cleared]:
        """Forget windows of providers and streaks of connections; what they were."""
        cleared = []
        for key, _ in list(self.table.scan()):
            name, _, connection = key.partition(":")
            if provider is not None and name != provider_key(provider):
                continue
            if not (streaks if connection else windows):
                continue
            if connection and connections is not None and connection not in connections:
                continue
            self._put(key, lambda _: None)
            part: Part = "connection" if connection else "provider"
            cleared.append(
                Cleared(part=part, mechanism="provider_cooldown", provider=name, connection=connection or None)
            )
        return cleared

    def status(self, now: float) -> list[Mapping[str, Any]]:
        """What cools now, as the API shows it."""
        now_ms = round(now * 1000)
        shown: list[Mapping[str, Any]] = []
        for key, value in self.table.scan():
            provider, _, connection = key.partition(":")
            if connection:
                left, count = _streak(value).remaining_ms(self._settings, now_ms), _streak(value).count
            else:
                window = _window(value)
                left, count = window.remaining_ms(self._figures(provider), now_ms), len(window.failures)
            if left:
                who = {"provider": provider, "connectionId": connection or None}
                shown.append({**who, "failureCount": count, "remainingMs": left, "until": now_ms + left})
        return shown

    # ------------------------------------------------------------ inside

    @property
    def table(self) -> Table:
        assert self._table is not None, "start() comes first"
        return self._table

    @property
    def _all_settings(self) -> Any:
        assert self._core is not None, "start() comes first"
        return self._core.config.settings

    @property
    def _settings(self) -> ProviderCooldownSettings:
        settings: ProviderCooldownSettings = self._all_settings.provider_cooldown
        return settings

    def _figures(self, provider: str) -> Figures:
        figures: Figures = getattr(self._settings, self._classes.get(provider, "api_key"))
        return figures

    def _provider_left(self, target: Target, now_ms: int) -> int:
        provider = provider_key(target.connection.provider)
        value = self.table.get(provider)
        return _window(value).remaining_ms(self._figures(provider), now_ms) if value else 0

    def _connection_left(self, target: Target, now_ms: int) -> int:
        value = self.table.get(_key(target))
        return _streak(value).remaining_ms(self._settings, now_ms) if value else 0

    def _put(self, key: str, change: Any) -> None:
        self.table.update(key, change)

    def _forget(self, now_ms: int) -> None:
        """Upkeep, at each failure: rare enough to look at every entry (`PC-28`)."""
        for key, value in list(self.table.scan()):
            provider, _, connection = key.partition(":")
            settings, figures = self._settings, self._figures(provider)
            dead = _streak(value).dead(settings, now_ms) if connection else _window(value).dead(figures, now_ms)
            if dead:
                self._put(key, lambda _: None)
        if len(self.table) > _MOST:
            rows = sorted((max((v.get("at", 0), *v.get("failures", ()))), k) for k, v in self.table.scan())
            for _, key in rows[: len(rows) - _MOST]:
                self._put(key, lambda _: None)


def _is_fixed(target: Target) -> bool:
    """A client that sent no credential is nobody in particular (`PC-24`)."""
    return not (target.connection.own and target.connection.secret is None)


def _key(target: Target) -> str:
    return f"{provider_key(target.connection.provider)}:{target.connection.id}"


def _written(entry: Window | Streak) -> Value:
    if isinstance(entry, Window):
        return {"failures": list(entry.failures)}
    return {"count": entry.count, "at": entry.at_ms}


def _window(value: Value | None) -> Window:
    return Window(tuple(value["failures"])) if value else Window()


def _streak(value: Value | None) -> Streak:
    return Streak(count=value["count"], at_ms=value["at"]) if value else Streak()


plugin = ProviderCooldown()
