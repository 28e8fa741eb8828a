"""All states in the store: what becomes clean is forgotten, what was read once is not parsed again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omniroute_addon.cooldown.book import ConnectionBook
from omniroute_addon.cooldown.rest import CLEAN, Rest
from omniroute_addon.store.memory import MemoryStore

RESTING = Rest(status="unavailable", until=10.0, failed_at=1.0)


def test_a_step_is_atomic_and_tells_before_and_after() -> None:
    """CC-35"""
    book = ConnectionBook(MemoryStore())
    assert book.change("a#1", lambda _: RESTING, provider="openai") == (CLEAN, RESTING)
    assert book.get("a#1") is book.get("a#1")
    assert book.change("a#1", lambda r: replace(r, level=2), provider="openai") == (RESTING, replace(RESTING, level=2))
    assert book.change("a#1", lambda _: CLEAN, provider="openai")[1] is CLEAN
    assert list(book.rows()) == []


def test_nothing_is_written_when_nothing_changes() -> None:
    """CC-48"""
    store = MemoryStore()
    book, told = ConnectionBook(store), []
    store.table("connection_cooldown").subscribe(lambda key, value: told.append(key))
    book.change("a", lambda r: r, provider="openai")
    book.change("a", lambda _: RESTING, provider="openai")
    book.change("a", lambda _: RESTING, provider="openai")
    assert told == ["a"]


def test_two_books_on_one_store_show_the_same() -> None:
    store = MemoryStore()
    one, two = ConnectionBook(store), ConnectionBook(store)
    one.change("a", lambda _: RESTING, provider="openai")
    assert two.get("a") == RESTING
    two.forget("a")
    assert one.get("a") is CLEAN


def test_rows_by_provider_in_any_letter_case() -> None:
    book = ConnectionBook(MemoryStore())
    for key, provider in (("a", "openai"), ("b", "groq")):
        book.change(key, lambda _: RESTING, provider=provider)
    assert [key for key, _, _ in book.rows(provider=" OpenAI")] == ["a"]
    assert [value["provider"] for _, _, value in book.rows()] == ["openai", "groq"]


def test_guests_are_thinned_out_and_those_that_rest_stay_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniroute_addon.cooldown.book.MOST", 2)
    book = ConnectionBook(MemoryStore())
    for key, until in (("client:1#1", 5.0), ("client:2#2", 500.0), ("client:3#3", 600.0), ("a#1", 5.0)):
        book.change(key, lambda _, until=until: replace(RESTING, until=until), provider="openai")  # type: ignore[misc]
    book.thin_out(100.0, forget_s=600.0)
    assert [key for key, _, _ in book.rows()] == ["a#1", "client:2#2", "client:3#3"]
    book.thin_out(1100.0, forget_s=600.0)  # over, and so long ago that the ladder begins anew
    assert [key for key, _, _ in book.rows()] == ["a#1", "client:2#2", "client:3#3"]
    book.thin_out(1100.5, forget_s=600.0)
    assert [key for key, _, _ in book.rows()] == ["a#1", "client:3#3"]


DAY_S = 86_400.0


def test_a_replaced_credential_is_forgotten_and_a_connection_that_is_missing_only_after_a_month() -> None:
    """CC-55: its key may only be unreadable today."""
    book = ConnectionBook(MemoryStore())
    for key in ("a#old", "a#new", "gone#1", "client:1#1"):
        book.change(key, lambda _: RESTING, provider="openai")
    book.forget_strangers({"a#new"}, 10.0)
    assert [key for key, _, _ in book.rows()] == ["a#new", "client:1#1", "gone#1"]
    book.forget_strangers({"a#new"}, 10.0 + 30 * DAY_S)
    assert [key for key, _, _ in book.rows()] == ["a#new", "client:1#1", "gone#1"]
    book.forget_strangers({"a#new"}, 10.5 + 30 * DAY_S)
    assert [key for key, _, _ in book.rows()] == ["a#new", "client:1#1"]


def test_connections_that_nobody_configures_any_more_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniroute_addon.cooldown.book.MOST", 2)
    book = ConnectionBook(MemoryStore())
    for number in range(5):
        book.change(f"s{number}#1", lambda _, at=number: replace(RESTING, failed_at=100.0 + at), provider="openai")  # type: ignore[misc]
    book.forget_strangers(set(), 200.0)
    assert [key for key, _, _ in book.rows()] == ["s3#1", "s4#1"]


def test_what_is_forgotten_through_another_book_does_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniroute_addon.cooldown.book.MOST", 5)
    store = MemoryStore()
    one, two = ConnectionBook(store), ConnectionBook(store)
    for number in range(100):
        one.change(f"client:{number}", lambda _: RESTING, provider="openai")
        assert two.get(f"client:{number}") == RESTING
        one.forget(f"client:{number}")
    assert len(two._read) <= 12
