"""The figures about one model of one connection (`spec/04`) and about siblings behind one address (`spec/07`).

What stands outside its bounds in `model_lockout` is moved to the nearest bound, not refused: so the specification wants it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, model_validator

from .input_problems import Strict
from .setting_fields import DAY_MS, ms, setting

LOCKED_STATUSES: Final = (403, 404, 429, 502, 503, 504)
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "base_cooldown_ms": (5_000, 600_000),
    "max_cooldown_ms": (5_000, 3_600_000),
    "max_backoff_steps": (0, 20),
}
"""`spec/04`, Settings."""


def _as_provider(name: str) -> str:
    return name.strip().lower()


class ModelLockoutSettings(Strict):
    """Locks of one model of one connection."""

    enabled: bool = setting(
        False,
        "Lock a model after any failure with one of `error_codes` (ML-15). Providers that count per model, and rules "
        "that name the model, lock it in any case (ML-17).",
    )
    error_codes: list[int] = Field(
        default=[*LOCKED_STATUSES], description="Statuses that lock a model with `enabled` (ML-16)."
    )
    base_cooldown_ms: int = ms(120_000, "First lock of a model (ML-25).", ge=5_000, le=600_000)
    max_cooldown_ms: int = ms(
        1_800_000,
        "Longest computed lock, and longest step of a connection's ladder (ML-29, CC-16).",
        ge=5_000,
        le=3_600_000,
    )
    max_backoff_steps: int = setting(10, "Steps after which the lock stops growing (ML-27).", ge=0, le=20)
    use_exponential_backoff: bool = setting(True, "Each further failure doubles the lock (ML-27).")
    persist: bool = setting(True, "Locks for used-up quotas and missing credits survive a restart of the proxy.")

    @model_validator(mode="before")
    @classmethod
    def _clamped(cls, data: Any) -> Any:
        """Into the bounds (`ML` Settings); what is no number at all is left to the usual complaint."""
        if not isinstance(data, dict):
            return data
        kept = dict(data)
        for name, (low, high) in _BOUNDS.items():
            if type(kept.get(name)) is int:
                kept[name] = min(max(kept[name], low), high)
        base, most = kept.get("base_cooldown_ms"), kept.get("max_cooldown_ms", 1_800_000)
        if type(base) is int and type(most) is int:
            kept["max_cooldown_ms"] = max(base, most)
        codes = kept.get("error_codes", LOCKED_STATUSES)
        if isinstance(codes, list) and not (codes and all(type(c) is int and 100 <= c <= 599 for c in codes)):
            kept["error_codes"] = [*LOCKED_STATUSES]
        return kept


class EgressLockSettings(Strict):
    """Providers that count per outgoing address."""

    providers: list[Annotated[str, AfterValidator(_as_provider)]] = setting(
        ["opencode-go", "opencode-cli"],
        "Providers whose 429 holds for every connection behind the same address; empty is off (EL-2, EL-3).",
        env="OMNIROUTE_EGRESS_IP_LOCK_PROVIDERS",
    )
    window_ms: int = ms(DAY_MS, "How long a connection counts as seen at an address (EL-17).", ge=60_000)
    fallback_ms: int = ms(120_000, "How long to rest when the verdict names no time (EL-14).")
