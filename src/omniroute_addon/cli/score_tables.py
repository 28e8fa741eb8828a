"""How well the rules read a corpus, as tables for people."""

from __future__ import annotations

from typing import Any


def score_tables(part: dict[str, Any]) -> str:
    """One half of a report of `verdicts.score.score`: with the provider known, or without."""
    from tabulate import tabulate

    def percent(share: float) -> str:
        return f"{share:.1%}"

    columns = ("strict", "lenient", "macro_strict", "macro_lenient")
    fields = [(name, *(percent(row[c]) for c in columns)) for name, row in part["fields"].items()]
    blocks = [tabulate(fields, headers=("field", *(c.replace("_", " ") for c in columns)), tablefmt="plain")]
    names = ("kind", "scope", "retry_other", "terminal", "retry_after_s", "breaker")
    for key, title in (("per_kind", "kind"), ("per_provider", "provider")):
        flawed = {group: row for group, row in part[key].items() if any(row[name]["strict"] < 1 for name in names)}
        rows = [
            (group, row["cases"], *(f"{percent(row[n]['strict'])} {percent(row[n]['lenient'])}" for n in names))
            for group, row in flawed.items()
        ]
        heading = (
            f"Strict and lenient shares by {title}; all fields of the other {len(part[key]) - len(rows)} are right:"
        )
        blocks.append(f"{heading}\n\n{tabulate(rows, headers=(title, 'cases', *names), tablefmt='plain')}")
    costly = [(name.replace("_", " "), len(ids), "\n".join(ids) or "-") for name, ids in part["costly"].items()]
    blocks.append(tabulate(costly, headers=("costly mistake", "count", "cases"), tablefmt="plain"))
    return "\n\n".join(blocks) + "\n"
