"""A state machine over a real state file: orderly ends, crashes, and memory and database agree after a flush."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis.stateful import rule

from omniroute_addon.clock import Clock
from omniroute_addon.store.sqlite import SqliteStore, opened


class Kept:
    """Mixed in before a machine that makes its store with `fresh_store` and, at a restart, with `reborn_store`."""

    store: SqliteStore
    restart: Any

    def wall(self) -> Clock:
        """The machine's clock."""
        raise NotImplementedError

    def fresh_store(self) -> SqliteStore:
        self.folder = TemporaryDirectory(prefix="omniroute-laws-")
        self.path = Path(self.folder.name) / "state.db"
        self.dead: list[SqliteStore] = []
        return self._reopened()

    def reborn_store(self) -> SqliteStore:
        if self.store not in self.dead:
            self.store.close()
        return self._reopened()

    def _reopened(self) -> SqliteStore:
        return opened(self.path, clock=self.wall(), delay_s=3600, retry_s=3600)

    @rule()
    def the_proxy_is_killed_a_second_after_the_last_change(self) -> None:
        assert self.store.flush()
        self.dead.append(self.store)  # never told that it is over: it has nothing left to write
        self.restart()

    @rule()
    def memory_and_database_agree_after_a_flush(self) -> None:
        assert self.store.flush()
        kept = {
            (name, key): json.loads(json.dumps(value, default=dict))
            for name, table in self.store._tables.items()
            if table.keep
            for key, value in table.scan()
        }
        with closing(sqlite3.connect(self.path)) as db:
            rows = db.execute("select table_name, key, value from state").fetchall()
        assert {(name, key): json.loads(text) for name, key, text in rows} == kept

    def teardown(self) -> None:
        self.memory_and_database_agree_after_a_flush()
        for store in (self.store, *self.dead):
            store.close()
        self.folder.cleanup()
