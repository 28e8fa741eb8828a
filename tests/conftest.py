"""What holds for all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code: how long things may take is measured by scripts/bench.py.
settings.register_profile("omniroute", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("omniroute")


@pytest.fixture(autouse=True, scope="session")
def state_home() -> Iterator[Path]:
    """What tests start keeps its state in a folder of theirs, never in that of the person here; other processes too."""
    with TemporaryDirectory(prefix="omniroute-test-state-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "XDG_STATE_HOME", name)
        patch.setattr("platformdirs.user_state_path", lambda app, appauthor: Path(name) / app)
        yield Path(name)
