"""The bundled rules, compiled once: what the proxy itself would judge by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from verdict_answers import NOW, answer

from omniroute_addon.model import Verdict
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import Packs, bundled_rules, load_packs
from omniroute_addon.verdicts import RuleBook


@pytest.fixture(scope="session")
def packs() -> Packs:
    packs, problems = load_packs([PackFolder(path=bundled_rules(), label="rules")])
    assert problems == []
    return packs


@pytest.fixture(scope="session")
def book(packs: Packs) -> RuleBook:
    book = RuleBook.build(packs.rules, categories={name: p.category for name, p in packs.providers.items()})
    assert book.problems == ()
    return book


@pytest.fixture(scope="session")
def judge(book: RuleBook) -> Callable[..., Verdict]:
    """`judge(status, body, headers=…, provider=…, dialect=…)`."""

    def judge(
        status: int, body: Any = b"", *, provider: str | None = None, dialect: str | None = None, **more: Any
    ) -> Verdict:
        return book.judge(answer(status, body, **more), provider=provider, dialect=dialect, now=NOW)

    return judge
