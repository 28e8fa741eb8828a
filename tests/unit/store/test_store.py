"""The interface, on every engine."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest

from omniroute_addon.store import Store, Value


def seen(store: Store, name: str = "breaker") -> dict[str, Value]:
    return dict(store.table(name).scan())


def test_a_value_is_what_the_last_update_made_of_it(store: Store) -> None:
    table = store.table("breaker")
    assert table.name == "breaker"
    assert table.get("glm") is None
    assert table.update("glm", lambda old: {"failures": 1, "was": old}) == {"failures": 1, "was": None}
    assert table.update("glm", lambda old: {**(old or {}), "failures": 2}) == {"failures": 2, "was": None}
    assert table.get("glm") == {"failures": 2, "was": None}
    assert table.update("glm", lambda old: None) is None
    assert table.get("glm") is None
    assert table.update("never", lambda old: None) is None


def test_the_same_name_is_the_same_table(store: Store) -> None:
    assert store.table("breaker") is store.table("breaker", keep=True)
    assert store.table("breaker") is not store.table("lockout")


def test_scan_is_in_order_of_key_and_by_prefix(store: Store) -> None:
    table = store.table("lockout")
    for key in ("b/2", "a/1", "b/1", "c", "b", "ä/1", "b/3", "a"):
        table.update(key, lambda old: {})
    table.update("b/3", lambda old: None)
    assert [key for key, _ in table.scan()] == ["a", "a/1", "b", "b/1", "b/2", "c", "ä/1"]
    assert [key for key, _ in table.scan("b/")] == ["b/1", "b/2"]
    assert [key for key, _ in table.scan("d")] == []
    assert [key for key, _ in table.scan("ä")] == ["ä/1"]


def test_scan_is_as_of_now_so_that_a_reset_may_delete_while_it_goes(store: Store) -> None:
    table = store.table("lockout")
    for key in "abc":
        table.update(key, lambda old: {"level": 1})
    for key, value in table.scan():
        assert value == {"level": 1}
        table.update(key, lambda old: None)
    assert seen(store, "lockout") == {}


def test_an_update_inside_a_change_is_seen(store: Store) -> None:
    table = store.table("breaker")

    def change(old: Value | None) -> Value:
        table.update("other", lambda old: {"by": "change"})
        return {"by": "test"}

    table.update("glm", change)
    assert seen(store) == {"glm": {"by": "test"}, "other": {"by": "change"}}


class Colour(StrEnum):
    RED = "red"


LOOP: dict[str, Any] = {}
LOOP["self"] = LOOP


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"a": {1}},
            "breaker['glm']: field 'a': set is not JSON; allowed are text, numbers, booleans, None, lists and mappings",
        ),
        ({"a": [{"b": [1, b"x"]}]}, "field 'a[0].b[1]': bytes is not JSON"),
        ({"a": (1, 2)}, "field 'a': tuple is not JSON"),
        ({"a": Colour.RED}, "field 'a': Colour is not JSON"),
        ({"a": float("nan")}, "field 'a': nan is not a number that JSON knows"),
        ({"a": [float("inf")]}, "field 'a[0]': inf is not a number that JSON knows"),
        ({"a": 2**63}, "field 'a': a whole number of more than 64 bits"),
        ({1: "a"}, "breaker['glm']: key 1 is int, not text"),
        ({"a": {None: 1}}, "field 'a': key None is NoneType, not text"),
        (["a"], "breaker['glm']: list is not a mapping"),
        ("a", "breaker['glm']: str is not a mapping"),
        (LOOP, "nested more than 32 deep; does it contain itself?"),
    ],
)
def test_what_is_not_json_is_refused_before_anything_changes(store: Store, value: Any, text: str) -> None:
    table = store.table("breaker")
    table.update("glm", lambda old: {"failures": 1})
    with pytest.raises(TypeError) as error:
        table.update("glm", lambda old: value)
    assert text in str(error.value)
    assert table.get("glm") == {"failures": 1}


def test_a_refusal_never_shows_the_value(store: Store) -> None:
    with pytest.raises(TypeError) as error:
        store.table("breaker").update("glm", lambda old: {"key": b"sk-secret"})
    assert "sk-secret" not in str(error.value)


@pytest.mark.parametrize("key", [1, None, b"a", "half \ud800"])
def test_a_key_that_is_not_text_is_refused(store: Store, key: Any) -> None:
    with pytest.raises(TypeError, match="a key is text"):
        store.table("breaker").update(key, lambda old: {})
    with pytest.raises(TypeError, match="name of a table: a key is text"):
        store.table(key)
    with pytest.raises(TypeError, match="name of a journal: a key is text"):
        store.journal(key, keep_s=1, keep_bytes=1)
    assert seen(store) == {}


def test_what_the_caller_changes_later_does_not_reach_the_store(store: Store) -> None:
    inner: list[Any] = [1, {"b": 2}]
    mine: dict[str, Any] = {"a": inner}
    store.table("breaker").update("glm", lambda old: mine)
    inner.append(3)
    inner[1]["b"] = 4
    mine["c"] = 5
    assert store.table("breaker").get("glm") == {"a": [1, {"b": 2}]}


def test_what_the_store_hands_out_is_read_only_and_goes_back_in(store: Store) -> None:
    table = store.table("breaker")
    value: Any = table.update("glm", lambda old: {"a": MappingProxyType({"b": [None, True, "x", -1.5, 2**63 - 1]})})
    with pytest.raises(TypeError):
        value["a"] = 1
    assert json.loads(json.dumps(dict(value))) == {"a": {"b": [None, True, "x", -1.5, 2**63 - 1]}}
    assert table.update("copy", lambda old: value) == value


def test_a_change_that_raises_changes_nothing(store: Store) -> None:
    table = store.table("breaker")
    with pytest.raises(ZeroDivisionError):
        table.update("glm", lambda old: {"a": 1 // 0})
    assert table.get("glm") is None
    table.update("glm", lambda old: {"a": 1})
    assert seen(store) == {"glm": {"a": 1}}


def test_subscribers_hear_of_every_change_until_they_end_it(store: Store) -> None:
    table = store.table("breaker")
    heard: list[tuple[str, Value | None]] = []
    end = table.subscribe(lambda key, value: heard.append((key, value)))
    table.update("glm", lambda old: {"a": 1})
    table.update("glm", lambda old: old)
    table.update("glm", lambda old: None)
    store.table("lockout").update("other", lambda old: {"a": 2})
    end()
    end()
    table.update("glm", lambda old: {"a": 3})
    assert heard == [("glm", {"a": 1}), ("glm", None)]


def test_a_listener_that_fails_is_logged_and_harms_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    table = store.table("breaker")
    heard: list[str] = []
    table.subscribe(lambda key, value: void(1 // 0))
    table.subscribe(lambda key, value: heard.append(key))
    assert table.update("glm", lambda old: {"a": 1}) == {"a": 1}
    assert heard == ["glm"]
    assert [record.getMessage() for record in caplog.records] == ["a listener of breaker failed at key glm"]


def test_a_listener_may_update(store: Store) -> None:
    table, counts = store.table("breaker"), store.table("counts")
    table.subscribe(lambda key, value: void(counts.update(key, lambda old: {"n": (old or {"n": 0})["n"] + 1})))
    with store.transaction():
        table.update("glm", lambda old: {"a": 1})
        table.update("glm", lambda old: {"a": 2})
    table.update("glm", lambda old: {"a": 3})
    assert seen(store, "counts") == {"glm": {"n": 2}}


def void(_: object) -> None: ...


def test_FC_92_a_transaction_is_told_when_it_is_over_each_key_once(store: Store) -> None:
    table, other = store.table("breaker", keep=True), store.table("lockout")
    heard: list[Mapping[str, Value]] = []
    for each in (table, other):
        each.subscribe(lambda key, value: heard.append(seen(store)))
    with store.transaction():
        table.update("glm", lambda old: {"a": 1})
        with store.transaction():
            other.update("m", lambda old: {"b": 1})
        table.update("glm", lambda old: {"a": 2})
        assert heard == []
        assert table.get("glm") == {"a": 2}
    assert heard == [{"glm": {"a": 2}}, {"glm": {"a": 2}}]


def test_FC_92_an_exception_takes_back_the_whole_transaction(store: Store) -> None:
    table, other = store.table("breaker", keep=True), store.table("lockout")
    table.update("glm", lambda old: {"a": 1})
    table.update("gone", lambda old: {"a": 1})
    heard: list[str] = []
    table.subscribe(lambda key, value: heard.append(key))
    with pytest.raises(ZeroDivisionError), store.transaction():
        table.update("glm", lambda old: {"a": 2})
        table.update("glm", lambda old: {"a": 3})
        table.update("new", lambda old: {})
        table.update("brief", lambda old: {})
        table.update("brief", lambda old: None)
        table.update("gone", lambda old: None)
        with store.transaction():
            other.update("m", lambda old: {})
        raise ZeroDivisionError
    assert seen(store) == {"glm": {"a": 1}, "gone": {"a": 1}}
    assert [key for key, _ in table.scan("g")] == ["glm", "gone"]
    assert seen(store, "lockout") == {}
    assert heard == []


def test_a_refusal_that_is_caught_inside_does_not_end_the_transaction(store: Store) -> None:
    table = store.table("breaker", keep=True)
    with store.transaction():
        table.update("a", lambda old: {})
        with pytest.raises(TypeError):
            table.update("b", lambda old: {"x": object()})
    assert seen(store) == {"a": {}}


def test_a_store_is_content_until_it_is_not(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store.table("breaker", keep=True).update("glm", lambda old: {})
        assert store.flush()
        assert store.trouble == ""
        store.close()
        store.close()
    assert caplog.records == []
    assert store.table("breaker").update("glm", lambda old: {"after": "close"}) == {"after": "close"}


def test_reprs_show_counts(store: Store) -> None:
    store.table("breaker", keep=True).update("glm", lambda old: {})
    store.permits.take("glm", limit=1, holder="a", until=2, now=1)
    store.journal("explain", keep_s=10, keep_bytes=1000).append({"id": "r1"})
    assert repr(store.table("breaker")) == "<Table breaker keys=1 keep>"
    assert repr(store.table("other")) == "<Table other keys=0>"
    assert repr(store.permits) == "<MemoryPermits keys=1 holders=1>"
    assert repr(store.journal("explain", keep_s=10, keep_bytes=1000)) == "<Journal explain entries=1 bytes=11/1000>"
    assert repr(store) in ("<MemoryStore tables=2>", "<SqliteStore state.db tables=2 pending=2 trouble=none>")
