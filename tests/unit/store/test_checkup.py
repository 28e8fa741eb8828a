"""What `omniroute doctor` asks of the state's file."""

from __future__ import annotations

from pathlib import Path

from omniroute_addon.clock import Clock
from omniroute_addon.store.checkup import trouble_of
from omniroute_addon.store.state_file import StateFile, connect


def make(path: Path) -> Path:
    file = StateFile(path, clock=Clock())
    file.open()
    file.close()
    return path


def test_file_that_is_well_or_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert trouble_of(tmp_path / "none.db") == ""
    assert not (tmp_path / "none.db").exists()
    assert trouble_of(make(tmp_path / "state.db")) == ""


def test_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"x" * 5000)
    assert trouble_of(tmp_path / "state.db").startswith(f"{tmp_path}/state.db is no database")


def test_damaged_page_is_told(tmp_path: Path) -> None:
    file = make(tmp_path / "state.db")
    raw = bytearray(file.read_bytes())
    raw[4096 : 4096 + 200] = b"\xff" * 200
    file.write_bytes(raw)
    assert trouble_of(file)


def test_file_of_a_newer_version_is_told_and_left_alone(tmp_path: Path) -> None:
    file = make(tmp_path / "state.db")
    db = connect(file)
    [table] = db.execute("select name from sqlite_master where name like '%migration%'").fetchone()
    columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
    marks = ", ".join("?" for _ in columns)
    old = dict(zip(columns, db.execute(f"select * from {table}").fetchone(), strict=True))
    new = [("9999-from-the-future" if name == "name" else 9999 if name == "id" else old[name]) for name in columns]
    db.execute(f"insert into {table} values ({marks})", new)
    db.close()
    before = file.read_bytes()
    assert "was written by a newer version (it has 9999-from-the-future)" in trouble_of(file)
    assert file.read_bytes() == before
