"""Which running proxy a command line means."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from omniroute_addon.bringup.found import MARK, OWNER, Running, choose, default_confdir, listens, mark, marked, owner_of


def about(listen: str, **more: Any) -> dict[str, Any]:
    return {"listen": [listen], "startedAt": 1000, "confdir": "/c", "owner": None, **more}


def port(proxies: list[dict[str, Any]], wanted: int | None = None) -> int | None:
    found = choose(proxies, wanted)
    return found.port if found else None


def test_only_proxy_is_meant() -> None:
    assert choose([about("127.0.0.1:9000")]) == Running(host="127.0.0.1", port=9000, confdir=Path("/c"))
    assert choose([]) is None


def test_proxy_of_one_command_is_for_nobody_else() -> None:
    """It ends with that command, and would take the other agent's answers along."""
    assert port([about("127.0.0.1:9000", owner=4711)]) is None
    assert port([about("127.0.0.1:9000", owner=4711), about("127.0.0.1:9001")]) == 9001
    assert port([about("127.0.0.1:9000", owner=4711)], 9000) == 9000  # unless it is named


def test_of_several_the_usual_port_wins_then_the_newest() -> None:
    old, new = about("127.0.0.1:9000"), about("127.0.0.1:9001", startedAt=2000)
    assert port([old, new]) == 9001
    assert port([new, old]) == 9001
    assert port([new, about("127.0.0.1:8080"), old]) == 8080
    assert port([new, old], 9000) == 9000
    assert port([new, old], 9999) is None


@pytest.mark.parametrize("listen", [":9000", "0.0.0.0:9000", "[::]:9000", "*:9000"])
def test_proxy_on_every_interface_is_reached_on_loopback(listen: str) -> None:
    found = choose([about(listen)])
    assert found and (found.host, found.port) == ("127.0.0.1", 9000)


def test_address_of_another_sort_is_kept() -> None:
    found = choose([about("[::1]:9000", confdir=None)])
    assert found == Running(host="::1", port=9000, confdir=default_confdir())


@pytest.mark.parametrize("answer", [{}, {"listen": None}, {"listen": ["nonsense"]}, {"listen": ["a:b"]}])
def test_odd_answers_are_passed_over(answer: dict[str, Any]) -> None:
    assert choose([answer]) is None
    assert port([answer, about("127.0.0.1:9000", startedAt="soon")]) == 9000


def test_mark_survives_the_environment() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        running = Running(host="127.0.0.1", port=server.getsockname()[1], confdir=Path("/my files/ca"))
        assert marked({MARK: mark(running)}) == running
        assert listens(running.host, running.port)
    assert marked({MARK: mark(running)}) is None  # it has ended


@pytest.mark.parametrize("text", ["", "nonsense", "127.0.0.1:", "127.0.0.1:99999 /c", ":::"])
def test_mark_that_cannot_be_read_is_none(text: str) -> None:
    assert marked({MARK: text}) is None


def test_owner_is_a_process_or_nobody() -> None:
    assert owner_of({OWNER: "4711"}) == 4711
    assert owner_of({}) is owner_of({OWNER: "me"}) is owner_of({OWNER: "\u0661"}) is None
