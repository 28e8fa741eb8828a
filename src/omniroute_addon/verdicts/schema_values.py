"""The small values inside rules: durations, statuses, phrases, codes, and how each may be written."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from .instants import parse_zone

Reason = Literal[
    "quota_exhausted",
    "rate_limit_exceeded",
    "model_capacity",
    "server_error",
    "auth_error",
    "unknown",
    "not_found",
    "concurrency_limited",
    "service_not_running",
    "provider_model_unsupported",
    "invalid_previous_response_binding",
    "executor_contract_violation",
]
"""The stable reason names of `spec/05`."""

_UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h|d)")
_RANGE = re.compile(r"(\d{3})\s*-\s*(\d{3})")
_CLASS = re.compile(r"([1-5])xx", re.IGNORECASE)
MAX_DURATION_S = 30 * 86400.0


def _seconds(value: object) -> object:
    if isinstance(value, str):
        if not (match := _DURATION.fullmatch(value.strip())):
            raise ValueError(f"cannot read the duration {value!r}; write seconds or 500ms, 60s, 5m, 6h, 30d")
        return float(match[1]) * _UNIT_S[match[2]]
    return value


Seconds = Annotated[
    float,
    BeforeValidator(_seconds, json_schema_input_type=float | str),
    Field(ge=0, le=MAX_DURATION_S, allow_inf_nan=False),
]
"""Seconds, or text with a unit: `500ms`, `60s`, `5m`, `6h`, `30d`; at most 30 days."""


def as_list(value: object) -> object:
    return value if isinstance(value, list) else [value]


def parse_statuses(items: list[int | str]) -> frozenset[int]:
    """The statuses that `429`, `"500-599"` and `"5xx"` stand for; 0 is an attempt without an HTTP answer."""
    found: set[int] = set()
    for item in items:
        if isinstance(item, int):
            low = high = item
        elif match := _RANGE.fullmatch(item.strip()):
            low, high = int(match[1]), int(match[2])
        elif match := _CLASS.fullmatch(item.strip()):
            low, high = int(match[1]) * 100, int(match[1]) * 100 + 99
        else:
            raise ValueError(f"unknown status {item!r}; write 429, 500-599 or 5xx")
        if low > high or not (low == high == 0 or 100 <= low <= high <= 599):
            raise ValueError(f"status {item!r} is outside 100 to 599 (0: no HTTP answer)")
        found.update(range(low, high + 1))
    return frozenset(found)


def _check_statuses(items: list[int | str]) -> list[int | str]:
    parse_statuses(items)
    return items


def _check_pattern(pattern: str) -> str:
    if not pattern.strip("|… ").strip():
        raise ValueError("an empty phrase would match every answer; write the words that must occur")
    if len(pattern) > 300:
        raise ValueError("a phrase has at most 300 characters")
    return pattern


Statuses = Annotated[
    list[int | str],
    BeforeValidator(as_list, json_schema_input_type=int | str | list[int | str]),
    Field(min_length=1),
    AfterValidator(_check_statuses),
]
Phrase = Annotated[str, AfterValidator(_check_pattern)]
_Together = Annotated[list[Phrase], Field(min_length=2)]
Phrases = Annotated[
    list[Phrase | _Together],
    BeforeValidator(as_list, json_schema_input_type=str | list[str | list[str]]),
    Field(min_length=1),
]
"""One phrase or a list of them; one suffices. A list inside the list must occur together. `$NAME` is a named list."""
Names = Annotated[list[str], BeforeValidator(as_list, json_schema_input_type=str | list[str]), Field(min_length=1)]


def _as_names(value: object) -> object:
    items = value if isinstance(value, list) else [value]
    return [str(item) if isinstance(item, int) and not isinstance(item, bool) else item for item in items]


def _check_zone(name: str) -> str:
    if parse_zone(name) is None:
        raise ValueError(f"unknown time zone {name!r}; write an offset such as +08:00 or a name such as Asia/Shanghai")
    return name


Zone = Annotated[str, AfterValidator(_check_zone)]
"""An offset (`+08:00`) or the name of a zone (`Asia/Shanghai`)."""


Codes = Annotated[
    list[str],
    BeforeValidator(_as_names, json_schema_input_type=int | str | list[int | str]),
    Field(min_length=1),
]
"""Structured codes; a number may be written without quotes. A trailing `*` matches any ending."""
