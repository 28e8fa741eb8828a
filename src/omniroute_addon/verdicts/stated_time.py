"""A time as an answer states it, in whatever unit."""

from __future__ import annotations

from dataclasses import dataclass

from .durations import parse_duration, parse_number
from .instants import parse_epoch, parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A time as a header or a field states it."""

    source: str
    """Header name, body path or quoted words."""
    seconds: float | None = None
    """Length of the wait, when it is one."""
    at: float | None = None
    """Epoch seconds, when it is a point in time."""

    def wait(self, base: float) -> float:
        """Seconds from `base`."""
        return self.seconds if self.seconds is not None else (self.at or 0.0) - base


def parse_stated(text: str, *, source: str, base: float, milliseconds: bool = False) -> Stated | None:
    """A value in any unit: `36`, `6m0s`, `644ms`, epoch seconds or milliseconds, ISO 8601, an HTTP date (`CC-26`)."""
    text = text.strip()
    if not text or len(text) > 64:
        return None
    number = parse_number(text)
    if number is not None and milliseconds and parse_epoch(number / 1000) is None:
        return Stated(source=source, seconds=number / 1000)
    if number is not None and (at := parse_epoch(number)) is not None:
        return Stated(source=source, at=at)
    if (seconds := parse_duration(text)) is not None:
        return Stated(source=source, seconds=seconds)
    at = parse_instant(text, base=base)
    return None if at is None else Stated(source=source, at=at)


def parse_header(value: str, *, source: str, base: float) -> Stated | None:
    """A `retry-after` or `retry-after-ms` header; of one sent twice (joined by commas) the longest counts."""
    milliseconds = source.endswith("-ms")
    whole = parse_stated(value, source=source, base=base, milliseconds=milliseconds)
    if whole is not None or "," not in value:
        return whole
    parts = [parse_stated(part, source=source, base=base, milliseconds=milliseconds) for part in value[:200].split(",")]
    return max((part for part in parts if part), key=lambda part: part.wait(base), default=None)
