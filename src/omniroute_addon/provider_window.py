"""The entries of the provider cooldown (`spec/02`): a provider's window of failures, a connection's streak. Pure.

No end of a timer is stored: it follows from the failures and the settings in force (`PC-30`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .provider_settings import ApiKeyWindow, LocalWindow, OauthWindow, ProviderCooldownSettings

Figures = OauthWindow | ApiKeyWindow | LocalWindow
_FORGET_MS: Final = 1_800_000
"""`PC-28`: an entry lives at least this long."""


@dataclass(frozen=True, slots=True)
class Window:
    """Failures of one provider since its last success or cooling, oldest first; milliseconds since the epoch."""

    failures: tuple[int, ...] = ()

    def cooling_until_ms(self, figures: Figures) -> int:
        """When the cooling ends or ended; 0 when the window never was full (`PC-7`, `PC-13`)."""
        inside = [at for at in self.failures if self.failures[-1] - at < figures.provider_failure_window_ms]
        full = figures.provider_failure_threshold
        return inside[full - 1] + figures.provider_cooldown_ms if len(inside) >= full else 0

    def after_failure(self, figures: Figures, now_ms: int) -> Window:
        until = self.cooling_until_ms(figures)
        if now_ms < until:
            return self  # PC-14
        if until:
            return Window((now_ms,))  # PC-16
        span = figures.provider_failure_window_ms
        return Window((*(at for at in self.failures if 0 <= now_ms - at < span), now_ms))

    def remaining_ms(self, figures: Figures, now_ms: int) -> int:
        """What is left of the cooling, never below 0 (`PC-27`)."""
        if not self.failures or now_ms < self.failures[-1]:  # the clock was turned back: not a reason to skip anybody
            return 0
        return max(0, self.cooling_until_ms(figures) - now_ms)

    def dead(self, figures: Figures, now_ms: int) -> bool:
        """`PC-28`."""
        own = max(figures.provider_failure_window_ms, figures.provider_cooldown_ms)
        return not self.failures or now_ms - self.failures[-1] >= max(_FORGET_MS, own)


@dataclass(frozen=True, slots=True)
class Streak:
    """Failures in a row of one connection."""

    count: int = 0
    at_ms: int = 0
    """When the last one happened."""

    def delay_ms(self, settings: ProviderCooldownSettings) -> int:
        """`PC-18`, `PC-19`; a maximum below the minimum is raised to it."""
        least = settings.min_retry_cooldown_ms
        most = max(settings.max_retry_cooldown_ms, least)
        return int(min(least * 2 ** min(self.count - 1, 40), most)) if self.count else 0

    def remaining_ms(self, settings: ProviderCooldownSettings, now_ms: int) -> int:
        """What is left of the delay, never below 0 (`PC-27`)."""
        return max(0, self.at_ms + self.delay_ms(settings) - now_ms) if now_ms >= self.at_ms else 0

    def dead(self, settings: ProviderCooldownSettings, now_ms: int) -> bool:
        """`PC-28`."""
        return now_ms - self.at_ms >= max(_FORGET_MS, self.delay_ms(settings))
