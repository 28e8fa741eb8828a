"""The attempt loop goes in only where mitmproxy is as we know it, and comes out without a trace."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import mitmproxy.proxy.layers.http as http_layers
import pytest
from mitmproxy import version
from mitmproxy.proxy import commands, layer
from mitmproxy.proxy.server import ConnectionHandler

from omniroute_addon.errors import UnsupportedMitmproxy
from omniroute_addon.stream import SUPPORTED, AttemptStream, install, missing
from omniroute_addon.stream.http1_repair import AttemptHttp1Client

STREAM, HTTP1 = http_layers.HttpStream, http_layers.Http1Client


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(AttemptStream, "engine", None, raising=False)
    yield
    assert (http_layers.HttpStream, http_layers.Http1Client) == (STREAM, HTTP1)


def engine() -> Any:
    return object()


def test_this_mitmproxy_fits() -> None:
    assert missing() == []


def test_install_replaces_and_uninstall_restores() -> None:
    mine = engine()
    uninstall = install(mine)
    assert (http_layers.HttpStream, http_layers.Http1Client) == (AttemptStream, AttemptHttp1Client)
    assert AttemptStream.engine is mine
    uninstall()
    assert (http_layers.HttpStream, http_layers.Http1Client) == (STREAM, HTTP1)
    uninstall()  # twice does no harm


def test_what_fits_still_fits_while_it_is_installed() -> None:
    uninstall = install(engine())
    try:
        assert missing() == []
    finally:
        uninstall()


def test_who_came_after_us_keeps_their_own() -> None:
    class Theirs(STREAM):  # type: ignore[misc, valid-type]
        pass

    uninstall = install(engine())
    setattr(http_layers, "HttpStream", Theirs)  # noqa: B010 - mypy knows that a class is no variable
    uninstall()
    assert http_layers.HttpStream is Theirs and http_layers.Http1Client is HTTP1
    setattr(http_layers, "HttpStream", STREAM)  # noqa: B010


@pytest.mark.parametrize("fits", ["12.3", "12.3.1", "12.99", "13", "13.0.0", "13.9.dev", "12.3.0.dev0"])
def test_supported_versions(monkeypatch: pytest.MonkeyPatch, fits: str) -> None:
    monkeypatch.setattr(version, "VERSION", fits)
    assert missing() == []


@pytest.mark.parametrize("other", ["12.2.9", "11.0", "14.0", "14", "1.0", "unknown"])
def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    monkeypatch.setattr(version, "VERSION", other)
    assert missing() == [f"its version is not {SUPPORTED}"]


def test_a_refusal_is_one_sentence_that_says_what_to_do_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version, "VERSION", "15.0")
    monkeypatch.delattr(commands, "RequestWakeup")
    with pytest.raises(UnsupportedMitmproxy) as refusal:
        install(engine())
    assert str(refusal.value) == (
        "mitmproxy 15.0 does not fit: its version is not 12.3 up to below 14; mitmproxy.proxy.commands.RequestWakeup is gone. "
        "omniroute-addon supports mitmproxy 12.3 up to below 14: install one of those."
    )
    assert AttemptStream.engine is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (STREAM, "make_server_connection"),
        (STREAM, "state_wait_for_response_headers"),
        (STREAM, "state_stream_response_body"),
        (STREAM, "state_consume_response_body"),
        (STREAM, "send_response"),
        (STREAM, "handle_protocol_error"),
        (STREAM, "check_killed"),
        (STREAM, "check_body_size"),
        (STREAM, "state_done"),
        (STREAM, "state_errored"),
        (STREAM, "state_uninitialized"),
        (http_layers.HttpLayer, "make_stream"),
        (http_layers.HttpLayer, "get_connection"),
        (http_layers.HttpLayer, "event_to_child"),
        (http_layers.HttpLayer, "register_connection"),
        (commands, "StartHook"),
        (commands, "CloseConnection"),
    ],
)
def test_a_part_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    monkeypatch.delattr(owner, name)
    assert missing() == [f"{owner.__name__}.{name} is gone"]


@pytest.mark.parametrize("name", ["read_body", "done"])
def test_a_part_that_was_inherited_and_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delattr(HTTP1.__mro__[1], name)
    assert missing() == [f"Http1Client.{name} is gone"]


def test_a_state_that_is_no_generator_any_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(STREAM, "send_response", lambda self: None)
    assert missing() == ["HttpStream.send_response is no generator"]


@pytest.mark.parametrize(
    ("owner", "lost"),
    [
        (http_layers.HttpLayer, ["streams", "connections", "waiting_for_establishment"]),
        (ConnectionHandler, ["max_conns", "transports", "_drain_lock"]),
        (layer.Layer, ["_paused", "_paused_event_queue"]),
    ],
)
def test_a_field_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, owner: Any, lost: list[str]) -> None:
    def __init__(self: Any) -> None:
        """Has none of them."""

    monkeypatch.setattr(owner, "__init__", __init__)
    assert missing() == [f"{owner.__name__} has no {name}" for name in lost]


@pytest.mark.parametrize("error", [OSError("no source"), TypeError("built-in")])
def test_a_mitmproxy_without_sources_is_refused_in_words(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def getsource(_: Any) -> str:
        raise error

    monkeypatch.setattr(inspect, "getsource", getsource)
    names = ("HttpLayer", "ConnectionHandler", "Layer", "ChunkedReader", "ReceiveBuffer")
    assert missing() == [f"the source of {name} cannot be read" for name in names]
