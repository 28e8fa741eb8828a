"""How a row of the settings table is written: `settings.py` and the groups that a mechanism keeps beside its own code."""

from __future__ import annotations

from typing import Any

from pydantic import Field, JsonValue

from .input_problems import Strict

DAY_MS = 86_400_000


def setting(
    default: Any, meaning: str, *, env: str = "", ge: float | None = None, le: float | None = None, clamp: bool = False
) -> Any:
    """One row. `env` names the variables, separated by spaces; the first that is set counts.

    `clamp`: a variable beyond the bounds means the bound (`spec/01`, `spec/02`), not the default.
    """
    names: list[JsonValue] = [*env.split()]
    extra: dict[str, JsonValue] | None = {"env": names, **({"clamp": True} if clamp else {})} if names else None
    return Field(default, description=meaning, ge=ge, le=le, json_schema_extra=extra)


def ms(default: int, meaning: str, *, env: str = "", ge: int = 0, le: int = DAY_MS, clamp: bool = False) -> Any:
    """A duration in milliseconds."""
    return setting(default, meaning, env=env, ge=ge, le=le, clamp=clamp)


def group(model: type[Strict], meaning: str) -> Any:
    """Rows of their own below one name."""
    return Field(default_factory=model, description=meaning)
