"""The state's file: SQLite through sqlite-utils. Blocks and raises; only the worker thread of `sqlite.py` comes here.

* WAL, and `synchronous=FULL`: a commit is on the disk when it returns, also after a power cut. At two commits a second in a
  thread of its own that costs nobody anything.
* `BEGIN IMMEDIATE`: with two proxies on one file the second waits for the first (`BUSY_S`) instead of failing at commit.
* The file is made by us with mode 0600 before SQLite sees it; its `-wal` and `-shm` inherit the mode.
* It is opened with `mode=rw`, so SQLite never makes one by itself (which would follow the umask).
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from sqlite_utils import Database

from omniroute_addon.clock import Clock

from .faults import NewerStateFile
from .journal import Entry
from .memory import Batch
from .migrations import migrations, unknown_steps
from .stored import Stored
from .values import decoded, encoded

log = logging.getLogger(__name__)

BUSY_S = 2.0
"""How long a write waits for another process. The worker waits, no request does."""
_COMPANIONS = ("", "-wal", "-shm")
# `executemany` rather than sqlite-utils' `insert_all`: ten times less Python, so ten times less of the event loop's time.
_PUT_VALUE = "insert or replace into state (table_name, key, value, changed_at) values (?, ?, ?, ?)"
_PUT_ENTRY = "insert or replace into journal (journal_name, id, at, value) values (?, ?, ?, ?)"

type Connect = Callable[[Path], sqlite3.Connection]


def connect(path: Path) -> sqlite3.Connection:
    """A connection without implicit transactions to an existing file."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    return sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)


class StateFile:
    """One file, open or not. Use from one thread."""

    def __init__(self, path: Path, *, clock: Clock, connect: Connect = connect) -> None:
        self.path = path
        self._now = clock.now
        self._connect = connect
        self._db: Database | None = None
        self._identity: tuple[int, int] | None = None

    @property
    def in_place(self) -> bool:
        """Open, and still the file that this path names: SQLite writes happily into a file that was deleted."""
        return self._db is not None and self._identity == _identity(self.path)

    def open(self) -> None:
        """Open or make the file and bring it to the present form."""
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make_private(self.path)
        # Taken before the file is opened: were it replaced in between, the next write would notice.
        self._identity = _identity(self.path)
        db = Database(self._connect(self.path), recursive_triggers=False, execute_plugins=False)
        try:
            db.execute("pragma synchronous=full")
            db.enable_wal()
            self._migrate(db)
        except BaseException:
            db.close()
            raise
        self._db = db

    def _migrate(self, db: Database) -> None:
        if newer := unknown_steps(db):
            steps = ", ".join(newer)
            raise NewerStateFile(f"was written by a newer version (it has {steps}); update, or name another path")
        if migrations.pending(db):
            # All steps in one transaction that locks first: of two proxies that start together, one waits for the other.
            with _transaction(db):
                migrations.apply(db)

    def load(self) -> Stored:
        """All that the file holds. A row that is not readable is skipped with a warning."""
        db = self._opened()
        stored = Stored()
        for table, key, text in db.execute("select table_name, key, value from state"):
            try:
                stored.values.setdefault(table, {})[key] = decoded(text)
            except ValueError as error:
                log.warning("%s: the value of %s[%r] was skipped: %s", self.path, table, key, error)
        for journal, id, at, text in db.execute("select journal_name, id, at, value from journal order by rowid"):
            stored.entries.setdefault(journal, []).append((id, Entry(at, text)))
        return stored

    def write(self, batch: Batch) -> None:
        """Make the file hold what the batch says, all of it or nothing."""
        db, now = self._opened(), self._now()
        gone: list[tuple[str, str]] = []
        gone_entries: list[tuple[str, str]] = []
        values: list[tuple[str, str, str, float]] = []
        entries: list[tuple[str, str, float, str]] = []
        for (sort, name, key), content in batch.items():
            if content is None:
                (gone if sort == "value" else gone_entries).append((name, key))
            elif isinstance(content, Entry):
                entries.append((name, key, content.at, content.text))
            else:
                values.append((name, key, encoded(content), now))
        with _transaction(db):
            db.conn.executemany("delete from state where table_name = ? and key = ?", gone)
            db.conn.executemany("delete from journal where journal_name = ? and id = ?", gone_entries)
            db.conn.executemany(_PUT_VALUE, values)
            db.conn.executemany(_PUT_ENTRY, entries)

    def set_aside(self) -> Path | None:
        """Give a ruined file another name; None when somebody else has replaced it already."""
        opened, self._identity = self._identity, None
        self.close()
        if opened != _identity(self.path):
            return None
        stamp = datetime.fromtimestamp(self._now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        target = self.path.with_name(f"{self.path.name}.corrupt-{stamp}")
        number = 1
        while target.exists():
            number += 1
            target = self.path.with_name(f"{self.path.name}.corrupt-{stamp}-{number}")
        for suffix in _COMPANIONS:
            with contextlib.suppress(FileNotFoundError):
                self.path.with_name(self.path.name + suffix).rename(target.with_name(target.name + suffix))
        return target

    def close(self) -> None:
        """Let go of the file."""
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):  # nothing is left to be written; the handle is gone either way
                db.close()

    def _opened(self) -> Database:
        assert self._db is not None, "open() comes first"
        return self._db


def files_set_aside(path: Path) -> list[Path]:
    """Ruined files that were once `path`, oldest first: for `doctor`."""
    found = path.parent.glob(f"{path.name}.corrupt-*")
    return sorted(file for file in found if not file.name.endswith(_COMPANIONS[1:]))


@contextlib.contextmanager
def _transaction(db: Database) -> Iterator[None]:
    db.execute("begin immediate")
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise


def _make_private(path: Path) -> None:
    """Mode 0600, also of a file that somebody made with another."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        # By name, never through a descriptor: closing one would drop SQLite's locks of this whole process.
        for suffix in _COMPANIONS:
            with contextlib.suppress(FileNotFoundError, PermissionError):  # not there, or not ours to change
                path.with_name(path.name + suffix).chmod(0o600)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
