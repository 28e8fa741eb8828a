"""No mechanism sees SQL, and nothing but the worker's module starts a thread."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STORE = ROOT / "src" / "omniroute_addon" / "store"
FILES = sorted({*(ROOT / "src").rglob("*.py"), *(ROOT / "plugins").glob("*.py")})
OUTSIDE = [path for path in FILES if STORE not in path.parents]
ENGINE = {"checkup.py", "faults.py", "migrations.py", "sqlite.py", "state_file.py"}


def imported(path: Path) -> set[str]:
    """Top names of absolute imports, and the last part of relative ones."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sql_outside_the_store(path: Path) -> None:
    assert imported(path) & {"sqlite3", "sqlite_utils"} == set()


@pytest.mark.parametrize("path", sorted(STORE.glob("*.py")), ids=lambda path: path.name)
def test_inside_the_store_everything_has_its_place(path: Path) -> None:
    names = imported(path)
    if path.name not in ENGINE:
        assert names & {"sqlite3", "sqlite_utils"} == set()
    if path.name == "memory.py":
        assert {name for name in names if name.startswith("threading.")} == {"threading.RLock"}
    elif path.name != "sqlite.py":
        assert "threading" not in names
    assert names & {"time", "random", "asyncio", "mitmproxy"} == set()
