"""`scripts/demo` (issue 2, point 3): it happens as told, and the README shows it as it looks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def demo(**environment: str) -> list[str]:
    """Lines of a run that must end well; not a terminal, so without colour."""
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py"],
        capture_output=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )
    assert done.returncode == 0, done
    assert b"\x1b[" not in done.stdout
    return [line.rstrip() for line in done.stdout.decode().splitlines()]


def masked(lines: list[str]) -> list[str]:
    """Without what differs from run to run: times, the port, and the lines at which rules stand."""
    text = "\n".join(lines)
    text = re.sub(r" *\d+ ms", " N ms", text)
    return re.sub(r"(127\.0\.0\.1|\.yaml):\d+", r"\1:N", text).rstrip().splitlines()


def test_demo_happens_as_told_and_the_readme_shows_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"\$ \./scripts/demo\n(.*?)```", readme, re.DOTALL)
    assert shown
    assert masked(demo()) == masked(shown[1].splitlines())


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_demo_keeps_to_characters_that_the_output_can_show(encoding: str) -> None:
    lines = demo(PYTHONIOENCODING=encoding)
    assert "".join(lines).isascii()
    assert any(" x 403" in line for line in lines)
    assert any(" + 200" in line for line in lines)
