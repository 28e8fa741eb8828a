"""Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable


def table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; cells may hold anything but line breaks."""
    lines = [list(headers)]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""
