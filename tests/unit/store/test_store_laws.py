"""Whatever happens to process and disk: memory is right, and memory and database agree after a flush.

The model is three dictionaries: what memory holds, what the disk holds, and what changed while the disk was never read.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from omniroute_addon.store.journal import MemoryJournal
from omniroute_addon.store.memory import MemoryTable
from omniroute_addon.store.sqlite import opened
from omniroute_addon.store.values import decoded
from omniroute_addon.testing.clock import ManualClock

KEYS = st.sampled_from(["a", "b", "b/1", "ü", ""])
TABLES = st.sampled_from(["cooldown", "lockout", "passing"])
VALUES = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**63) + 1, 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=()), max_size=4),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
CHANGES = st.lists(st.tuples(TABLES, KEYS, st.none() | VALUES), min_size=1, max_size=4)
FAULTS = st.sampled_from([sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY])
KEEP_S = 60.0

type Values = dict[tuple[str, str], Any]
type Entries = dict[str, tuple[float, Any]]


class Disk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "state.db"
        self.clock = ManualClock()
        self.fault = 0
        self.memory: Values = {}
        self.log: Entries = {}
        self.disk: tuple[Values, Entries] = ({}, {})
        self.changed: set[tuple[str, str]] | None = set()
        self.count = 0
        self.open()

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # ---------------------------------------------------------------- the machine's hands

    def connect(self, path: Path) -> sqlite3.Connection:
        machine = self

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                if machine.fault:
                    error = sqlite3.OperationalError("as told")
                    error.sqlite_errorcode = machine.fault
                    raise error
                return super().execute(*arguments)

        return sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, isolation_level=None, factory=Connection)

    def open(self) -> None:
        self.memory, self.log, self.changed = {}, {}, set()
        self.store = opened(self.path, clock=self.clock.clock, delay_s=3600, retry_s=3600, connect=self.connect)
        if not self.fault:
            self.take_over()
        for name in ("cooldown", "lockout"):
            self.store.table(name, keep=True)
        self.journal()

    def table(self, name: str) -> MemoryTable:
        return self.store.table(name)

    def journal(self) -> MemoryJournal:
        return self.store.journal("explain", keep_s=KEEP_S, keep_bytes=10**6)

    def take_over(self) -> None:
        """The file is read for the first time in this life."""
        if self.changed is None:
            return
        values, entries = self.disk
        self.memory = {slot: value for slot, value in values.items() if slot not in self.changed} | self.memory
        self.log = {id: entry for id, entry in entries.items() if id not in self.log} | self.log
        self.changed = None

    def change(self, name: str, key: str, value: Any) -> None:
        result = self.table(name).update(key, lambda old: value)
        assert result == value
        if self.changed is not None and (name != "passing"):
            before = self.memory.get((name, key))
            if value is not None or before is not None:
                self.changed.add((name, key))
        self.memory.pop((name, key), None)
        if value is not None:
            self.memory[name, key] = value

    def kept(self) -> Values:
        return {slot: value for slot, value in self.memory.items() if slot[0] != "passing"}

    def living(self, entries: Entries) -> Entries:
        return {id: entry for id, entry in entries.items() if entry[0] > self.clock.time - KEEP_S}

    # ---------------------------------------------------------------- what may happen

    @rule(name=TABLES, key=KEYS, value=st.none() | VALUES)
    def update(self, name: str, key: str, value: Any) -> None:
        self.change(name, key, value)

    @rule(changes=CHANGES)
    def transaction(self, changes: list[tuple[str, str, Any]]) -> None:
        with self.store.transaction():
            for change in changes:
                self.change(*change)

    @rule(changes=CHANGES)
    def transaction_that_fails(self, changes: list[tuple[str, str, Any]]) -> None:
        before = dict(self.memory), self.changed and set(self.changed)
        try:
            with self.store.transaction():
                for change in changes:
                    self.change(*change)
                raise ZeroDivisionError
        except ZeroDivisionError:
            self.memory, self.changed = before

    @rule(again=st.booleans(), value=VALUES)
    def append(self, again: bool, value: Any) -> None:
        self.count += not again
        id = f"r{self.count}"
        self.journal().append({**value, "id": id})
        self.log = {i: entry for i, entry in self.log.items() if i != id} | {id: (self.clock.time, {**value, "id": id})}

    @rule(seconds=st.integers(1, 45))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(code=FAULTS)
    def the_disk_fails(self, code: int) -> None:
        self.fault = code

    @rule()
    def the_disk_is_well(self) -> None:
        self.fault = 0

    @rule()
    def the_file_is_deleted(self) -> None:
        for each in self.folder.iterdir():
            each.unlink()
        self.disk = ({}, {})

    @rule()
    def flush(self) -> None:
        done = self.store.flush()
        assert done is (self.store.trouble == "")
        if not self.fault:
            assert done
        if done:  # a failing disk is not noticed while there is nothing to write
            self.written()

    @rule()
    def restart(self) -> None:
        self.store.close()
        if not self.fault:
            self.written()
        self.open()

    @rule()
    def crash(self) -> None:
        self.store._attempt = lambda: None  # type: ignore[method-assign]  # as kill -9: the last write never happens
        self.store.close()
        self.open()

    def written(self) -> None:
        self.take_over()
        self.disk = (self.kept(), dict(self.living(self.log)))
        self.agrees()

    def agrees(self) -> None:
        with closing(sqlite3.connect(self.path)) as found:
            state = {(t, k): decoded(v) for t, k, v in found.execute("select table_name, key, value from state")}
            rows = found.execute("select id, at, value from journal order by rowid").fetchall()
        assert state == self.kept()
        assert list(self.living({id: (at, decoded(text)) for id, at, text in rows}).items()) == list(
            self.living(self.log).items()
        )

    @invariant()
    def memory_is_right(self) -> None:
        for name in ("cooldown", "lockout", "passing"):
            wanted = {key: value for (table, key), value in self.memory.items() if table == name}
            assert list(self.table(name).scan()) == sorted(wanted.items())
        assert [value for _, value in reversed(self.living(self.log).values())] == self.journal().recent(1000)


Disk.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestDisk = Disk.TestCase
