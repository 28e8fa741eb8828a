"""The figures about what is remembered of finished requests."""

from __future__ import annotations

from .input_problems import Strict
from .setting_fields import DAY_MS, ms, setting


class HistorySettings(Strict):
    """What `omniroute explain` can tell of. No body, header or credential is kept."""

    keep_ms: int = ms(
        7 * DAY_MS,
        "How long a request with a failure or a skipped target is remembered; 0: not at all.",
        le=365 * DAY_MS,
    )
    keep_bytes: int = setting(
        4_194_304, "Most bytes that these requests take in the state file; the oldest go first.", ge=0, le=1_073_741_824
    )
    successes: int = setting(
        200, "How many requests that succeeded at once are remembered, in memory only.", ge=0, le=100_000
    )
