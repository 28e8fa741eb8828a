"""The words that commands share."""

from __future__ import annotations

from omniroute_addon.nearest import plural


def counted(number: int, noun: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{number} {noun if number == 1 else plural(noun)}"
