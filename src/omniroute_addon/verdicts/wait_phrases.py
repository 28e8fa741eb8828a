"""Sentences that say when to try again, in the languages that providers and relays answer in.

A sentence is an *anchor* ("try again", "resets", 重试) with a time close by: after it in most languages ("try again in
17 seconds"), before it where the grammar wants that (`30秒后重试`, "in 30 Sekunden erneut"). Anchors are narrow on
purpose: a time that merely stands in an error ("timed out after 60 seconds", "limit of 50 per 86400s") is no promise.

Both scans run forward once over at most 8 KiB with bounded look-ahead and a bounded number of tries: linear, and cheap
on hostile text. A text that talks about time more often than that is not an error message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, tzinfo
from itertools import islice

from .durations import match_countdown, match_duration, parse_number
from .instants import CHINA, match_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPhrase:
    """A stated time as it stands in a text."""

    quote: str
    """The words that say so, from the anchor to the end of the time or the other way round."""
    seconds: float | None = None
    """Length of the wait, when the text gives a length."""
    at: float | None = None
    """Epoch seconds, when the text gives a point in time."""


_ANCHOR = re.compile(
    "|".join(
        (
            # English
            r"(?<![a-z])retry[-_]after(?![a-z])",
            r"(?<![a-z])(?:please\s|pls\s)?(?:try(?:ing)?\s(?:your\srequest\s|the\srequest\s|this\smodel\s)?again"
            r"|retry(?:ing)?(?![a-z])(?:\syour\srequest|\sthe\srequest)?|retried|wait(?![a-z])|come\sback|check\sback)",
            r"(?<![a-z_-])(?:(?:your|the|current)\s)?(?:[a-z]{2,12}\s)?(?:will\s)?(?:be\s)?"
            r"(?:reset|resets|resetting|renews?|renewed|refresh(?:es|ed)?|replenish(?:es|ed)?|restored?|unblocked)(?:[\s_]time)?(?![a-z])",
            r"(?<![a-z])(?:you\swill\s)?regain\saccess",
            r"(?<![a-z])(?:lifted|allowed\sagain|request\sallowed)(?=\s(?:in|at|after|on)\b)",
            r"(?<![a-z])(?:limit|block|ban|restriction|penalty)\s(?:ends|expires)(?![a-z])",
            r"(?<![a-z])(?:available|possible)(?:\sagain)?(?=\s(?:again|in|at|after|on|from)\b)",
            r"(?<![a-z])(?:limited|throttled|blocked|locked|paused|suspended|unavailable|cooling\sdown|in\scooldown"
            r"|on\scooldown)\s(?=for\b|until\b|till\b)",
            r"(?<![a-z])(?:cooldown|cool-down)(?:\sremaining|\sends)?(?=[:\s])",
            r"(?<![a-z])limit\sreached(?=\|)",
            # Spanish, Portuguese
            r"(?<![a-z])(?:por\sfavor,?\s)?(?:[\w\ufffd]{4,14}\s)?(?:de\snuevo|nuevamente|otra\svez|novamente)(?=\s(?:en|em|dentro|dentro\sde|después|após)\b)",
            r"(?<![a-z])(?:espere|espera|aguarde|reintente|reintentar|vuelva\sa\sintentarlo)(?![a-z])",
            # French
            r"(?<![a-z])(?:veuillez\s)?(?:réessaye[zr]|réessayer|patiente[zr]|attende[zr]|attendre)(?![a-z])",
            # German
            r"(?<![a-z])(?:bitte\s)?(?:versuchen\ssie\ses|versuche\ses|warten(?:\ssie)?|warte)(?![a-z])",
            # Italian
            r"(?<![a-z])(?:riprova|riprovare|riprovi|attendi|attendere)(?![a-z])",
            # Russian
            r"(?:повторите|попробуйте|подождите|попытку)",
            # Vietnamese, Indonesian
            r"(?:thử\slại|coba\slagi)",
            # Chinese, Japanese, Korean, where the time may also follow
            r"(?:重置|恢复|刷新|解除|解封|重试|再试)(?:时间|時間)?",
            r"(?:请在|请于|请等待|等待|请稍候|将于|将在|需等待|还需|剩余(?:时间)?)",
        )
    ),
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:[\s:=~≈|,\"'()\[\]*`：，（“]"
    r"|(?:in|after|at|on|for|until|till|about|around|approximately|approx\.?|roughly|another|the|a\sfurther|least|is|be|will"
    r"|time|again|date|later|than|no|earlier|or|more|request|your|once|limit|window|quota|starting|from|daily|weekly|monthly|every\sday|each\sday"
    r"|en|em|de|dans|dentro|después|após|tra|fra|через|sau|dalam|erneut|nochmal|noch|pendant|per|für|ещё|по|попытку|запрос)"
    r"(?![a-zà-ÿа-я])"
    r"|为|是|于|在|还有|还需|剩余|约|大约|将|后|再过){0,10}",
    re.IGNORECASE,
)
_SECONDS_UNDERSTOOD = re.compile(r"(?:retry|wait)\b", re.IGNORECASE)
_LENGTH_FOLLOWS = re.compile(r"\b(?:in|after|for|wait|cooldown)\b", re.IGNORECASE)
_ENDS = re.compile(r"\s{0,2}(?:$|[.,;)\"'\]}!\n]|before\b)")

# The time first, then what becomes possible.
_NUMBER_START = re.compile(r"(?<![\d.,:/-])\d")
_VERB_AFTER = re.compile(
    r"(?:"
    r"\s{0,2}(?:之后|以后|后|後)[\s,，]{0,2}.{0,8}?(?:重试|重試|再试|再試|重置|恢复|恢復|刷新|解除|解封|可用|再次|再行|再请求)"
    r"|\s{0,2}(?:之?内|内).{0,4}?重置"
    r"|[\s)）]{0,2}(?:重置|重設|恢复|恢復|刷新|解除|解封|可用|重试|之后重试|起可)"
    r"|\s{0,2}(?:後|经過|経過).{0,6}?(?:再試行|再度|もう一度|お試し|やり直)"
    r"|\s{0,2}(?:후|뒤).{0,6}?(?:다시|재시도|시도)"
    r"|\s(?:erneut|nochmals?|wieder)\b"
    r"|\s(?:before|until)\s(?:retry|trying|the\snext|your\snext|you\scan|making|sending)"
    r")",
    re.IGNORECASE,
)
_CJK = re.compile(r"[\u4e00-\u9fff]")
_TOMORROW = re.compile(r"(?:请|請)?(?:于|在)?(明天|明日|次日)(?:再试|再试|再来|重试|再|恢复|重置)")
_LONGEST_QUOTE = 120
_MOST_CHARACTERS = 8192
_MOST_TRIES = 64
_WORTH_READING = re.compile(
    "try|trie|wait|back|reset|renew|refresh|replen|restor|unblock|regain|available|possible|limited|throttl|blocked"
    "|locked|paused|suspended|cool|limit reached|lifted|allowed|ends|expires|nuev|novamente|vez|espere|espera|aguarde"
    "|reint|patient|attend|essay|such|warte|riprov|повтор|попы|попроб|подожд|thử|coba|erneut|wieder"
    "|[重恢刷解再请等将需剩明次後후뒤经経]",
    re.IGNORECASE,
)
_BARE_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,15})?")


def find_wait_phrase(text: str, *, base: float, zone: tzinfo = UTC) -> WaitPhrase | None:
    """The first sentence of `text` that says when to try again; `base` is when it was said (epoch seconds).

    A time without a zone is of `zone`; in a sentence in Chinese it is Beijing's.
    """
    text = text[:_MOST_CHARACTERS]
    if not _WORTH_READING.search(text):
        return None
    # A sentence in Chinese is written for one time zone; any other says it by who wrote it, or is read as UTC.
    if _CJK.search(text):
        zone = CHINA
    for anchor in islice(_ANCHOR.finditer(text), _MOST_TRIES):
        start = _FILLER.match(text, anchor.end())
        at = start.end() if start else anchor.end()
        if phrase := _time_at(text, at, anchor.start(), base, zone):
            return phrase
        if _SECONDS_UNDERSTOOD.search(anchor.group()) and (phrase := _bare_seconds(text, at, anchor)):
            return phrase
    for number in islice(_NUMBER_START.finditer(text), _MOST_TRIES):
        timed = _read(text, number.start(), base, zone)
        if timed and (verb := _VERB_AFTER.match(text, timed[2])):
            quote = text[number.start() : verb.end()]
            return WaitPhrase(quote=_short(quote), seconds=timed[0], at=timed[1])
    if tomorrow := _TOMORROW.search(text):
        found = match_instant(text, tomorrow.start(1), base=base, zone=zone)
        return WaitPhrase(quote=tomorrow.group(), at=found[0]) if found else None
    return None


def _read(
    text: str, at: int, base: float, zone: tzinfo, *, countdown: bool = False
) -> tuple[float | None, float | None, int] | None:
    """(length, point in time, end) of the time at `at`; one of the first two is None."""
    if duration := match_duration(text, at):
        return duration[0], None, duration[1]
    if countdown and (duration := match_countdown(text, at)):
        return duration[0], None, duration[1]
    if instant := match_instant(text, at, base=base, zone=zone):
        return None, instant[0], instant[1]
    return None


def _time_at(text: str, at: int, start: int, base: float, zone: tzinfo) -> WaitPhrase | None:
    # "in 0:05:12" is a length, "at 15:29:00" a time of day.
    timed = _read(text, at, base, zone, countdown=_LENGTH_FOLLOWS.search(text[start:at]) is not None)
    if timed is None:
        return None
    seconds, instant, end = timed
    return WaitPhrase(quote=_short(text[start:end]), seconds=seconds, at=instant)


def _bare_seconds(text: str, at: int, anchor: re.Match[str]) -> WaitPhrase | None:
    """`retry after 30`: seconds, when nothing that could be a unit follows."""
    digits = _BARE_NUMBER.match(text, at)
    if not digits or at == anchor.end() or not _ENDS.match(text, digits.end()):
        return None
    return WaitPhrase(quote=_short(text[anchor.start() : digits.end()]), seconds=parse_number(digits.group()))


def _short(quote: str) -> str:
    return quote if len(quote) <= _LONGEST_QUOTE else quote[: _LONGEST_QUOTE - 1] + "…"
