"""The proxy user names the agent, its token proves it, and nothing but a hash of the token is kept (`clients.md` 16)."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.agents import (
    ANONYMOUS,
    Caller,
    Callers,
    Refused,
    is_agent_name,
    parse_login,
    recognise,
    shown,
    token_hash,
)

TOKEN = "planted-token"
AGENTS = {"ada": token_hash(TOKEN), "lost": None}


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (basic("ada:x"), ("ada", "x")),
        (basic("ada:x").replace("Basic", "bASIC  "), ("ada", "x")),
        (basic("ada:a:b"), ("ada", "a:b")),
        (basic("ada:"), ("ada", "")),
        (basic(":x"), ("", "x")),
        (basic("ada"), None),
        ("Basic", None),
        ("", None),
        ("Basic ä", None),
        ("Basic YQ", None),
        ("Bearer YTpi", None),
    ],
)
def test_a_login_is_read_from_its_header(value: str, wanted: tuple[str, str] | None) -> None:
    assert parse_login(value) == wanted


@given(st.text())
def test_no_header_makes_it_raise(value: str) -> None:
    parse_login(value)
    parse_login(f"Basic {value}")


def test_the_token_proves_a_listed_name() -> None:
    caller = recognise(("ada", TOKEN), AGENTS, required=True)
    assert caller.name == "ada" and caller.is_proved(AGENTS)
    assert TOKEN not in repr(caller) and "proof" not in repr(caller)


def test_a_proof_ends_with_the_agent_or_its_token() -> None:
    caller = recognise(("ada", TOKEN), AGENTS, required=False)
    assert not caller.is_proved({}) and not caller.is_proved({"ada": token_hash("new")})


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("login", "why"),
    [
        (("ada", "x"), "wrong token for agent 'ada'"),
        (("ada", ""), "wrong token for agent 'ada'"),
        (("lost", ""), "wrong token for agent 'lost'"),
        (("lost", TOKEN), "wrong token for agent 'lost'"),
    ],
)
def test_a_listed_name_without_its_token_is_refused(login: tuple[str, str], why: str, required: bool) -> None:
    """Also the name whose token cannot be looked up: it must not be free for all."""
    with pytest.raises(Refused, match=f"^{why}$"):
        recognise(login, AGENTS, required=required)


@pytest.mark.parametrize(
    ("login", "why"),
    [
        (None, "no agent named"),
        (("", TOKEN), "no agent named"),
        (("eve", TOKEN), "unknown agent 'eve'"),
        (("eve\nx", ""), "unknown agent 'eve\\?x'"),
    ],
)
def test_where_agents_are_required_nobody_else_comes_in(login: tuple[str, str] | None, why: str) -> None:
    with pytest.raises(Refused, match=f"^{why}$"):
        recognise(login, AGENTS, required=True)


@pytest.mark.parametrize(
    ("login", "wanted"),
    [
        (None, ANONYMOUS),
        (("", "x"), ANONYMOUS),
        (("eve", "x"), Caller(name="eve")),
        (("no name", "x"), ANONYMOUS),
        (("e" * 65, "x"), ANONYMOUS),
    ],
)
def test_where_they_are_not_a_name_is_just_a_name(login: tuple[str, str] | None, wanted: Caller) -> None:
    caller = recognise(login, AGENTS, required=False)
    assert caller == wanted and not caller.is_proved(AGENTS)


def test_the_empty_token_of_nobody_proves_nothing() -> None:
    assert recognise(("eve", ""), {}, required=False).proof is None


@pytest.mark.parametrize(
    ("name", "fine"),
    [("a", True), ("ci-7.ada_b@x+y", True), ("", False), ("-a", False), ("a b", False), ("a\n", False)],
)
def test_what_a_name_may_be(name: str, fine: bool) -> None:
    assert is_agent_name(name) is fine


def test_a_name_from_outside_stays_on_its_line() -> None:
    assert shown("a\nb" + "c" * 100) == "a?b" + "c" * 61


def test_a_tunnels_caller_counts_before_what_a_request_in_it_says() -> None:
    class Thing:
        pass

    callers, connection, request = Callers(), Thing(), Thing()
    assert callers.of(request, connection) is None
    callers.remember(request, Caller(name="b"))
    assert callers.of(request, connection) == Caller(name="b")
    callers.remember(connection, Caller(name="a"))
    assert callers.of(request, connection) == Caller(name="a")
