"""Both engines, and a SQLite store whose disk can be made to fail."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omniroute_addon.store import Store
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.store.sqlite import SqliteStore, opened
from omniroute_addon.store.state_file import connect
from omniroute_addon.testing.clock import ManualClock

type Open = Callable[..., SqliteStore]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "state.db"


def impatient(path: Path) -> sqlite3.Connection:
    """As in production, but a locked file is reported at once."""
    found = connect(path)
    found.execute("pragma busy_timeout = 20")
    return found


@pytest.fixture
def open_store(path: Path, clock: ManualClock) -> Iterator[Open]:
    """A SqliteStore on the test's file; it writes on `flush` and `close` only, unless the test says otherwise."""
    made: list[SqliteStore] = []

    def make(**more: object) -> SqliteStore:
        store = opened(
            **{"path": path, "clock": clock.clock, "delay_s": 3600, "retry_s": 3600, "connect": impatient, **more}  # type: ignore[arg-type]
        )
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, clock: ManualClock) -> Store:
    """The interface: every test that takes it must hold on every engine."""
    if request.param == "memory":
        return MemoryStore(clock=clock.clock)
    made: SqliteStore = request.getfixturevalue("open_store")()
    return made
