"""The corpus as a test: what the bundled rules have reached, they keep (issue 3, "To reach" and "Proof").

The figures only rise. After an improvement, write the new ones here; `omniroute rules score corpus/errors.jsonl` shows
them. A case that was added and is read wrongly may lower a share: then fix the rule, not the figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import load_packs
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.verdicts.corpus import load_corpus
from omniroute_addon.verdicts.score import COSTLY, score

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "errors.jsonl"

# field: (strict, lenient, macro strict, macro lenient)
KNOWN = {
    "kind": (0.989, 1.0, 0.989, 1.0),
    "scope": (0.974, 1.0, 0.974, 1.0),
    "retry_other": (0.992, 1.0, 0.988, 1.0),
    "terminal": (0.992, 1.0, 0.987, 1.0),
    "retry_after_s": (1.0, 1.0, 1.0, 1.0),
    "retry_after_from": (1.0, 1.0, 1.0, 1.0),
    "breaker": (0.992, 1.0, 0.994, 1.0),
}
UNKNOWN = {
    "kind": (0.967, 0.992, 0.970, 0.995),
    "scope": (0.945, 0.985, 0.942, 0.982),
    "retry_other": (0.989, 0.996, 0.985, 0.996),
    "terminal": (0.981, 1.0, 0.974, 1.0),
    "retry_after_s": (1.0, 1.0, 1.0, 1.0),
    "retry_after_from": (1.0, 1.0, 1.0, 1.0),
    "breaker": (0.992, 1.0, 0.994, 1.0),
}
COSTLY_KNOWN = dict.fromkeys(COSTLY, 0)
COSTLY_UNKNOWN = COSTLY_KNOWN | {"too_wide": 1, "lost_request": 1}


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    packs, problems = load_packs(pack_folders()[:1])
    assert problems == []
    categories = {provider.id: provider.category for provider in packs.providers.values()}
    book = RuleBook.build(packs.rules, categories=categories)
    assert book.problems == ()
    return score(load_corpus(CORPUS), book, packs)


@pytest.mark.parametrize("known", [True, False], ids=["provider known", "provider not known"])
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_figure_is_kept(report: dict[str, Any], name: str, known: bool) -> None:
    part, reached = (report, KNOWN) if known else (report["without_provider"], UNKNOWN)
    columns = ("strict", "lenient", "macro_strict", "macro_lenient")
    short = {
        column: (part["fields"][name][column], figure)
        for column, figure in zip(columns, reached[name], strict=True)
        if part["fields"][name][column] < figure
    }
    assert not short, f"{name} fell (now, reached): {short}"


@pytest.mark.parametrize("known", [True, False], ids=["provider known", "provider not known"])
@pytest.mark.parametrize("mistake", COSTLY)
def test_no_costly_mistake_is_added(report: dict[str, Any], mistake: str, known: bool) -> None:
    part, reached = (report, COSTLY_KNOWN) if known else (report["without_provider"], COSTLY_UNKNOWN)
    assert len(part["costly"][mistake]) <= reached[mistake], part["costly"][mistake]


def test_what_the_issue_asks_for_is_reached(report: dict[str, Any]) -> None:
    """Issue 3, "To reach"."""
    fields = report["fields"]
    assert fields["kind"]["macro_lenient"] >= 0.97 and fields["kind"]["macro_strict"] >= 0.90
    assert fields["retry_after_s"]["lenient"] >= 0.98
    assert all(fields[name]["lenient"] >= 0.95 for name in ("scope", "retry_other", "terminal", "breaker"))
    for part in (report, report["without_provider"]):
        assert part["costly"]["lookalike_misread"] == []
        assert part["costly"]["healthy_taken_out"] == []
