"""Hooks of an HTTP exchange that nobody has to wait for, answered on the spot.

mitmproxy starts a task for every hook; when it has ended, an event goes back through all layers of the client's
connection, behind a lock. That is right for handlers that wait. Those of mitmproxy's own addons, and ours, hardly ever do: they
are called here, from inside the exchange, and it goes on at once. A request has four such hooks.

Only where that cannot be noticed: the listeners are mitmproxy's own addons and ours, none is a coroutine function, and nobody
listens to `update` (mitmproxy's and mitmweb's flow lists do). Anything else goes mitmproxy's way, hook by hook.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from inspect import CO_COROUTINE
from types import ModuleType
from typing import Any

from mitmproxy import addonmanager, exceptions
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons.asgiapp import ASGIApp
from mitmproxy.hooks import Hook, UpdateHook
from mitmproxy.proxy.commands import StartHook
from mitmproxy.proxy.layers.http import _hooks

from .dispatch import Listeners

_HOOKS = frozenset(
    {
        _hooks.HttpRequestHeadersHook,
        _hooks.HttpRequestHook,
        _hooks.HttpResponseHeadersHook,
        _hooks.HttpResponseHook,
        _hooks.HttpErrorHook,
    }
)
_TRUSTED = ("mitmproxy.addons.", "omniroute_addon.")

Runner = Callable[[StartHook], bool]
Listening = tuple[Any, Callable[[Any], None]]
"""An addon and its handler."""


def runner(manager: AddonManager, listeners: Listeners) -> Runner:
    """Returns the function that answers a hook, or says False and has done nothing: then it is for mitmproxy to do."""
    settled = _Settled(manager)

    def run(hook: StartHook) -> bool:
        if type(hook) not in _HOOKS:
            return False
        found = settled.handlers(hook)
        if found is None:
            if any(_listening(manager, listeners, UpdateHook([]))):
                return False
            found = [*_listening(manager, listeners, hook)]
        handlers = _plain(found, hook)
        if handlers is None:
            return False
        flow = hook.flow  # type: ignore[attr-defined]
        for handler in handlers:
            try:
                handler(flow)
            except exceptions.AddonHalt:
                break
            except Exception:
                with addonmanager.safecall():  # logs what is an error, lets through what is not
                    raise
        return True

    return run


class _Settled:
    """Who listens, remembered while mitmproxy's own addons and ours are all there are: those never change by themselves.

    One more addon, one less or a script that was loaded again is seen at the next hook.
    """

    def __init__(self, manager: AddonManager) -> None:
        self._manager = manager
        self._all: list[Any] = []
        self._usable = False
        self._found: dict[str, list[Listening]] = {}

    def handlers(self, hook: StartHook) -> list[Listening] | None:
        """The listeners to a hook in their order; None when they have to be looked for, or somebody wants every update."""
        every = list(self._manager.lookup.values())
        if every != self._all:
            self._all, self._found = every, {}
            self._usable = all(map(_never_changes, every)) and not any(
                True for top in self._manager.chain for _ in self._manager._iter_hooks(top, UpdateHook([]))
            )
        if not self._usable:
            return None
        found = self._found.get(hook.name)
        if found is None:
            found = [pair for top in self._manager.chain for pair in self._manager._iter_hooks(top, hook)]
            self._found[hook.name] = found
        return found


def _never_changes(addon: Any) -> bool:
    """mitmproxy's own and ours; of a script's module, those that it has."""
    if isinstance(addon, ModuleType):
        return all(map(_never_changes, getattr(addon, "addons", [None])))
    return type(addon).__module__.startswith(_TRUSTED)


def _listening(manager: AddonManager, listeners: Listeners, hook: Hook) -> Iterator[Listening]:
    chain = manager.chain
    for place in reversed(listeners.places(chain, hook.name)):
        yield from manager._iter_hooks(chain[place], hook)


def _plain(found: Sequence[Listening], hook: StartHook) -> list[Callable[[Any], None]] | None:
    """The handlers to call, in order; None when one of them might wait, or is a stranger's."""
    handlers: list[Callable[[Any], None]] = []
    for addon, handler in found:
        if isinstance(addon, ASGIApp) and not _may_serve(addon, hook):
            continue
        code = getattr(handler, "__code__", None)
        if not type(addon).__module__.startswith(_TRUSTED) or code is None or code.co_flags & CO_COROUTINE:
            return None
        handlers.append(handler)
    return handlers


def _may_serve(page: ASGIApp, hook: StartHook) -> bool:
    """mitmproxy's own web page (http://mitm.it) waits, but only for requests to itself.

    As its `should_serve`, which takes the authority apart; a host that is not even part of it need not be looked for.
    """
    request = hook.flow.request  # type: ignore[attr-defined]
    return not page.host.isascii() or page.host in (request.host_header or request.host)
