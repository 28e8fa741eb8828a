"""Journals: bounded in time and size, on every engine."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.store import Journal, Store
from omniroute_addon.testing.clock import ManualClock


def journal(store: Store, *, keep_s: float = 60, keep_bytes: int = 10_000) -> Journal:
    return store.journal("explain", keep_s=keep_s, keep_bytes=keep_bytes)


def ids(journal: Journal) -> list[str]:
    return [value["id"] for value in journal.recent(100)]


def test_newest_first_and_found_by_id(store: Store) -> None:
    log = journal(store)
    for number in range(3):
        log.append({"id": f"r{number}", "attempts": [{"status": 429 + number}]})
    assert ids(log) == ["r2", "r1", "r0"]
    assert [value["id"] for value in log.recent(2)] == ["r2", "r1"]
    assert log.recent(0) == []
    assert log.find("r1") == {"id": "r1", "attempts": [{"status": 430}]}
    assert log.find("r9") is None
    assert log.name == "explain"
    assert journal(store) is log


def test_the_same_id_again_replaces_and_is_the_newest(store: Store) -> None:
    log = journal(store)
    for id, n in (("a", 1), ("b", 2), ("a", 3)):
        log.append({"id": id, "n": n})
    assert ids(log) == ["a", "b"]
    assert log.find("a") == {"id": "a", "n": 3}


def test_what_is_too_old_is_gone_without_anybody_writing(store: Store, clock: ManualClock) -> None:
    log = journal(store, keep_s=60)
    log.append({"id": "a"})
    clock.advance(59)
    log.append({"id": "b"})
    assert ids(log) == ["b", "a"]
    clock.advance(1)
    assert log.find("a") is None
    assert ids(log) == ["b"]


def test_the_oldest_make_room(store: Store) -> None:
    log = journal(store, keep_bytes=40)
    for id in "abcd":
        log.append({"id": id, "x": "…"})  # 20 bytes each
    assert ids(log) == ["d", "c"]
    log.append({"id": "big", "x": "y" * 100})
    assert ids(log) == []


def test_new_bounds_hold_at_once(store: Store) -> None:
    log = journal(store)
    for id in "abc":
        log.append({"id": id})
    journal(store, keep_bytes=20)
    assert ids(log) == ["c", "b"]


@pytest.mark.parametrize("value", [{}, {"id": 1}, {"id": "a", "x": {1}}, {"id": "half \udc00"}, "a", None])
def test_what_is_not_json_or_has_no_id_is_refused(store: Store, value: Any) -> None:
    log = journal(store)
    with pytest.raises(TypeError, match="explain"):
        log.append(value)
    assert ids(log) == []


def test_half_a_surrogate_pair_in_an_upstream_message_is_kept(store: Store) -> None:
    log = journal(store)
    log.append({"id": "a", "message": "half \ud83d"})
    assert log.find("a") == {"id": "a", "message": "half \ud83d"}
    store.table("breaker", keep=True).update("glm", lambda old: {"message": "half \ud83d"})
    assert store.flush()
