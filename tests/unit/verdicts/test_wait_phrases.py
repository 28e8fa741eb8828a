"""Sentences that say when to try again (`CC-30`), and sentences that only sound like it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from omniroute_addon.verdicts.wait_phrases import find_wait_phrase

MONDAY = datetime(2026, 8, 24, 10, 0, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "seconds", "quote"),
    [
        ("Limit 12000. Please try again in 1.984999999s. Need more?", 1.984999999, "Please try again in 1.984999999s"),
        ("Please try again in 644ms. Visit", 0.644, "Please try again in 644ms"),
        ("Please try again in 9m38.016s.", 578.016, "Please try again in 9m38.016s"),
        ("Please retry in 8.24s.", 8.24, "Please retry in 8.24s"),
        ("Please retry after 6 seconds. Please go here", 6.0, "Please retry after 6 seconds"),
        ("Retry after 30", 30.0, "Retry after 30"),
        ("retry-after: 12.", 12.0, "retry-after: 12"),
        ("Please wait 57829 seconds before retrying.", 57829.0, "Please wait 57829 seconds"),
        ("You must wait 13 minutes and 5 seconds.", 785.0, "wait 13 minutes and 5 seconds"),
        ("please try again after 1 seconds", 1.0, "please try again after 1 seconds"),
        ("Try again later in 20 s", 20.0, "Try again later in 20 s"),
        ("quota (reset after 5m)", 300.0, "reset after 5m"),
        ("Your quota will reset after 161h39m41s.", 581_981.0, "Your quota will reset after 161h39m41s"),
        ("Resets in 164h27m24s", 592_044.0, "Resets in 164h27m24s"),
        ("Your quota will reset in 3 days.", 259_200.0, "Your quota will reset in 3 days"),
        ("Monthly limit reached. Resets in 12 days.", 1_036_800.0, "Resets in 12 days"),
        ("available again in 2 hours", 7200.0, "available again in 2 hours"),
        ("You are rate limited for 30 s", 30.0, "limited for 30 s"),
        ("Cooling down for 5m30s", 330.0, "Cooling down for 5m30s"),
        ("请在30秒后重试", 30.0, "请在30秒"),
        ("请求过于频繁，请 5 分钟后再试", 300.0, "5 分钟后再试"),
        ("限额将在 2 小时后重置", 7200.0, "将在 2 小时"),
        ("Límite excedido, inténtelo de nuevo en 30 segundos", 30.0, "inténtelo de nuevo en 30 segundos"),
        ("int\ufffdntelo de nuevo en 30 segundos", 30.0, "int\ufffdntelo de nuevo en 30 segundos"),
        ("Tente novamente em 10 minutos", 600.0, "Tente novamente em 10 minutos"),
        ("Réessayez dans 20 secondes", 20.0, "Réessayez dans 20 secondes"),
        ("Bitte warten Sie 30 Sekunden", 30.0, "Bitte warten Sie 30 Sekunden"),
        ("Sie können es in 30 Sekunden erneut versuchen", 30.0, "30 Sekunden erneut"),
        ("Riprova tra 5 minuti", 300.0, "Riprova tra 5 minuti"),
        ("повторите попытку через 30 секунд", 30.0, "повторите попытку через 30 секунд"),
        ("30秒後に再試行してください", 30.0, "30秒後に再試"),
        ("30초 후에 다시 시도하세요", 30.0, "30초 후에 다시"),
        ("try again in 3 days 4 hours 5 minutes.", 273_900.0, "try again in 3 days 4 hours 5 minutes"),
        ("Resets in 10m 11s ...", 611.0, "Resets in 10m 11s"),
        ("It resets in ~12m 36s", 756.0, "It resets in ~12m 36s"),
        ("Try again in 0:05:12", 312.0, "Try again in 0:05:12"),
        ("wait 00:05:30", 330.0, "wait 00:05:30"),
        ("Try again in 1 hour(s)", 3600.0, "Try again in 1 hour"),
        ("Next request allowed in 12 seconds", 12.0, "request allowed in 12 seconds"),
        ("The limit will be lifted in 2 hours", 7200.0, "lifted in 2 hours"),
        ("block expires in 60 seconds", 60.0, "block expires in 60 seconds"),
        ("剩余时间：35分钟", 2100.0, "剩余时间：35分钟"),
        ("请 2 小时 30 分钟后再试", 9000.0, "2 小时 30 分钟后再试"),
        ("請在 30 秒後重試", 30.0, "30 秒後重試"),
    ],
)
def test_a_length_of_time_is_found_with_its_words(text: str, seconds: float, quote: str) -> None:
    """CC-30 nos. 1, 3 to 7, 9, and the other languages."""
    phrase = find_wait_phrase(text, base=MONDAY)
    assert phrase is not None
    assert phrase.seconds == pytest.approx(seconds)
    assert phrase.quote == quote


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("You will regain access on 2026-09-01", "2026-09-01T00:00:00+00:00"),
        ("You will regain access on 2026-09-01 at 00:00 UTC.", "2026-09-01T00:00:00+00:00"),
        ("reset at 08-29 15:29:00 UTC", "2026-08-29T15:29:00+00:00"),
        ("Your limit will reset at 2026-08-29 21:01:21", "2026-08-29T21:01:21+00:00"),
        ("Limit resets at: 2026-08-27 00:15:18 UTC", "2026-08-27T00:15:18+00:00"),
        ("resets 3pm (America/New_York)", "2026-08-24T19:00:00+00:00"),
        ("session limit · resets Oct 5, 3pm (America/New_York)", "2026-10-05T19:00:00+00:00"),
        ("Try again tomorrow at 00:00 UTC", "2026-08-25T00:00:00+00:00"),
        ("for model X, please try again tomorrow", "2026-08-25T00:00:00+00:00"),
        ("Try again at 11:43 PM.", "2026-08-24T23:43:00+00:00"),
        ("or try again at Oct 12th, 2026 9:35 PM.", "2026-10-12T21:35:00+00:00"),
        ("Quota resets daily at 00:00 UTC", "2026-08-25T00:00:00+00:00"),
        ("reset at 15:29:00 UTC", "2026-08-24T15:29:00+00:00"),
        ("resets 15:29:00", "2026-08-24T15:29:00+00:00"),
        ("reset_time: 2026-08-25T00:00:00Z", "2026-08-25T00:00:00+00:00"),
        ("It will reset at 2026-08-25 19:09:00 +0800 CST. Request id: x", "2026-08-25T11:09:00+00:00"),
        ("请于 2026-09-01 00:00:00 (UTC+8) 后重试", "2026-08-31T16:00:00+00:00"),
        ("每日额度已用尽，请于明日00:00后重试", "2026-08-24T16:00:00+00:00"),
        ("Access is blocked until 2026-08-25T10:00Z", "2026-08-25T10:00:00+00:00"),
        ("Claude AI usage limit reached|1787600000", "2026-08-24T19:33:20+00:00"),
        ("您的限额将在 2026-08-25 07:41:44 重置。", "2026-08-24T23:41:44+00:00"),
        ("限额重置时间：2026-08-25 07:41:44", "2026-08-24T23:41:44+00:00"),
        ("额度已用完，2026年8月25日 08:00 恢复", "2026-08-25T00:00:00+00:00"),
        ("今日额度已用完，请明天再试", "2026-08-24T16:00:00+00:00"),
    ],
)
def test_a_point_in_time_is_found(text: str, moment: str) -> None:
    """CC-30 nos. 2 and 8. Without a zone: UTC, but in a Chinese sentence China's."""
    phrase = find_wait_phrase(text, base=MONDAY)
    assert phrase is not None and phrase.at is not None
    assert datetime.fromtimestamp(phrase.at, UTC).isoformat() == moment


@pytest.mark.parametrize(
    "text",
    [
        "upstream connect error or disconnect/reset before headers. reset reason: connection failure",
        "timed out waiting for a concurrent request slot",
        "The request timed out after 60 seconds",
        "timed out after 60 seconds, please try again",
        "Your token expires in 60 seconds",
        "Please wait a minute and try again",
        "retry in 429 tokens",
        "Rate limit of 50 per 86400s exceeded for UserByModelByDay",
        "You may retry after 3 attempts",
        "wait a few minutes for the action to propagate",
        "Please try again later. You may also contact sales",
        "Key Expiry time 2026-08-01 00:00:00 and current time 2026-08-27 00:00:00",
        "已达到 5 小时的使用上限",
        "retry in -5 seconds",
        "resets at 2026-13-45 10:00",
        "try again in " + "9" * 600 + " seconds",
        "models are available in 3 regions",
        "",
    ],
)
def test_a_time_that_promises_nothing_is_left_alone(text: str) -> None:
    assert find_wait_phrase(text, base=MONDAY) is None


def test_a_long_sentence_is_quoted_short() -> None:
    phrase = find_wait_phrase("please retry after " + "approximately " * 3 + "1 milliseconds " * 6, base=MONDAY)
    assert phrase is not None and phrase.seconds == pytest.approx(0.006)
    assert len(phrase.quote) == 120 and phrase.quote.endswith("…")


@pytest.mark.parametrize(
    "unit",
    [
        "retry ",
        "1",
        "1s",
        "try again in ",
        "9 ",
        "1:",
        "10-",
        "重试",
        "Oct 1 ",
        "in the ",
        "de nuevo en ",
        "a",
        "1秒后",
        "{",
        "|",
    ],
)
def test_no_text_takes_long(unit: str) -> None:
    """A repeated fragment of the grammar is read in milliseconds, however long."""
    text = unit * (2_000_000 // len(unit))
    started = time.process_time()
    find_wait_phrase(text, base=MONDAY)
    assert time.process_time() - started < 0.1
