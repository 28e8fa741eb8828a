"""Lengths of time as people and providers write them: `5m30s`, `644ms`, `in 3 days`, `30 秒`, `PT1M`, `01:30:00`.

Every quantifier is bounded and every part starts at a digit that no digit precedes, so a match costs a constant per
character of the text, whatever the text holds.
"""

from __future__ import annotations

import re

_UNITS: dict[float, str] = {
    0.001: "ms|msec|msecs|millis|millisecond|milliseconds|毫秒|ミリ秒|밀리초|milisegundos|millisekunden",
    1.0: (
        "s|sec|secs|second|seconds|秒|秒钟|秒鐘|초|segundo|segundos|seconde|secondes|sekunde|sekunden"
        "|secondo|secondi|сек|секунд|секунду|секунды|giây|detik"
    ),
    60.0: (
        "m|min|mins|minute|minutes|分|分钟|分鐘|분|minuto|minutos|minuten|minuti|мин|минут|минуту|минуты|phút|menit"
    ),
    3600.0: (
        "h|hr|hrs|hour|hours|小时|个小时|小時|個小時|时|時間|시간|hora|horas|heure|heures|stunde|stunden|ora|ore"
        "|час|часа|часов|giờ|jam"
    ),
    86400.0: ("d|day|days|天|日|일|día|días|dia|dias|jour|jours|tag|tage|tagen|giorno|giorni|день|дня|дней|ngày|hari"),
    604800.0: (
        "w|wk|week|weeks|周|星期|週間|주|semana|semanas|semaine|semaines|woche|wochen|settimana"
        "|settimane|неделя|неделю|недели|недель"
    ),
}
"""Length of a unit in seconds -> its names. English, Chinese, Japanese, Korean, Spanish, Portuguese, French, German,
Italian, Russian, Vietnamese, Indonesian: the languages that relays in front of the large providers answer in."""

_SECONDS = {name: length for length, names in _UNITS.items() for name in names.split("|")}
_UNIT = "|".join(sorted(map(re.escape, _SECONDS), key=len, reverse=True))

_NUMBER = r"\d{1,3}(?:,\d{3}){1,4}(?![\d.,]\d)|\d{1,15}(?:\.\d{1,15})?"
# ASCII keeps IGNORECASE from folding letters such as the long s into our unit names.
_FLAGS = re.IGNORECASE | re.ASCII
_PART = rf"({_NUMBER})\s{{0,3}}({_UNIT})(?![a-zà-ÿа-я])"
_ONE_PART = re.compile(_PART, _FLAGS)
_MORE = re.compile(rf"[\s,]{{0,3}}(?:(?:and|und|et|y|e)\s)?{_PART}", _FLAGS)
_NOT_BEFORE = frozenset("0123456789.,-")
_MAX_PARTS = 6
_NUMBER_ALONE = re.compile(r"\d{1,20}(?:\.\d{1,20})?|\.\d{1,20}")
_CLOCK = re.compile(r"(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.\d{1,9})?(?![:\d])")
_ISO = re.compile(r"P(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,9}(?:\.\d{1,9})?)S)?)?", _FLAGS)
# "wait a minute" is a manner of speaking, "in an hour" is not.
_ONE = re.compile(r"(?:one\s(?=minute|hour|day|week)|an\s(?=hour)|a\s(?=day|week))(minute|hour|day|week)\b", _FLAGS)


def match_duration(text: str, at: int = 0) -> tuple[float, int] | None:
    """The duration that begins exactly at `at`: (seconds, end), or None. A bare number is not a duration."""
    if at and text[at - 1] in _NOT_BEFORE:
        return None
    if found := _ONE_PART.match(text, at):
        seconds, end, parts = 0.0, at, 0
        while found and parts < _MAX_PARTS:
            seconds += float(found[1].replace(",", "")) * _SECONDS[found[2].lower()]
            end, parts = found.end(), parts + 1
            found = _MORE.match(text, end)
        return seconds, end
    if found := _ONE.match(text, at):
        return _SECONDS[found[1].lower()], found.end()
    return None


def match_countdown(text: str, at: int = 0) -> tuple[float, int] | None:
    """A duration in the form of a clock, `0:05:12`: only where the words around it say that it is no time of day."""
    found = None if at and text[at - 1] in _NOT_BEFORE else _CLOCK.match(text, at)
    if not found:
        return None
    hours, minutes, seconds = map(int, found.groups())
    return float(hours * 3600 + minutes * 60 + seconds), found.end()


def parse_duration(text: str) -> float | None:
    """Seconds of a text that is a duration and nothing else: `6m0s`, `644ms`, `26.66s`, `PT90S`, `45` (`CC-29`).

    None for anything else, also for signs, `nan`, `inf` and numbers of more than 20 digits (`CC-33`).
    """
    text = text.strip()
    if (number := parse_number(text)) is not None:
        return number
    if (found := match_duration(text) or match_countdown(text)) and found[1] == len(text):
        return found[0]
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        return sum(float(part or 0) * length for part, length in zip(iso.groups(), (86400, 3600, 60, 1), strict=True))
    return None


def parse_number(text: str) -> float | None:
    """A plain non-negative decimal number of at most 20 digits before and after the point."""
    return float(text) if len(text) <= 41 and text.isascii() and _NUMBER_ALONE.fullmatch(text) else None
