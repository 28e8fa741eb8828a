"""Points in time as people and providers write them, with or without year, day or zone.

All functions are pure: `base` is the moment the text was written (epoch seconds, from the answer's `date` header or
the injected clock) and settles what the text leaves out: the year of `08-29`, the day of `3pm`, the date of `tomorrow`.
A text without a zone is UTC (`CC-30`, table no. 2) unless the caller knows better. Impossible dates (month 13, an
unknown zone, year 0) give None, never an exception.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

CHINA = timezone(timedelta(hours=8), "UTC+8")

_FLAGS = re.IGNORECASE | re.ASCII
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTH = r"(?P<name>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,7}\.?"
_TIME = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d{1,9})?)?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?"
_COLON_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d{1,9})?)?(?:\s?(?P<half>[ap])\.?m\b\.?)?"
_HALF_TIME = r"(?P<hour>\d{1,2})(?:\s?(?P<half>[ap])\.?m\b\.?)"
_CLOCK_AHEAD = r"\d{1,2}(?::|\s?[ap]\.?m\b)"
_AT = r"(?:T|\s{1,2}(?:at\s)?|,\s?(?:at\s)?)"
_SHAPES = tuple(
    re.compile(shape, _FLAGS)
    for shape in (
        # 2026-08-29 21:01:21, 2026-08-29T21:01Z, 2026/8/29, 2026-04-01 at 00:00
        rf"(?P<year>\d{{4}})[-/](?P<month>\d{{1,2}})[-/](?P<day>\d{{1,2}})(?!\d)(?:{_AT}{_COLON_TIME})?",
        # 08-29 15:29:00
        rf"(?P<month>\d{{1,2}})-(?P<day>\d{{1,2}})\s{_COLON_TIME}",
        # 2026年8月25日 07:41
        rf"(?:(?P<year>\d{{4}})年)?(?P<month>\d{{1,2}})月(?P<day>\d{{1,2}})日(?:\s{{0,2}}{_COLON_TIME})?",
        # Oct 5, 2026 at 3pm · Oct 5 15:00 · Oct 5, 3pm
        rf"{_MONTH}\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])(?:,?\s(?P<year>\d{{4}})(?![\d:]))?(?:{_AT}(?:{_TIME}))?",
        # Sat, 29 Aug 2026 15:00:00 · 29 August at 15:00
        rf"(?:[a-z]{{3,9}},\s)?(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[\s-]{_MONTH}(?:[\s-](?P<year>\d{{4}})(?![\d:]))?"
        rf"(?:{_AT}(?:{_TIME}))?",
        # tomorrow at 00:00 · midnight · 明天 · Monday at 9am
        rf"(?P<word>tomorrow|today|midnight|noon|明天|明日|次日|今天)(?:{_AT}?(?={_CLOCK_AHEAD}){_TIME})?",
        rf"(?P<weekday>mon|tue|wed|thu|fri|sat|sun)(?:day|sday|nesday|rsday|urday)?\b,?(?:{_AT}(?:{_TIME}))?",
        # 15:29 · 3:05pm · 3pm
        _COLON_TIME,
        _HALF_TIME,
    )
)
_EPOCH = re.compile(r"\d{10}(?:\d{3})?(?:\.\d{1,9})?(?![\d.]?\d)", re.ASCII)
_ZONE = re.compile(
    r"\s{0,2}\(?(?:(?P<iana>[A-Za-z]{2,20}/[A-Za-z_+-]{2,30}(?:/[A-Za-z_]{2,30})?)"
    r"|(?:UTC|GMT)?(?P<sign>[+-])(?P<h>\d{1,2})(?::?(?P<m>\d{2}))?(?!\d)"
    r"|(?P<abbr>UTC|GMT|Z|PST|PDT|MST|MDT|CDT|EST|EDT|BST|CEST|CET|JST|KST)\b"
    r"|(?P<china>北京时间|中国标准时间))\)?",
    re.IGNORECASE,
)
# CST, IST and the like name several zones each and are therefore not here.
_ABBREVIATIONS = {
    "utc": 0, "gmt": 0, "z": 0, "pst": -8, "pdt": -7, "mst": -7, "mdt": -6, "cdt": -5, "est": -5, "edt": -4,
    "bst": 1, "cet": 1, "cest": 2, "jst": 9, "kst": 9,
}  # fmt: skip
_EPOCH_MS_ABOVE = 10_000_000_000
"""`CC-26`: above it an epoch number is milliseconds."""
EPOCH_FROM = 1_000_000_000
"""A number from here on (September 2001) is a point in time, below it a length of time."""


def parse_epoch(number: float) -> float | None:
    """Epoch seconds of a number in seconds or milliseconds (`CC-26`); None when it is too small to be an epoch."""
    if not EPOCH_FROM <= number < float("inf"):
        return None
    return number / 1000 if number > _EPOCH_MS_ABOVE else number


def parse_http_date(text: str) -> float | None:
    """Epoch seconds of an HTTP date (`CC-24`); one without a zone is UTC."""
    if len(text) > 64:
        return None
    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def parse_instant(text: str, *, base: float) -> float | None:
    """Epoch seconds of a text that is a point in time and nothing else (ISO 8601, HTTP date, the shapes below)."""
    text = text.strip()
    if len(text) > 64:
        return None
    if (found := match_instant(text, 0, base=base)) and found[1] == len(text):
        return found[0]
    return parse_http_date(text)


def parse_zone(text: str) -> tzinfo | None:
    """The zone that a text names and nothing else: `+08:00`, `UTC`, `Asia/Shanghai`; None for an unknown one."""
    named = _ZONE.fullmatch(text.strip()) if len(text) <= 64 else None
    return _zone(named) if named else None


def match_instant(text: str, at: int, *, base: float, zone: tzinfo = UTC) -> tuple[float, int] | None:
    """The point in time that begins exactly at `at`: (epoch seconds, end), or None.

    `zone` is used when the text names none. A zone that is named but unknown makes the whole thing unusable.
    """
    if found := _EPOCH.match(text, at):
        number = parse_epoch(float(found.group()))
        return (number, found.end()) if number is not None else None
    for shape in _SHAPES:
        if not (found := shape.match(text, at)):
            continue
        end = found.end()
        if named := _ZONE.match(text, end):
            known = _zone(named)
            if known is None:
                return None
            zone, end = known, named.end()
        try:
            moment = _moment({k: v for k, v in found.groupdict().items() if v}, base=base, zone=zone)
            return moment.timestamp(), end
        except (ValueError, OverflowError):
            return None
    return None


def _moment(parts: dict[str, str], *, base: float, zone: tzinfo) -> datetime:
    """Fill in what the text left out: the next such moment after `base`."""
    start = datetime.fromtimestamp(base, zone)
    hour, minute, second = _clock(parts)
    day = start.replace(hour=hour, minute=minute, second=second, microsecond=0)
    if "month" in parts or "name" in parts:
        month = int(parts["month"]) if "month" in parts else _MONTHS.index(parts["name"].lower()) + 1
        moment = day.replace(year=int(parts.get("year", start.year)), month=month, day=int(parts["day"]))
        return moment if "year" in parts or moment > start else moment.replace(year=moment.year + 1)
    if "weekday" in parts:
        ahead = (_WEEKDAYS.index(parts["weekday"].lower()) - start.weekday()) % 7
        day += timedelta(days=ahead)
        return day if day > start else day + timedelta(days=7)
    word = parts.get("word", "").lower()
    if word in ("tomorrow", "明天", "明日", "次日"):
        return day + timedelta(days=1)
    if word in ("today", "今天"):
        return day
    return day if day > start else day + timedelta(days=1)


def _clock(parts: dict[str, str]) -> tuple[int, int, int]:
    hour = int(parts.get("hour") or (12 if parts.get("word", "").lower() == "noon" else 0))
    half = parts.get("half", "").lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("a twelve-hour clock shows 1 to 12")
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour, int(parts.get("minute", 0)), int(parts.get("second", 0))


def _zone(named: re.Match[str]) -> tzinfo | None:
    if name := named["iana"]:
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):  # unknown, malformed, or a folder of the zone database
            return None
    if named["china"]:
        return CHINA
    if abbreviation := named["abbr"]:
        return timezone(timedelta(hours=_ABBREVIATIONS[abbreviation.lower()]))
    offset = timedelta(hours=int(named["h"]), minutes=int(named["m"] or 0))
    return timezone(offset if named["sign"] == "+" else -offset) if offset < timedelta(hours=24) else None
