"""Names that only the source knows: headers and labels, found in its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "omniroute_addon"


def _constants(pattern: str, files: Iterable[Path]) -> set[str]:
    """Whole string and bytes constants that match, docstrings aside."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if re.fullmatch(pattern, text):
                    found.add(text)
    return found


def sources() -> list[Path]:
    """Every Python file that runs inside the proxy."""
    own = [p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in ("cli", "testing")]
    return [*own, *(ROOT / "plugins").glob("*.py")]


def header_names() -> set[str]:
    """Every header of ours that the proxy reads or writes."""
    return _constants(r"x-omniroute-[a-z-]*[a-z]", sources())


def exclusion_labels() -> set[str]:
    """Every label that an `Exclusion` may be made with: what plugins write for `label`, as a text or a constant."""
    found: set[str] = set()
    for file in sources():
        if file.parent.name not in ("plugins", "cooldown") and file.name != "engine.py":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), file)):
            if isinstance(node, ast.keyword) and node.arg == "label":
                found |= _texts(node.value)
            elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(ast.unparse(target).lower().endswith("label") for target in targets):
                    found |= _texts(node.value)
    return found


def _texts(node: ast.expr) -> set[str]:
    """The text constants that an expression may be: itself, or either side of `a if b else c`."""
    if isinstance(node, ast.IfExp):
        return _texts(node.body) | _texts(node.orelse)
    return {node.value} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()
