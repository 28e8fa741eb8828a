"""A disk that fails: no request notices, memory stays right, the log says it once, and nothing is lost when it is over."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from omniroute_addon.store.faults import sentence
from omniroute_addon.store.sqlite import SqliteStore
from omniroute_addon.store.state_file import connect, files_set_aside
from omniroute_addon.testing.clock import ManualClock

type Open = Callable[..., SqliteStore]
UNTIL_THEN = "Until then state is kept in memory only."
AGAIN = "is written again, with everything that happened meanwhile"


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """Messages of the log, as they come."""
    messages: list[str] = []

    class Note(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    note = Note()
    logging.getLogger("omniroute_addon.store").addHandler(note)
    yield messages
    logging.getLogger("omniroute_addon.store").removeHandler(note)


def put(store: SqliteStore, key: str, n: int = 1) -> None:
    """An update as a request makes it: it must hold whatever the disk does."""
    table = store.table("cooldown", keep=True)
    assert table.update(key, lambda old: {"n": n}) == {"n": n}
    assert table.get(key) == {"n": n}


def stored(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as found:
        return dict(found.execute("select key, value from state order by key"))


class Failing:
    """A `connect` whose connections fail as told, from the next statement on."""

    def __init__(self) -> None:
        self.code = 0
        self.connections = 0

    def __call__(self, path: Path) -> sqlite3.Connection:
        failing = self
        self.connections += 1

        class Connection(sqlite3.Connection):
            def executemany(self, *arguments: object) -> sqlite3.Cursor:
                failing.fail()
                return super().executemany(*arguments)  # type: ignore[arg-type]

            def execute(self, *arguments: object) -> sqlite3.Cursor:
                if str(arguments[0]).startswith("pragma synchronous"):
                    failing.fail()
                return super().execute(*arguments)  # type: ignore[arg-type]

        address = f"{path.absolute().as_uri()}?mode=rw"
        return sqlite3.connect(address, uri=True, timeout=0.02, isolation_level=None, factory=Connection)

    def fail(self) -> None:
        if self.code:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self.code
            raise error


def test_locked_by_another_program(open_store: Open, path: Path, said: list[str]) -> None:
    store = open_store()
    put(store, "a")
    assert store.flush()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        put(store, "b")
        put(store, "a", 2)
        assert store.flush() is False
        assert store.flush() is False
        assert store.trouble == f"{path} is locked by another program; close what holds it. {UNTIL_THEN}"
        assert said == [store.trouble]
        other.execute("rollback")
    put(store, "c")
    assert store.flush()
    assert store.trouble == ""
    assert said[1:] == [f"{path} {AGAIN}"]
    assert stored(path) == {"a": '{"n":2}', "b": '{"n":1}', "c": '{"n":1}'}


def test_trouble_ends_by_itself_when_the_lock_is_gone(open_store: Open, path: Path) -> None:
    """No request and no flush is needed: the worker tries again every `retry_s`."""
    store = open_store(retry_s=0.01, delay_s=0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        put(store, "a")
        assert store.flush() is False
        other.execute("rollback")
    with store._wake:
        assert store._wake.wait_for(lambda: not store.trouble, timeout=10)
    assert stored(path) == {"a": '{"n":1}'}


def test_locked_at_the_start_what_is_stored_comes_later_and_memory_wins(
    open_store: Open, path: Path, said: list[str]
) -> None:
    store = open_store()
    for key in ("kept", "changed", "deleted"):
        put(store, key)
    store.journal("explain", keep_s=60, keep_bytes=1000).append({"id": "before"})
    store.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("pragma locking_mode = exclusive")
        other.execute("begin exclusive")
        store = open_store()
        assert "locked" in store.trouble
        table = store.table("cooldown", keep=True)
        assert dict(table.scan()) == {}
        put(store, "changed", 2)
        put(store, "deleted", 2)
        table.update("deleted", lambda old: None)
        log = store.journal("explain", keep_s=60, keep_bytes=1000)
        log.append({"id": "meanwhile"})
        other.execute("rollback")
    assert store.flush()
    assert dict(table.scan()) == {"changed": {"n": 2}, "kept": {"n": 1}}
    assert [value["id"] for value in log.recent()] == ["meanwhile", "before"]
    assert store.flush()
    assert stored(path) == {"changed": '{"n":2}', "kept": '{"n":1}'}
    assert len(said) == 2


def test_full(open_store: Open, path: Path, said: list[str]) -> None:
    """A limit on pages is how SQLite tells a full disk."""
    limit = 8

    def small(path: Path) -> sqlite3.Connection:
        found = connect(path)
        found.execute(f"pragma max_page_count = {limit}")
        return found

    store = open_store(connect=small)
    put(store, "a")
    assert store.flush()
    table = store.table("cooldown", keep=True)
    table.update("big", lambda old: {"text": "x" * 50_000})
    put(store, "b")
    assert store.flush() is False
    assert store.trouble == f"{path} cannot grow, the disk is full; make room. {UNTIL_THEN}"
    assert stored(path) == {"a": '{"n":1}'}
    table.update("big", lambda old: None)
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}', "b": '{"n":1}'}
    assert len(said) == 2


def test_read_only_file_is_read_and_not_written(open_store: Open, path: Path, said: list[str]) -> None:
    store = open_store()
    put(store, "a")
    store.close()

    def read_only(path: Path) -> sqlite3.Connection:
        found = connect(path)
        found.execute("pragma query_only = on")
        return found

    store = open_store(connect=read_only)
    assert store.trouble == ""
    assert store.table("cooldown", keep=True).get("a") == {"n": 1}
    put(store, "a", 2)
    assert store.flush() is False
    assert store.flush() is False
    assert said == [
        f"{path} cannot be written; give this user the right to write the file and its folder. {UNTIL_THEN}"
    ]


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="no rights are refused to this user")
def test_read_only_folder(open_store: Open, path: Path) -> None:
    path.parent.mkdir(mode=0o500)
    store = open_store()
    put(store, "a")
    assert "give this user the right" in store.trouble
    path.parent.chmod(0o700)
    assert store.flush()


def test_a_folder_that_cannot_be_made(open_store: Open, path: Path, said: list[str]) -> None:
    path.parent.write_text("a file where the folder should be")
    store = open_store()
    put(store, "a")
    assert store.trouble == f"{path} lies under something that is no folder; name another path. {UNTIL_THEN}"
    assert store.flush() is False
    path.parent.unlink()
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}'}
    assert said[1:] == [f"{path} {AGAIN}"]


def test_a_folder_where_the_file_should_be(open_store: Open, path: Path) -> None:
    path.mkdir(parents=True)
    store = open_store()
    put(store, "a")
    assert store.trouble.startswith(f"{path} cannot be opened; ")


@pytest.mark.parametrize("ruin", [lambda b: b"not a database " * 600, lambda b: b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_corrupt_header_at_the_start(
    open_store: Open, path: Path, clock: ManualClock, said: list[str], ruin: Callable[[bytes], bytes]
) -> None:
    store = open_store()
    put(store, "a")
    store.close()
    ruined = ruin(path.read_bytes())
    path.write_bytes(ruined)
    clock.set(1_800_000_000)
    store = open_store()
    assert store.trouble == ""
    (aside,) = files_set_aside(path)
    assert aside.name == "state.db.corrupt-20270115T080000Z"
    assert aside.read_bytes() == ruined
    assert said == [f"{path} was corrupt and was set aside as {aside.name}; a new file starts from memory"]
    put(store, "b")
    assert store.flush()
    assert stored(path) == {"b": '{"n":1}'}


def ruin_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 64] = b"\xa5" * 64
    path.write_bytes(content)


def test_corrupt_pages_at_the_start(open_store: Open, path: Path) -> None:
    store = open_store()
    for n in range(500):
        put(store, f"a{n}")
    store.close()
    ruin_pages(path)
    store = open_store()
    put(store, "b")
    assert store.flush()
    assert len(files_set_aside(path)) == 1
    assert stored(path) == {"b": '{"n":1}'}


def test_corrupt_while_it_runs_loses_nothing(open_store: Open, path: Path, clock: ManualClock) -> None:
    store = open_store()
    store.table("of_nobody", keep=True).update("x", lambda old: {"n": 9})
    store.journal("of_nobody", keep_s=60, keep_bytes=1000).append({"id": "r0"})
    put(store, "a")
    store.close()
    failing = Failing()
    store = open_store(connect=failing)
    put(store, "b")
    log = store.journal("explain", keep_s=60, keep_bytes=1000)
    log.append({"id": "r1"})
    assert store.flush()
    real, codes = failing.fail, iter([sqlite3.SQLITE_CORRUPT])

    def once() -> None:
        failing.code = next(codes, 0)
        real()

    failing.fail = once  # type: ignore[method-assign]
    assert store.table("cooldown", keep=True).get("a") == {"n": 1}
    put(store, "c")
    assert store.flush()
    assert store.trouble == ""
    assert stored(path) == {"a": '{"n":1}', "b": '{"n":1}', "c": '{"n":1}', "x": '{"n":9}'}
    (aside,) = files_set_aside(path)
    assert stored(aside) == {"a": '{"n":1}', "b": '{"n":1}', "x": '{"n":9}'}
    store.close()
    store = open_store()
    assert store.journal("explain", keep_s=60, keep_bytes=1000).find("r1") == {"id": "r1"}
    assert store.journal("of_nobody", keep_s=60, keep_bytes=1000).find("r0") == {"id": "r0"}


def test_corrupt_twice_in_a_second_keeps_both(open_store: Open, path: Path) -> None:
    for _ in range(3):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no database at all " * 100)
        open_store().close()
    names = ["corrupt-20270115T080000Z", "corrupt-20270115T080000Z-2", "corrupt-20270115T080000Z-3"]
    assert [each.name for each in files_set_aside(path)] == [f"state.db.{name}" for name in names]


def test_corrupt_again_and_again_is_trouble(open_store: Open, path: Path) -> None:
    failing = Failing()
    store = open_store(connect=failing)
    failing.code = sqlite3.SQLITE_CORRUPT
    put(store, "a")
    assert store.flush() is False
    assert store.trouble == f"{path} is corrupt and could not be set aside; move it away. {UNTIL_THEN}"
    failing.code = 0
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}'}


def test_a_file_that_another_proxy_has_replaced_already_is_not_set_aside(open_store: Open, path: Path) -> None:
    failing = Failing()
    store = open_store(connect=failing)
    put(store, "a")
    assert store.flush()
    real = failing.fail

    def replaced_meanwhile() -> None:
        failing.fail = real  # type: ignore[method-assign]
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).rename(path.with_name("away" + suffix))
        open_store().close()
        failing.code = sqlite3.SQLITE_CORRUPT
        try:
            real()
        finally:
            failing.code = 0

    failing.fail = replaced_meanwhile  # type: ignore[method-assign]
    put(store, "b")
    assert store.flush()
    assert files_set_aside(path) == []
    assert stored(path) == {"a": '{"n":1}', "b": '{"n":1}'}


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be deleted")
def test_deleted_while_it_runs(open_store: Open, path: Path) -> None:
    store = open_store()
    put(store, "a")
    assert store.flush()
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()
    put(store, "b")
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}', "b": '{"n":1}'}


@pytest.mark.parametrize("code", [sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY])
def test_a_disk_that_goes_and_comes_back(open_store: Open, path: Path, said: list[str], code: int) -> None:
    failing = Failing()
    store = open_store(connect=failing)
    put(store, "a")
    assert store.flush()
    failing.code = code
    put(store, "b")
    for _ in range(3):
        assert store.flush() is False
    put(store, "c")
    failing.code = 0
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}', "b": '{"n":1}', "c": '{"n":1}'}
    assert len(said) == 2
    assert failing.connections == 4, "each try takes a new connection: the old one may be of a disk that is gone"


def test_trouble_that_changes_its_face_is_said_once_each(open_store: Open, path: Path, said: list[str]) -> None:
    failing = Failing()
    store = open_store(connect=failing)
    put(store, "a")
    for code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY):
        failing.code = code
        assert store.flush() is False
    failing.code = 0
    assert store.flush()
    failing.code = sqlite3.SQLITE_FULL
    put(store, "b")
    assert store.flush() is False
    assert ["full" in text for text in said] == [True, False, False, True]
    assert failing.connections == 1, "a connection that only has to wait is kept"


def test_a_mistake_of_ours_does_not_end_the_worker(open_store: Open, path: Path, said: list[str]) -> None:
    store = open_store()
    write = store._file.write
    store._file.write = lambda batch: {}[batch]  # type: ignore[method-assign,index]
    put(store, "a")
    assert store.flush() is False
    assert store.trouble == f"{path} could not be written (TypeError). State is kept in memory only."
    store._file.write = write  # type: ignore[method-assign]
    assert store.flush()
    assert stored(path) == {"a": '{"n":1}'}


def test_a_journal_does_not_grow_while_the_disk_is_away(open_store: Open, path: Path) -> None:
    failing = Failing()
    store = open_store(connect=failing)
    failing.code = sqlite3.SQLITE_FULL
    log = store.journal("explain", keep_s=60, keep_bytes=60)
    log.append({"id": "before"})
    assert store.flush() is False
    for n in range(1000):
        log.append({"id": f"r{n:05}"})
    assert len(store._pending) == 4
    failing.code = 0
    assert store.flush()
    assert [value["id"] for value in log.recent()] == ["r00999", "r00998", "r00997", "r00996"]
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("select id from journal order by rowid").fetchall() == [
            ("r00996",),
            ("r00997",),
            ("r00998",),
            ("r00999",),
        ]


def test_a_step_of_migration_that_fails_leaves_no_trace(
    open_store: Open, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from omniroute_addon.store.migrations import migrations

    steps = migrations._migrations

    def half(db: object) -> None:
        steps[1].fn(db)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("no luck")

    broken = [steps[0], type(steps[0])(steps[1].name, half)]
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "_migrations", broken)
        store = open_store()
        assert store.trouble == f"{path} cannot be used (no luck). {UNTIL_THEN}"
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("select count(*) from sqlite_master").fetchone() == (0,)
    put(store, "a")
    assert store.flush()


def test_every_other_fault_has_a_sentence_too() -> None:
    path = Path("state.db")
    assert sentence(path, OSError(28, "x")) == f"state.db cannot grow, the disk is full; make room. {UNTIL_THEN}"
    assert sentence(path, OSError(5, "I/O error")) == f"state.db cannot be used (I/O error). {UNTIL_THEN}"
    assert sentence(path, sqlite3.OperationalError("odd")) == f"state.db cannot be used (odd). {UNTIL_THEN}"
