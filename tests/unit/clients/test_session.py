"""Which conversation a request belongs to (`spec/13`, sections 1 and 2; `clients.md`, 14)."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.clients.session import session_of
from omniroute_addon.model import ClientProfile

PLAIN = ClientProfile()
MINE = ClientProfile(session_headers=("x-mine", "x-mine-too"), session_paths=(("run", "id"),))
HI = {"messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]}


def found(
    body: dict[str, Any] | None = None, profile: ClientProfile = PLAIN, agent: str | None = None, **headers: str
) -> str | None:
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return session_of(profile, fields, body or {}, agent=agent, owner="me")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_sa1_the_first_header_counts() -> None:
    everything = {"x_codex_session_id": "a", "x_session_id": "b", "x_omniroute_session": "c"}
    assert found(**everything) == "header:a"
    assert found(**{**everything, "x_codex_session_id": " "}) == "header:b"  # SA-11
    assert found(x_omniroute_session="c") == "header:c"


def test_the_profiles_own_headers_come_first() -> None:
    assert found(profile=MINE, x_mine="m", x_mine_too="n", x_session_id="b") == "header:m"
    assert found(profile=MINE, x_mine_too="n", x_session_id="b") == "header:n"
    assert found(profile=MINE, x_session_id="b") == "header:b"
    assert found(x_mine="m") is None


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"metadata": {"session_id": "s", "sessionId": "t"}, "prompt_cache_key": "p"}, "metadata:s"),
        ({"metadata": {"sessionId": "t"}, "conversation_id": "c"}, "metadata:t"),
        ({"conversation_id": "c", "session_id": "s"}, "conversation:c"),
        ({"conversation": "c"}, "conversation:c"),
        ({"conversation": {"id": "c"}, "session_id": "s"}, "conversation:c"),
        ({"session_id": "s", "prompt_cache_key": "p", "user": "u"}, "session:s"),
        ({"prompt_cache_key": "p"}, "prompt-cache:p"),
        ({"metadata": {"user_id": '{"device_id": "d", "session_id": "s-1"}'}}, "metadata:s-1"),
        ({"metadata": {"user_id": "user_aa_account_b-b_session_c-c"}}, "metadata:c-c"),
        ({"user": "u"}, None),
        *[({"metadata": {"user_id": value}}, None) for value in (5, "nobody", "[]", "{}", "{", "[" * 200_000)],
        *[({"metadata": value}, None) for value in (None, "x", "{}", "{not json", {}, [])],
    ],
)
def test_sa4_the_body_is_searched_in_this_order(body: dict[str, Any], key: str | None) -> None:
    assert found(body) == key


def test_the_profiles_own_place_in_the_body_comes_first() -> None:
    assert found({"run": {"id": "r"}, "session_id": "s"}, MINE) == "run:r"
    assert found({"run": '{"id": "r"}'}, MINE) == "run:r"


def test_sa7_to_sa9_an_id_is_kept_readable_hashed_or_refused() -> None:
    assert found({"session_id": " a.b_c:d-1 "}) == "session:a.b_c:d-1"
    assert found({"session_id": "a b"}) == f"session:sha256:{digest('a b')}"
    assert found({"session_id": "x" * 181}) == f"session:sha256:{digest('x' * 181)}"
    assert found({"session_id": "x" * 4097}) is None
    assert (found({"session_id": "\ud800"}) or "").startswith("session:sha256:")


def test_without_an_id_the_name_given_to_the_proxy_is_the_session() -> None:
    assert found(HI, agent="reviewer") == "agent:reviewer"
    assert found({"session_id": "s"}, agent="reviewer") == "session:s"


@pytest.mark.parametrize(
    "body",
    [
        HI,
        {"messages": [*HI["messages"], {"role": "assistant", "content": "hello"}, {"role": "user", "content": "more"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
        {"input": [{"type": "item_reference", "id": "x"}, {"content": "hi"}]},
        {"input": "hi"},
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        {"prompt": "hi"},
        {"messages": [{"role": "developer", "content": "hi"}]},
    ],
)
def test_sa12_else_it_is_how_the_conversation_began(body: dict[str, Any]) -> None:
    """SA-16, SA-19: with whose credential it is; and it stays while the history grows."""
    assert found(body) == f"input:sha256:{digest('me' + chr(0) + 'hi')}"


@pytest.mark.parametrize(
    "body", [{}, {"messages": []}, {"messages": [{}]}, {"input": {}}, {"input": []}, {"input": " "}, {"contents": 5}]
)
def test_sa17_nothing_to_tell_by_gives_no_key(body: dict[str, Any]) -> None:
    assert found(body) is None


def test_sa14_only_the_beginning_of_a_long_text_counts() -> None:
    assert found({"input": "x" * 4096}) == found({"input": "x" * 9999}) != found({"input": "x" * 4095})
    parts = [{"text": "x" * 4000}, {"text": "y" * 4000}]
    assert found({"messages": [{"role": "user", "content": parts}]}) == found(
        {"messages": [{"role": "user", "content": [*parts, {"text": "z"}]}]}
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "text", "content", "role", "session_id", "user_id"]), inner, max_size=3
        )
    ),
    max_leaves=9,
)
MEMBERS = st.sampled_from(["messages", "input", "contents", "metadata", "conversation", "prompt", "session_id"])


@given(st.dictionaries(MEMBERS, JSON, max_size=4), st.binary(max_size=9))
def test_no_body_and_no_header_breaks_it(body: dict[str, Any], header: bytes) -> None:
    key = session_of(MINE, {b"x-mine": header}, body, agent=None, owner="")
    assert key is None or (":" in key and key.isprintable() and len(key) < 300)
