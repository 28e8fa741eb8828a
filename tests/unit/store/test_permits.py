"""Permits: at most `limit` holders, each until its time is over."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from omniroute_addon.store import Store
from omniroute_addon.store.permits import MemoryPermits


def take(store: Store, holder: str, *, limit: int = 1, until: float = 10, now: float = 0, key: str = "glm") -> bool:
    return store.permits.take(key, limit=limit, holder=holder, until=until, now=now)


def test_no_more_than_the_limit(store: Store) -> None:
    assert take(store, "a", limit=2)
    assert take(store, "b", limit=2)
    assert not take(store, "c", limit=2)
    assert take(store, "c", limit=2, key="other")
    assert store.permits.held("glm", now=0) == 2


def test_one_that_is_given_back_is_free(store: Store) -> None:
    assert take(store, "a")
    store.permits.give("glm", holder="nobody")
    assert not take(store, "b")
    store.permits.give("glm", holder="a")
    store.permits.give("glm", holder="a")
    assert store.permits.held("glm", now=0) == 0
    assert take(store, "b")


def test_one_whose_time_is_over_is_free(store: Store) -> None:
    assert take(store, "a", until=10)
    assert not take(store, "b", now=9.999)
    assert store.permits.held("glm", now=9.999) == 1
    assert store.permits.held("glm", now=10) == 0
    assert take(store, "b", now=10, until=20)
    assert not take(store, "a", now=11)


def test_the_same_holder_renews_also_over_a_lowered_limit(store: Store) -> None:
    assert take(store, "a", limit=2)
    assert take(store, "b", limit=2)
    assert take(store, "a", limit=1, until=30)
    assert store.permits.held("glm", now=20) == 1
    assert not take(store, "c", limit=1, now=20)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_of_nothing_admits_nobody(store: Store, limit: int) -> None:
    assert not take(store, "a", limit=limit)
    assert store.permits.held("glm", now=0) == 0


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(1, 9), st.integers(0, 3)),
        max_size=30,
    )
)
def test_law_never_more_than_the_limit_and_nothing_is_left_behind(
    steps: list[tuple[str, bool, int, int]],
) -> None:
    permits, model, now = MemoryPermits(), dict[str, float](), 0.0
    for holder, taking, lasts, passes in steps:
        now += passes
        model = {who: until for who, until in model.items() if until > now}
        if taking:
            free = holder in model or len(model) < 2
            assert permits.take("k", limit=2, holder=holder, until=now + lasts, now=now) is free
            if free:
                model[holder] = now + lasts
        else:
            permits.give("k", holder=holder)
            model.pop(holder, None)
        assert permits.held("k", now=now) == len(model) <= 2
    assert permits.held("k", now=now + 10) == 0
    assert repr(permits) == "<MemoryPermits keys=0 holders=0>"
