"""The state's file of a real proxy: when it is opened, and that no trouble with it costs anybody anything."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from omniroute_addon.store.sqlite import opened
from omniroute_addon.testing.proxy import running_proxy


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def remember(path: Path) -> None:
    store = opened(path)
    store.table("t", keep=True).update("k", lambda _: {"v": 1})
    store.close()


@pytest.mark.parametrize("kind", ["a file where the folder should be", "no database", "from the future"])
async def test_no_state_file_keeps_a_proxy_from_starting(kind: str, tmp_path: Path) -> None:
    """Trouble with the disk is told, never an error in the log: mitmproxy would end a start that logs one."""
    path = tmp_path / "state.db"
    if kind == "a file where the folder should be":
        path.touch()
        path /= "state.db"
    elif kind == "no database":
        path.write_bytes(b"not a database at all" * 200)
    else:
        await asyncio.to_thread(remember, path)
        with sqlite3.connect(path) as db:
            db.execute("insert into _sqlite_migrations (migration_set, name) values ('omniroute', 'of_the_future')")
    async with running_proxy(options={"omniroute_state": str(path)}) as proxy:
        state = proxy.master.addons.get("omniroute")._state
        await asyncio.gather(*state.warming())
        told = [line for line in proxy.log if "state.db" in line]
        assert len(told) == 1 and told[0].startswith("WARNING")
        assert bool(state.store.trouble) is (kind != "no database")


async def test_switched_off_or_only_reading_a_dump_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    for options in ({"omniroute_enabled": False}, {"server": False}):
        async with running_proxy(options={"omniroute_state": str(path), **options}) as proxy:
            assert proxy.master.addons.get("omniroute")._state.warming() == []
        assert files(tmp_path) == []


async def test_switched_on_later_the_file_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    async with running_proxy(options={"omniroute_state": str(path), "omniroute_enabled": False}) as proxy:
        proxy.master.options.update(omniroute_enabled=True)
        [wait] = proxy.master.addons.get("omniroute")._state.warming()
        await wait
        assert path.stat().st_mode & 0o777 == 0o600


async def test_another_file_at_run_time_needs_a_restart(tmp_path: Path) -> None:
    async with running_proxy() as proxy:
        proxy.master.options.update(omniroute_state=str(tmp_path / "other.db"))
        assert any("omniroute_state takes effect after a restart." in line for line in proxy.log)
    assert files(tmp_path) == []
