"""The embedded store: everything in memory, written behind into one SQLite file by one worker thread.

    request ──update──▶ memory ──▶ pending ──(0.5 s later, the latest of every key)──▶ worker ──▶ file

An update never waits for the disk: it leaves its new value in `_pending`. The worker takes all that is pending as one
transaction, so what belongs together arrives together. When a write fails the batch goes back under what is newer, and is
tried again; nothing is lost while the process lives. What the worker does about a fault:

| fault                     | what is done                                                                       |
|---------------------------|------------------------------------------------------------------------------------|
| locked, full              | kept pending, tried again every `retry_s`                                          |
| read-only, unreachable    | the same, with a new connection each time                                          |
| corrupt                   | set aside, a new file from memory at once                                          |
| deleted, replaced         | noticed before the next write: a new file from memory                              |
| written by a newer version| left alone                                                                         |
| unreadable at the start   | memory starts empty; once readable, what memory has not touched itself is taken over|
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniroute_addon.clock import Clock
from omniroute_addon.errors import OmnirouteError

from . import Value
from .faults import is_ruined, is_transient, sentence
from .journal import Entry
from .memory import Batch, MemoryStore
from .stored import Stored

if TYPE_CHECKING:
    from .state_file import Connect, StateFile

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
"""How long start and `close` wait for a disk that hangs."""


class SqliteStore(MemoryStore):
    """`Store` that survives a restart. Before `open` it is a `MemoryStore` that has something to write later."""

    _file: StateFile  # the worker thread's own

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        delay_s: float = 0.5,
        retry_s: float = 5.0,
        connect: Connect | None = None,
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        """`delay_s`: longest time that a change waits for others to be written with. Never raises for the file's sake.

        `on_look` is called in the worker thread after the first look at the file, and again when one that was unreadable
        then has been read. Who keeps something derived from a table looks at it anew: listeners are not told.
        """
        super().__init__(clock=clock)
        self.path = path
        self._connect = connect
        self._delay_s = delay_s
        self._retry_s = retry_s
        self._on_look = on_look
        self._pending: Batch = {}
        self._read = False  # the file, once
        self._stored = Stored()  # what no table or journal has asked for yet
        self._trouble = ""
        self._logged: set[str] = set()  # sentences of the present trouble that the log has
        self._wake = threading.Condition(self._lock)
        self._asked = self._served = 0  # flushes
        self._closing = False
        self._looked = threading.Event()
        self._worker = threading.Thread(target=self._work, name="omniroute-store", daemon=True)

    def open(self) -> None:
        """Start to read and write, in a thread of its own; returns at once. Once it is open, nothing happens."""
        if self._worker.ident is None:
            self._worker.start()

    def wait(self, seconds: float = _PATIENCE_S) -> bool:
        """Wait until the file was read, or could not be; False when it takes longer. Blocks."""
        return self._looked.wait(seconds)

    def __repr__(self) -> str:
        counts = f"tables={len(self._tables)} pending={len(self._pending)}"
        return f"<SqliteStore {self.path.name} {counts} trouble={self._trouble or 'none'}>"

    @property
    def trouble(self) -> str:
        return self._trouble

    def flush(self) -> bool:
        with self._wake:
            self._asked += 1
            mine = self._asked
            self._wake.notify_all()
            self._wake.wait_for(lambda: self._served >= mine or not self._worker.is_alive())
            return self._looked.is_set() and not self._trouble and not self._closing

    def close(self) -> None:
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        if self._worker.ident is not None:
            self._worker.join(_PATIENCE_S)

    # ---------------------------------------------------------------- memory's hooks, under the lock

    def _record(self, changes: Batch) -> None:
        idle = not self._pending
        for slot, content in changes.items():
            # Taken out first: the order of the entries is that of appending. One that came and went while nothing could be
            # written leaves nothing behind, so pending stays bounded; an older namesake on disk goes at the next start.
            if slot[0] == "entry" and self._pending.pop(slot, None) and content is None and self._trouble:
                continue
            self._pending[slot] = content
        if idle:
            self._wake.notify_all()

    def _recall(self, name: str) -> Mapping[str, Value]:
        return self._stored.values.pop(name, {})

    def _recall_entries(self, name: str) -> Iterable[tuple[str, Entry]]:
        return self._stored.entries.pop(name, ())

    # ---------------------------------------------------------------- the worker thread

    def _work(self) -> None:
        from .state_file import StateFile, connect  # takes 70 ms, which nobody's start need wait for

        self._file = StateFile(self.path, clock=self._clock, connect=self._connect or connect)
        self._attempt()
        self._looked.set()
        self._on_look()
        closing = False
        while not closing:
            serving, closing = self._wait()
            unread = not self._read
            self._attempt()
            if unread and self._read:
                self._on_look()
            with self._wake:
                self._served = serving
                self._wake.notify_all()
        if self._pending:
            log.error("%d changes of state were not written: %s", len(self._pending), self._trouble)
        self._file.close()

    def _wait(self) -> tuple[int, bool]:
        """Until it is time to write; returns the flush that this write serves, and whether it is the last one."""
        with self._wake:
            if not self._trouble:
                self._wake.wait_for(lambda: self._pending or self._urgent())
            self._wake.wait_for(self._urgent, timeout=self._retry_s if self._trouble else self._delay_s)
            return self._asked, self._closing

    def _urgent(self) -> bool:
        return self._closing or self._asked > self._served

    def _attempt(self) -> None:
        """Write what is pending, and know afterwards whether there is trouble."""
        try:
            try:
                self._write()
            except sqlite3.DatabaseError as error:
                if not is_ruined(error):
                    raise
                self._start_anew()
        except (sqlite3.Error, OSError, OmnirouteError) as error:
            if not is_transient(error):
                self._file.close()
            self._troubled(sentence(self.path, error))
        except Exception as error:  # a worker that dies would remember nothing from then on, in silence
            log.warning("state could not be written", exc_info=True)
            self._file.close()
            self._troubled(f"{self.path} could not be written ({type(error).__name__}). State is kept in memory only.")
        else:
            self._recovered()

    def _write(self) -> None:
        if not self._file.in_place:
            self._file.open()
            self._meet(None if self._read else self._file.load())
        with self._lock:
            batch, self._pending = self._pending, {}
        if not batch:
            return
        try:
            self._file.write(batch)
        except BaseException:
            self._put_back(batch)
            raise

    def _put_back(self, batch: Batch) -> None:
        """Under what is newer."""
        with self._lock:
            newer, self._pending = self._pending, batch
            self._record(newer)

    def _meet(self, stored: Stored | None) -> None:
        """A file was opened: take over what it holds the first time; later memory is right and the file gets all of it."""
        with self._lock:
            if stored is None:
                self._pending = self._everything() | self._pending
                return
            self._read, self._stored = True, stored
            for name, table in self._tables.items():
                if table.keep:
                    # What memory changed or deleted itself is still pending: nothing was written before this moment.
                    read = stored.values.pop(name, {}).items()
                    table.adopt({key: value for key, value in read if ("value", name, key) not in self._pending})
            for name, journal in self._journals.items():
                journal.adopt(stored.entries.pop(name, ()))

    def _start_anew(self) -> None:
        aside = self._file.set_aside()
        if aside:
            log.warning("%s was corrupt and was set aside as %s; a new file starts from memory", self.path, aside.name)
        self._write()

    def _everything(self) -> Batch:
        batch = super()._everything()
        for name, values in self._stored.values.items():
            batch |= {("value", name, key): value for key, value in values.items()}
        for name, entries in self._stored.entries.items():
            batch |= {("entry", name, id): entry for id, entry in entries}
        return batch

    def _troubled(self, text: str) -> None:
        self._trouble = text
        if text not in self._logged:
            self._logged.add(text)
            log.warning("%s", text)  # no error: mitmproxy would end a start that logs one

    def _recovered(self) -> None:
        if self._trouble:
            log.warning("%s is written again, with everything that happened meanwhile", self.path)
        self._trouble = ""
        self._logged.clear()


def opened(path: Path, **more: Any) -> SqliteStore:
    """A store (arguments as of `SqliteStore`) whose file was read, or could not be. Blocks: for tests and commands."""
    store = SqliteStore(path, **more)
    store.open()
    store.wait()
    return store
