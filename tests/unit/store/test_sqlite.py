"""The embedded engine: what survives a restart, and when it is written."""

from __future__ import annotations

import logging
import sqlite3
import stat
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from omniroute_addon.store.sqlite import SqliteStore
from omniroute_addon.store.state_file import connect
from omniroute_addon.testing.clock import ManualClock

type Open = Callable[..., SqliteStore]
ON_WINDOWS = sys.platform == "win32"


def rows(path: Path, sql: str = "select table_name, key, value from state order by 1, 2") -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as found:
        return found.execute(sql).fetchall()


def test_what_is_kept_survives_a_restart_and_nothing_else(open_store: Open) -> None:
    store = open_store()
    kept, passing = store.table("cooldown", keep=True), store.table("passing")
    value = {"text": "é ☃ \ud800", "n": 1, "f": 0.1, "none": None, "list": [True, {"a": []}], "big": -(2**63) + 1}
    kept.update("a ☃", lambda old: value)
    kept.update("gone", lambda old: value)
    kept.update("gone", lambda old: None)
    passing.update("b", lambda old: value)
    store.close()
    store = open_store()
    assert dict(store.table("cooldown", keep=True).scan()) == {"a ☃": value}
    assert dict(store.table("passing", keep=True).scan()) == {}


def test_a_deletion_survives_a_restart(open_store: Open) -> None:
    store = open_store()
    store.table("cooldown", keep=True).update("a", lambda old: {})
    store.close()
    store = open_store()
    store.table("cooldown", keep=True).update("a", lambda old: None)
    store.close()
    assert open_store().table("cooldown", keep=True).get("a") is None


def test_a_table_that_somebody_read_before_its_owner_asked_to_keep_it(open_store: Open) -> None:
    store = open_store()
    table = store.table("cooldown", keep=True)
    table.update("old", lambda old: {"n": 1})
    table.update("both", lambda old: {"n": 1})
    store.close()
    store = open_store()
    early = store.table("cooldown")
    early.update("both", lambda old: {"n": 2})
    early.update("new", lambda old: {"n": 2})
    assert early.get("old") is None
    assert store.table("cooldown", keep=True) is early
    assert dict(early.scan()) == {"both": {"n": 2}, "new": {"n": 2}, "old": {"n": 1}}
    store.close()
    assert len(list(open_store().table("cooldown", keep=True).scan())) == 3


def test_what_nobody_asks_for_stays_on_the_disk(open_store: Open, path: Path) -> None:
    store = open_store()
    store.table("of_a_plugin", keep=True).update("a", lambda old: {"n": 1})
    store.close()
    store = open_store()
    store.table("another", keep=True).update("b", lambda old: {})
    store.close()
    assert rows(path) == [("another", "b", "{}"), ("of_a_plugin", "a", '{"n":1}')]


def test_an_update_never_touches_the_disk(open_store: Open, path: Path) -> None:
    """The worker writes; whoever updates does not even wait for it."""
    threads: set[str] = set()

    def noting(path: Path) -> sqlite3.Connection:
        found = connect(path)
        found.set_trace_callback(lambda sql: threads.add(threading.current_thread().name))
        return found

    store = open_store(connect=noting)
    store.table("cooldown", keep=True).update("a", lambda old: {})
    assert rows(path) == []
    assert store.flush()
    assert rows(path) == [("cooldown", "a", "{}")]
    assert threads == {"omniroute-store"}


def test_changes_are_written_by_themselves_as_one_batch(open_store: Open, path: Path) -> None:
    written = threading.Event()
    statements: list[str] = []

    def noting(path: Path) -> sqlite3.Connection:
        found = connect(path)

        def note(sql: str) -> None:
            statements.append(sql)
            if sql.lower() == "commit" and any("cooldown" in each for each in statements):
                written.set()

        found.set_trace_callback(note)
        return found

    store = open_store(delay_s=0.01, connect=noting)
    table = store.table("cooldown", keep=True)
    statements.clear()
    with store.transaction():
        for n in range(50):
            table.update(f"a{n % 5}", partial(lambda n, old: {"n": n}, n))
    assert written.wait(10)
    assert [sql.lower() for sql in statements].count("begin immediate") == 1
    assert sum("insert or replace into state" in sql for sql in statements) == 5


def test_FC_92_a_transaction_that_is_open_is_not_written(open_store: Open, path: Path) -> None:
    store = open_store()
    table = store.table("cooldown", keep=True)
    with store.transaction():
        table.update("a", lambda old: {})
        assert store._pending == {}
        table.update("b", lambda old: {})
    assert store.flush()
    assert [key for _, key, _ in rows(path)] == ["a", "b"]


def test_a_transaction_that_failed_leaves_nothing_to_write(open_store: Open, path: Path) -> None:
    store = open_store()
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.table("cooldown", keep=True).update("a", lambda old: {})
        raise ZeroDivisionError
    assert store.flush()
    assert rows(path) == []


def test_a_journal_survives_a_restart_in_its_order(open_store: Open, clock: ManualClock) -> None:
    store = open_store()
    log = store.journal("explain", keep_s=60, keep_bytes=1000)
    for id in ("a", "b", "c"):
        log.append({"id": id})
    assert store.flush()
    log.append({"id": "a", "again": True})
    store.close()
    clock.advance(30)
    store = open_store()
    log = store.journal("explain", keep_s=60, keep_bytes=1000)
    log.append({"id": "d"})
    assert [value["id"] for value in log.recent()] == ["d", "a", "c", "b"]
    store.close()
    clock.advance(30)
    store = open_store()
    assert [v["id"] for v in store.journal("explain", keep_s=60, keep_bytes=1000).recent()] == ["d"]
    store.close()
    assert [id for (id,) in rows(store.path, "select id from journal")] == ["d"]


def test_an_entry_that_was_replaced_and_dropped_between_two_writes(open_store: Open, clock: ManualClock) -> None:
    store = open_store()
    log = store.journal("explain", keep_s=60, keep_bytes=1000)
    log.append({"id": "a"})
    assert store.flush()
    log.append({"id": "a", "again": True})
    clock.advance(60)
    assert log.find("a") is None
    assert store.flush()
    assert rows(store.path, "select id from journal") == []


@pytest.mark.skipif(ON_WINDOWS, reason="no file modes")
def test_file_and_folder_are_the_users_own(open_store: Open, path: Path) -> None:
    store = open_store()
    store.table("cooldown", keep=True).update("a", lambda old: {})
    assert store.flush()
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.skipif(ON_WINDOWS, reason="no file modes")
def test_a_file_with_a_generous_mode_is_narrowed(open_store: Open, path: Path) -> None:
    open_store().close()
    path.chmod(0o666)
    open_store().close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_power_cut_is_meant_too(open_store: Open) -> None:
    """synchronous=FULL (2): in WAL mode NORMAL would lose commits of before the last checkpoint."""
    store = open_store()
    found: list[object] = []
    probe = store._file
    original = probe.write

    def write(batch: object) -> None:
        found.append(probe._opened().execute("pragma synchronous").fetchone()[0])
        found.append(probe._opened().execute("pragma journal_mode").fetchone()[0])
        original(batch)  # type: ignore[arg-type]

    probe.write = write  # type: ignore[method-assign]
    store.table("cooldown", keep=True).update("a", lambda old: {})
    assert store.flush()
    assert found == [2, "wal"]


def test_closing_writes_what_is_left_and_leaves_one_file(open_store: Open, path: Path) -> None:
    store = open_store()
    store.table("cooldown", keep=True).update("a", lambda old: {"n": 1})
    store.close()
    assert [each.name for each in path.parent.iterdir()] == ["state.db"]
    assert rows(path) == [("cooldown", "a", '{"n":1}')]
    assert store.table("cooldown").update("a", lambda old: {"n": 2}) == {"n": 2}
    assert store.flush() is False
    assert rows(path) == [("cooldown", "a", '{"n":1}')]


def test_a_row_that_a_person_broke_is_skipped(open_store: Open, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store()
    for key in "abc":
        store.table("cooldown", keep=True).update(key, lambda old: {"n": 1})
    store.close()
    with sqlite3.connect(path) as found:
        found.execute("update state set value = '[1]' where key = 'a'")
        found.execute("update state set value = '{oops' where key = 'b'")
    with caplog.at_level(logging.WARNING):
        assert dict(open_store().table("cooldown", keep=True).scan()) == {"c": {"n": 1}}
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: the value of cooldown['a'] was skipped: a JSON object was expected, not list",
        f"{path}: the value of cooldown['b'] was skipped: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ]


def test_migrations_are_applied_once_with_their_record(open_store: Open, path: Path) -> None:
    open_store().close()
    before = rows(path, "select * from _sqlite_migrations")
    open_store().close()
    assert rows(path, "select * from _sqlite_migrations") == before
    assert [name for _, _, name, _ in before] == ["state_by_table_and_key", "journals_in_order_of_rowid"]


def test_a_file_of_a_newer_version_is_left_alone(
    open_store: Open, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    open_store().close()
    with sqlite3.connect(path) as found:
        found.execute("insert into _sqlite_migrations values (9, 'omniroute', 'state_in_colour', '2030')")
    before = path.read_bytes()
    store = open_store()
    assert store.trouble == (
        f"{path} was written by a newer version (it has state_in_colour); update, or name another path. "
        "Until then state is kept in memory only."
    )
    store.table("cooldown", keep=True).update("a", lambda old: {})
    assert store.flush() is False
    store.close()
    assert path.read_bytes() == before
    assert [record.getMessage() for record in caplog.records] == [
        store.trouble,
        f"1 changes of state were not written: {store.trouble}",
    ]
