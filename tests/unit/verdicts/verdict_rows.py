"""Rows of the ordered tables of `spec/05`, as answers that more than one row would match."""

from __future__ import annotations

from typing import Any, NamedTuple

from verdict_answers import NOW, answer

from omniroute_addon.verdicts import RuleBook


class Row(NamedTuple):
    name: str
    status: int
    body: Any
    decides: str
    """Id of the rule of this row."""
    later: str | None
    """Id of a rule further down that would match this answer too; None for the very last."""
    wanted: dict[str, Any]
    """Fields of the verdict."""
    asked: dict[str, Any] = {}  # noqa: RUF012 - never changed


def error(message: str = "", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


def check(book: RuleBook, row: Row) -> None:
    """The row's rule decides what the row says, and the later rule would have decided otherwise."""
    more = dict(row.asked)
    provider = more.pop("provider", None)
    asked = answer(row.status, row.body, **more)
    verdict = book.judge(asked, provider=provider, dialect=None, now=NOW)
    got = {name: getattr(verdict, name) for name in row.wanted}
    assert (verdict.rule.id, got) == (row.decides, row.wanted)
    if row.later is not None:
        assert row.later != row.decides
        assert book.matches(row.later, asked, provider=provider, dialect=None)
