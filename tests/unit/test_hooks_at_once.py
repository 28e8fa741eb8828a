"""Hooks answered on the spot: the same handlers in the same order, or mitmproxy's own way."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import exceptions
from mitmproxy.addons import asgiapp
from mitmproxy.http import HTTPFlow
from mitmproxy.proxy.layers.http import _hooks
from mitmproxy.proxy.layers.tls import TlsClienthelloHook
from mitmproxy.test import taddons
from mitmproxy.test.tflow import tflow

from omniroute_addon import hooks_at_once
from omniroute_addon.dispatch import Listeners


def known(name: str, **handlers: Any) -> Any:
    """An addon that counts as mitmproxy's own."""
    return type(name, (), {**handlers, "__module__": "mitmproxy.addons.known"})()


class Chain:
    """An addon manager with nothing but these addons, and what they were called for."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.calls: list[str] = []

    def says(self, word: str, *, then: BaseException | None = None) -> Any:
        def handler(_: Any, flow: HTTPFlow) -> None:
            self.calls.append(word)
            if then is not None:
                raise then

        return handler

    def run(self, *addons: Any, hook: Any = None) -> bool:
        manager = self.context.master.addons
        manager.chain = list(addons)
        manager.lookup = {str(place): addon for place, addon in enumerate(addons)}
        return hooks_at_once.runner(manager, Listeners())(hook or _hooks.HttpRequestHook(tflow()))


@pytest.fixture
def chain() -> Iterator[Chain]:
    with taddons.context() as context:
        yield Chain(context)


def test_all_plain_listeners_are_called_in_order(chain: Chain) -> None:
    first, second = known("A", request=chain.says("a")), known("B", request=chain.says("b"))
    assert chain.run(first, known("C", response=chain.says("c")), second) is True
    assert chain.calls == ["a", "b"]


def test_a_handler_that_may_wait_makes_it_mitmproxys_business(chain: Chain) -> None:
    async def waits(_: Any, flow: HTTPFlow) -> None:
        raise AssertionError("called")

    assert chain.run(known("A", request=chain.says("a")), known("B", request=waits)) is False
    assert chain.calls == []


def test_a_strangers_handler_makes_it_mitmproxys_business(chain: Chain) -> None:
    class Stranger:
        request = chain.says("stranger")

    assert chain.run(known("A", request=chain.says("a")), Stranger()) is False
    assert chain.calls == []


def test_who_wants_every_update_gets_it_from_mitmproxy(chain: Chain) -> None:
    assert chain.run(known("A", request=chain.says("a")), known("View", update=chain.says("update"))) is False
    assert chain.calls == []


def test_a_fault_is_logged_and_the_next_is_called(chain: Chain, caplog: pytest.LogCaptureFixture) -> None:
    bad = known("A", request=chain.says("a", then=RuntimeError("broken")))
    with caplog.at_level(logging.ERROR):
        assert chain.run(bad, known("B", request=chain.says("b"))) is True
    assert chain.calls == ["a", "b"] and "broken" in caplog.text


def test_a_halt_stops_the_rest(chain: Chain) -> None:
    halts = known("A", request=chain.says("a", then=exceptions.AddonHalt()))
    assert chain.run(halts, known("B", request=chain.says("b"))) is True
    assert chain.calls == ["a"]


@pytest.mark.parametrize(("host", "at_once"), [("example.com", True), ("mitm.it", False)])
def test_mitmproxys_own_page_is_waited_for(chain: Chain, host: str, at_once: bool) -> None:
    page = asgiapp.ASGIApp(lambda *_: None, "mitm.it", None)
    flow = tflow()
    flow.request.host_header = flow.request.host = host
    assert chain.run(page, hook=_hooks.HttpRequestHook(flow)) is at_once


def test_other_hooks_are_not_ours(chain: Chain) -> None:
    assert chain.run(known("A", tls_clienthello=chain.says("a")), hook=TlsClienthelloHook(None)) is False  # type: ignore[arg-type]
    assert chain.calls == []


def test_a_chain_of_known_addons_is_looked_through_once_and_again_when_it_changes(chain: Chain) -> None:
    manager = chain.context.master.addons
    first, second = known("A", request=chain.says("a")), known("B", request=chain.says("b"))
    manager.chain, manager.lookup = [first], {"a": first}
    run = hooks_at_once.runner(manager, Listeners())
    hook = _hooks.HttpRequestHook(tflow())
    assert run(hook) and run(hook) and chain.calls == ["a", "a"]
    manager.chain, manager.lookup = [first, second], {"a": first, "b": second}
    assert run(hook) and chain.calls == ["a", "a", "a", "b"]
    view = known("View", update=chain.says("update"))
    manager.chain, manager.lookup = [first, view], {"a": first, "view": view}
    assert run(hook) is False and len(chain.calls) == 4


def test_beside_a_stranger_listeners_are_looked_for_every_time(chain: Chain) -> None:
    class Stranger:
        pass

    manager = chain.context.master.addons
    stranger = Stranger()
    manager.chain = [known("A", request=chain.says("a")), stranger]
    manager.lookup = dict(enumerate(manager.chain))
    run = hooks_at_once.runner(manager, Listeners())
    hook = _hooks.HttpRequestHook(tflow())
    assert run(hook) is True
    stranger.request = chain.says("stranger")  # type: ignore[attr-defined]
    assert run(hook) is False and chain.calls == ["a"]
