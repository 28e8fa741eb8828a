"""The words that commands share."""

from __future__ import annotations

from omniroute_addon.nearest import plural


def counted(number: int, noun: str) -> str:
    """`1 rule`, `2 rules`."""
    return f"{number} {noun if number == 1 else plural(noun)}"


def lasting(seconds: float) -> str:
    """`21 s`, `4 min 3 s`, `2 h 5 min`, `3 d 4 h`: two units at most, rounded up to a second."""
    left = max(0, -int(-seconds // 1))
    for size, unit, below, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if left >= size:
            rest = left % size // below
            return f"{left // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{left} s"
