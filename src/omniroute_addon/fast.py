"""All that makes mitmproxy itself quicker, switched on and off together (`omniroute_fast_dispatch`)."""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy.master import Master

from . import debug_checks, dispatch, hooks_at_once
from .stream import AttemptStream

Undo = Callable[[], None]


def install(master: Master) -> list[Undo]:
    """Call once, when the proxy is up. Returns what puts everything back; what mitmproxy is too new for stays off."""
    undo: list[Undo] = []
    listeners = dispatch.Listeners()
    uninstall = dispatch.install(master, listeners)
    if uninstall is not None:  # the manager is the one that we know
        AttemptStream.run_hook = hooks_at_once.runner(master.addons, listeners)
        undo += [uninstall, _without_run_hook]
    put_back = debug_checks.leave_out()
    if put_back is not None:
        undo.append(put_back)
    undo.append(dispatch.freeze_gc())
    return undo


def _without_run_hook() -> None:
    AttemptStream.run_hook = None
