"""Verdicts and rules in the words of `omniroute rules`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omniroute_addon.model import Verdict


def shown(verdict: Verdict, name: str) -> str:
    value = getattr(verdict, name)
    if name == "retry_after":
        return f"{value.seconds:g} s ({value.source})" if value else "-"
    if name == "restatement":
        return f"{value.from_status} is {value.status} ({value.rule})" if value else "-"
    if name == "cooldown_s":
        return "-" if value is None else f"{value:g} s"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "-"


def outcome(missed: str | None) -> str:
    if missed is None:
        return "decides"
    return "vetoed by `unless`" if missed == "unless" else f"`{missed}` does not hold"
