"""The time of day at which an allowance renews: `00:00`, `00:00 UTC`, `16:00 Asia/Shanghai` (`FC-41` to `FC-43`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Annotated, Any, Final

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from .instants import parse_zone

_WRITTEN: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?:\s+([A-Za-z+-][A-Za-z0-9_+:-]*(?:/[A-Za-z0-9_+-]+)*))?")
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class DailyTime:
    """A time of day; without a zone it is the provider's, else this machine's."""

    hour: int
    minute: int
    zone: tzinfo | None = None
    zone_name: str = ""
    """As it was written."""

    def __str__(self) -> str:
        return f"{self.hour:02}:{self.minute:02} {self.zone_name}".rstrip()

    def seconds_until(self, now: float, zone: tzinfo | None = None) -> float:
        """Seconds from `now` (epoch seconds) to the next such time: more than 0, at most 24 h (`FC-43`).

        `zone` is the provider's, where its pack names one.
        """
        zone = self.zone or zone
        try:
            local = datetime.fromtimestamp(now, zone)
            at = datetime.combine(local.date(), time(self.hour, self.minute), tzinfo=zone)
            if at.timestamp() <= now:
                at = datetime.combine(local.date() + timedelta(days=1), at.timetz())
            return min(at.timestamp() - now, _DAY_S)
        except (OverflowError, ValueError, OSError):  # a clock beyond the calendar's end
            return _DAY_S


def parse_daily_time(value: Any) -> DailyTime:
    """A `DailyTime` from its written form. Raises ValueError with a sentence that says what is allowed."""
    if isinstance(value, DailyTime):
        return value
    match = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"cannot read the time of day {value!r}; write '00:00', '00:00 UTC' or '16:00 Asia/Shanghai'")
    name = match[3] or ""
    zone = parse_zone(name) if name else None
    if name and zone is None:
        raise ValueError(
            f"unknown time zone {name!r}; write UTC, an offset such as +08:00 or a name such as Asia/Shanghai"
        )
    return DailyTime(int(match[1]), int(match[2]), zone, name)


TimeOfDay = Annotated[
    DailyTime,
    GetPydanticSchema(
        lambda _source, _handler: core_schema.no_info_plain_validator_function(
            parse_daily_time, serialization=core_schema.to_string_ser_schema()
        ),
        lambda _schema, _handler: {"type": "string", "pattern": _WRITTEN.pattern},
    ),
]
"""As it is written in a rule; YAML reads an unquoted `00:00` as a number, so it stands in quotes."""
