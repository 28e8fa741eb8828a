"""What holds for all tests: whatever they start keeps its state in a folder of theirs, never in that of the person here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture(autouse=True, scope="session")
def state_home() -> Iterator[Path]:
    """For this process, and for those that it starts."""
    with TemporaryDirectory(prefix="omniroute-test-state-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_STATE_HOME", name)
        patch.setattr("omniroute_addon.places.default_state_dir", lambda: Path(name) / "omniroute")
        yield Path(name)
