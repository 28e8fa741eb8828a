"""The documentation shows the table that decides."""

from __future__ import annotations

from pathlib import Path

from omniroute_addon.breaker.diagram import mermaid, rows
from omniroute_addon.breaker.table import TABLE, State

PAGE = Path(__file__).resolve().parents[3] / "docs" / "circuit-breaker.md"


def test_the_page_has_the_diagram_of_the_table() -> None:
    assert mermaid() in PAGE.read_text(encoding="utf-8")


def test_every_change_of_state_is_an_arrow() -> None:
    changes = [(str(state), str(row.to)) for (state, _), row in TABLE.items() if row.to is not state]
    arrows = [tuple(line.partition(":")[0].split(" --> ")) for line in mermaid().splitlines()[2:]]
    assert [(a.strip(), b) for a, b in arrows] == changes


def test_the_table_of_the_page_is_complete() -> None:
    assert len(list(rows())) == len(TABLE)
    assert {row[0] for row in rows()} == set(State)
