"""A time that a provider states without a zone is of the zone that its pack names (CC-30; `CC-23` for the header)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from verdict_answers import NOW, answer

from omniroute_addon.model import Verdict
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.verdicts import PackRules, RuleBook

DATE = {"date": "Fri, 11 Sep 2026 16:19:02 GMT"}
"""Half an hour before the stamps below, if they are Beijing's."""
ENGLISH = "[1308][Usage limit reached for 5 hour. Your limit will reset at 2026-09-12 00:35:41]"
CHINESE = "已达到 5 小时的使用上限。您的限额将在 2026-09-12 00:35:41 重置。"
BEIJING_S, UTC_S = 999.0, 999.0 + 8 * 3600


@dataclass(frozen=True, kw_only=True)
class File:
    lists: PackRules
    file: str = "rules/x.yaml"
    lines: dict[str, int] = field(default_factory=dict)


def body(message: str) -> dict[str, Any]:
    return {"error": {"code": "1308", "message": message}}


@pytest.mark.parametrize(
    ("provider", "message", "seconds"),
    [
        ("zai", ENGLISH, BEIJING_S),
        ("zhipu", ENGLISH, BEIJING_S),
        ("zhipu", CHINESE, BEIJING_S),
        ("zai", ENGLISH.replace("00:35:41", "00:35:41 UTC"), UTC_S),
        (None, ENGLISH, UTC_S),
        ("openai", ENGLISH, UTC_S),
        ("openai", CHINESE, BEIJING_S),
    ],
)
def test_glm_means_beijing_time(
    judge: Callable[..., Verdict], provider: str | None, message: str, seconds: float
) -> None:
    """A zone that is written wins; Chinese is Beijing's for anybody; nobody else's English is."""
    wait = judge(429, body(message), headers=DATE, provider=provider).retry_after
    assert wait is not None
    assert wait.seconds == seconds
    assert wait.source.startswith("text:")


def test_the_header_still_comes_first(judge: Callable[..., Verdict]) -> None:
    headers = {**DATE, "retry-after-ms": "997000"}
    wait = judge(429, body(ENGLISH), headers=headers, provider="zai").retry_after
    assert wait is not None
    assert (wait.seconds, wait.source) == (997.0, "header:retry-after-ms")


def test_the_users_file_has_the_last_word() -> None:
    """Of one owner the user's file comes first; a name of a zone does as well as an offset."""
    files = [File(lists=PackRules(timezone="Europe/Berlin")), File(lists=PackRules(timezone="+08:00"))]
    book = RuleBook.build({"p": files})
    asked = answer(429, body(ENGLISH), headers=DATE)
    wait = book.judge(asked, provider="P", dialect=None, now=NOW).retry_after
    assert wait is not None
    assert wait.seconds == 999.0 + 6 * 3600


def test_a_pack_of_the_user_may_say_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "zai.yaml").write_text("id: zai\ntimezone: UTC\n", "utf-8")
    folders = [PackFolder(path=bundled_rules(), label="rules"), PackFolder(path=tmp_path, label="own")]
    packs, problems = load_packs(folders)
    assert problems == []
    book = RuleBook.build(packs.rules)
    wait = book.judge(answer(429, body(ENGLISH), headers=DATE), provider="zai", dialect=None, now=NOW).retry_after
    assert wait is not None
    assert wait.seconds == UTC_S


@pytest.mark.parametrize("written", ["Beijing", "+99:00", "", "Asia/Nowhere", "+08:00 or so", "CST"])
def test_an_unknown_zone_is_refused_with_what_is_allowed(written: str) -> None:
    with pytest.raises(ValueError, match="write an offset such as \\+08:00 or a name such as Asia/Shanghai"):
        PackRules(timezone=written)
