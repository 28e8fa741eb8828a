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
    """Every label that an `Exclusion` is made with: a text, a constant of the same file, or a value's own `.label`,
    which is one of the constants that are called so. Raises KeyError for others."""
    found: set[str] = set()
    for file in sources():
        tree = ast.parse(file.read_text(encoding="utf-8"), file)
        constants = {
            ast.unparse(node.targets[0]): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        }
        found |= {str(value) for name, value in constants.items() if name.endswith("LABEL")}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Exclusion":
                values = (k.value for k in node.keywords if k.arg == "label" and not isinstance(k.value, ast.Attribute))
                found |= {str(v.value if isinstance(v, ast.Constant) else constants[ast.unparse(v)]) for v in values}
    return found
