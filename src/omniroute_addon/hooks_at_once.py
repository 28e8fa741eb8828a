"""Hooks of an HTTP exchange that nobody has to wait for, answered on the spot.

mitmproxy starts a task for every hook; when it has ended, an event goes back through all layers of the client's
connection, behind a lock. That is right for handlers that wait. Those of mitmproxy's own addons, and ours, hardly ever do: they
are called here, from inside the exchange, and it goes on at once. A request has four such hooks.

Only where that cannot be noticed: the listeners are mitmproxy's own addons and ours, none is a coroutine function, and nobody
listens to `update` (mitmproxy's and mitmweb's flow lists do). Anything else goes mitmproxy's way, hook by hook.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_COROUTINE
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


def runner(manager: AddonManager, listeners: Listeners) -> Runner:
    """Returns the function that answers a hook, or says False and has done nothing: then it is for mitmproxy to do."""

    def run(hook: StartHook) -> bool:
        if type(hook) not in _HOOKS:
            return False
        flow = hook.flow  # type: ignore[attr-defined]
        if _plain_handlers(manager, listeners, UpdateHook([flow])) != []:
            return False
        handlers = _plain_handlers(manager, listeners, hook)
        if handlers is None:
            return False
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


def _plain_handlers(manager: AddonManager, listeners: Listeners, hook: Hook) -> list[Callable[[Any], None]] | None:
    """Who is to be called, in order; None when one of them might wait, or is a stranger."""
    handlers: list[Callable[[Any], None]] = []
    chain = manager.chain
    for place in reversed(listeners.places(chain, hook.name)):
        for addon, handler in manager._iter_hooks(chain[place], hook):
            if isinstance(addon, ASGIApp) and not _may_serve(addon, hook):
                continue
            code = getattr(handler, "__code__", None)
            if not type(addon).__module__.startswith(_TRUSTED) or code is None or code.co_flags & CO_COROUTINE:
                return None
            handlers.append(handler)
    return handlers


def _may_serve(page: ASGIApp, hook: Hook) -> bool:
    """mitmproxy's own web page (http://mitm.it) waits, but only for requests to itself.

    As its `should_serve`, which takes the authority apart; a host that is not even part of it need not be looked for.
    """
    request = hook.args()[0].request
    return not page.host.isascii() or page.host in (request.host_header or request.host)
