"""The settings table of the cooldown wait (`CW-1` to `CW-6`, `CW-50` to `CW-53`: one table for both)."""

from __future__ import annotations

from omniroute_addon.input_problems import Strict
from omniroute_addon.setting_fields import ms, setting


class CooldownWaitSettings(Strict):
    """How long a request is held until something can be used again."""

    enabled: bool = setting(
        True,
        "Hold a request while everything that could serve it rests only briefly (CW-1).",
        env="OMNIROUTE_COOLDOWN_WAIT",
    )
    # The reference has 90 s, and does not wait for a reset in exactly 90 s; A25 wants that held.
    max_wait_ms: int = ms(120_000, "Longest wait at a time; 0 is off (CW-3).", le=300_000)
    max_waits: int = setting(5, "How often one request waits at most; 0 is off (CW-4).", ge=0, le=10)
    budget_ms: int = ms(
        300_000, "All waits of one request together; never less than one whole wait (CW-5).", le=300_000
    )
    keep_alive: bool = setting(
        False,
        "While an answer is not decided, a stream's client gets signs of life if it bears them. The status is then "
        "200 whatever follows; an error comes inside the stream (CW-38, A34).",
    )
    keep_alive_ms: int = ms(15_000, "Pause between such signs of life.", ge=1_000, le=60_000)

    @property
    def active(self) -> bool:
        """`CW-6`."""
        return self.enabled and self.max_wait_ms > 0 and self.max_waits > 0

    @property
    def budget_s(self) -> float:
        """`CW-5`: one full wait always fits in."""
        return max(self.budget_ms, self.max_wait_ms) / 1000
