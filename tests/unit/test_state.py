"""The state of a running proxy on the event loop: opened without waiting, waited for a moment, written at the end."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from omniroute_addon import state as module
from omniroute_addon.state import State
from omniroute_addon.store.sqlite import opened


@pytest.fixture
def told() -> list[int]:
    """The threads in which the state's owner was told."""
    return []


@pytest.fixture
async def state(tmp_path: Path, told: list[int]) -> AsyncIterator[State]:
    made = State(tmp_path / "state.db", told=lambda: told.append(threading.get_ident()))
    yield made
    await made.close()


def remember(path: Path, value: int) -> None:
    store = opened(path)
    store.table("t", keep=True).update("k", lambda _: {"v": value})
    store.close()


async def test_what_was_remembered_is_there_before_a_request_chooses(tmp_path: Path, told: list[int]) -> None:
    """CB-58: and the owner hears of it on the event loop."""
    await asyncio.to_thread(remember, tmp_path / "state.db", 7)
    state = State(tmp_path / "state.db", told=lambda: told.append(threading.get_ident()))
    table = state.store.table("t", keep=True)
    state.open()
    [wait] = state.warming()
    await wait
    assert table.get("k") == {"v": 7} and told == [threading.get_ident()] and state.warming() == []
    await state.close()


async def test_until_it_is_opened_nothing_is_written_and_nobody_waits(state: State, tmp_path: Path) -> None:
    state.store.table("t", keep=True).update("k", lambda _: {"v": 1})
    assert not state.store.flush() and state.warming() == [] and not state.store.path.exists()
    assert "not open" in repr(state)


async def test_what_was_learned_before_it_was_opened_is_written_too(tmp_path: Path) -> None:
    state = State(tmp_path / "state.db", told=lambda: None)
    state.store.table("t", keep=True).update("k", lambda _: {"v": 1})
    state.open()
    state.open()
    await state.close()
    store = await asyncio.to_thread(opened, tmp_path / "state.db")
    assert store.table("t", keep=True).get("k") == {"v": 1}
    await asyncio.to_thread(store.close)


async def test_a_client_that_goes_away_does_not_end_the_wait_of_the_others(state: State) -> None:
    state.open()
    [first], [second] = state.warming(), state.warming()
    asyncio.ensure_future(first).cancel()
    await second


async def test_a_disk_that_hangs_is_waited_for_only_a_moment(
    state: State, monkeypatch: pytest.MonkeyPatch, told: list[int]
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.02)
    hang = threading.Event()
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **kw: hang.wait(10) and real(*a, **kw))
    state.open()
    [wait] = state.warming()
    async with asyncio.timeout(5):
        await wait
    assert told == [] and state.warming() == []
    hang.set()
    await asyncio.to_thread(state.store.wait, 5)
    await asyncio.sleep(0)
    assert len(told) == 1  # late, but it comes


async def test_a_file_that_cannot_be_used_ends_the_wait_and_is_told(tmp_path: Path, told: list[int]) -> None:
    (tmp_path / "file").touch()
    state = State(tmp_path / "file" / "state.db", told=lambda: told.append(1))
    state.open()
    [wait] = state.warming()
    async with asyncio.timeout(5):
        await wait
    assert "lies under something that is no folder" in state.store.trouble
    await state.close()


async def test_a_loop_that_ended_meanwhile_is_no_fault(tmp_path: Path) -> None:
    state = State(tmp_path / "state.db", told=lambda: None)
    state._loop = asyncio.new_event_loop()
    state._loop.close()
    state._on_look()
