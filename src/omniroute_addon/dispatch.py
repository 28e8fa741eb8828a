"""Ask only those addons that listen: mitmproxy's hook dispatch, without the walk.

For every hook mitmproxy walks all of its ~35 addons, each through two generators, a context manager and a coroutine,
and then walks them again for `update`. Hardly any of them listens: a request costs eight walks, nearly half of its
CPU. `install` puts two methods in front of one manager's own. They find the listeners and hand only those to the
manager's machinery.

What mitmproxy's own addons listen to is remembered by event, until an addon is added, removed or reloaded. All others
are looked at for every event: a handler that is set on one of them later, on the instance or the class, and a list of
sub-addons that changes are seen by the next event, as in mitmproxy. A tree of sub-addons is walked lazily by mitmproxy's
own `_iter_hooks`, so a `configure` that changes its own `addons` reaches the new ones in the same event. Errors go
through mitmproxy's own `safecall`.

One thing differs: when a synchronous handler gives a handler to a top-level addon further down the chain that did not
listen before, that one is asked from the next event on. (After a handler that was awaited, and after an addon was
added, the rest of the chain is looked through again.)

All that is right only for the manager that it was written for. `install` compares the source of the methods that it
stands in for, or relies on, with what it knows, and otherwise leaves the manager alone: slower, never wrong.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import io
import logging
import tokenize
from collections.abc import Callable

from mitmproxy import addonmanager, exceptions, hooks
from mitmproxy.addonmanager import AddonManager
from mitmproxy.master import Master

logger = logging.getLogger(__name__)

_REPLACED = ("trigger_event", "trigger")
_KNOWN = frozenset({"09a2a1ce2aef"})
"""Fingerprints of the machinery that this module stands in for: mitmproxy 12.3."""


def install(master: Master, listeners: Listeners | None = None) -> Callable[[], None] | None:
    """Speed up the hook dispatch of one master; `listeners` are those of its chain, for who else needs them.

    Returns the function that puts everything back, or None when the manager is not the one this module knows (another
    mitmproxy, a subclass, somebody else's replacement); it is then untouched. Never raises. Costs about 5 ms.
    """
    manager = master.addons
    strange = _strangeness(manager)
    if strange:
        logger.info("Fast hook dispatch stays off: %s. Everything works, mitmproxy's own dispatch is used.", strange)
        return None
    listeners = listeners or Listeners()

    async def invoke_addon(event: hooks.Hook) -> None:
        # Stands in for `trigger_event`. Its name: `safecall` cuts tracebacks at the frame that is called so, in order
        # that an addon's author sees only their own; and one coroutine less per listener is felt.
        chain, name = manager.chain, event.name
        places = listeners.places(chain, name)
        if not places:
            return
        size = len(chain)
        args = event.args()
        while places:
            place = places.pop()
            waited = False
            try:
                for _, handler in manager._iter_hooks(chain[place], event):
                    result = handler(*args)
                    if result is not None and inspect.isawaitable(result):
                        waited = True
                        await result
            except exceptions.AddonHalt:
                return
            except Exception:
                with addonmanager.safecall():  # logs what is an error, lets through what is not
                    raise
            if waited or len(chain) != size:
                size = len(chain)
                places = listeners.places(chain, name, start=place + 1)

    def trigger(event: hooks.Hook) -> None:
        chain = manager.chain
        places = listeners.places(chain, event.name)
        size = len(chain)
        while places:
            place = places.pop()
            try:
                with addonmanager.safecall():
                    manager.invoke_addon_sync(chain[place], event)
            except exceptions.AddonHalt:
                return
            if len(chain) != size:
                size = len(chain)
                places = listeners.places(chain, event.name, start=place + 1)

    def uninstall() -> None:
        for name, ours in (("trigger_event", invoke_addon), ("trigger", trigger)):
            if vars(manager).get(name) is ours:  # somebody who came after us keeps their own
                delattr(manager, name)

    # On the instance: no other manager of this process is affected, and putting back is forgetting.
    vars(manager).update(trigger_event=invoke_addon, trigger=trigger)
    return uninstall


class Listeners:
    """Where in the chain somebody may have something to call.

    Remembered is only what mitmproxy's own addons listen to: their handlers are methods of classes that nobody changes.
    Everybody else is looked at for every event, and so are those with sub-addons, for `_iter_hooks` to look into when it is
    their turn. A chain that changes is looked through anew.
    """

    def __init__(self) -> None:
        self._chain: list[object] = []
        self._loose: list[int] = []
        self._settled: dict[str, list[int]] = {}

    def places(self, chain: list[object], name: str, start: int = 0) -> list[int]:
        """Places from `start`, last first."""
        try:
            if self._chain != chain:  # compares by identity first: no addon's own `==` is asked while nothing changed
                self._begin(chain)
            found = self._settled.get(name)
            if found is None:
                loose = set(self._loose)
                found = [i for i, addon in enumerate(chain) if i not in loose and getattr(addon, name, None)]
                self._settled[name] = found
            own = [i for i in self._loose if getattr(chain[i], name, None) or hasattr(chain[i], "addons")]
        except Exception:  # noqa: BLE001 - an addon's property raised; asking everybody logs it, and with the right addon
            return [*range(len(chain) - 1, start - 1, -1)]
        return sorted((place for place in (*found, *own) if place >= start), reverse=True)

    def _begin(self, chain: list[object]) -> None:
        self._loose = [i for i, addon in enumerate(chain) if not _is_mitmproxys(addon)]
        self._chain, self._settled = [*chain], {}


def _is_mitmproxys(addon: object) -> bool:
    return type(addon).__module__.startswith("mitmproxy.addons.") and not hasattr(addon, "addons")


def _strangeness(manager: AddonManager) -> str:
    """Why this manager is not the one that we know; empty when it is."""
    if type(manager) is not AddonManager:
        return f"the addon manager is a {type(manager).__module__}.{type(manager).__qualname__}"
    for name in _REPLACED:
        if name in vars(manager):
            return f"somebody else has replaced its {name}"
    try:
        found = fingerprint()
    except (AttributeError, OSError, TypeError, SyntaxError, tokenize.TokenError) as error:
        return f"the source of the addon manager cannot be read ({error})"
    return "" if found in _KNOWN else f"the addon manager of this mitmproxy is a new one (fingerprint {found})"


def fingerprint() -> str:
    """12 hex digits over the code, without comments and docstrings, that `install` replaces or relies on."""
    parts = (
        addonmanager.traverse,
        addonmanager.safecall,
        AddonManager._iter_hooks,
        AddonManager.invoke_addon,
        AddonManager.invoke_addon_sync,
        AddonManager.trigger_event,
        AddonManager.trigger,
        hooks.Hook.args,
    )
    digest = hashlib.sha256()
    for part in parts:
        digest.update("\n".join(_code(inspect.getsource(part))).encode())
    return digest.hexdigest()[:12]


def _code(source: str) -> list[str]:
    """The tokens that mean something. A string that begins a line is a docstring."""
    blocks = {tokenize.INDENT: "{", tokenize.DEDENT: "}"}
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER}
    return [
        blocks.get(token.type, token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in layout and not (token.type == tokenize.STRING and not token.line[: token.start[1]].strip())
    ]


def freeze_gc() -> Callable[[], None]:
    """Take everything that start-up built out of the garbage collector's sight. Returns the function that undoes it.

    Call once, when the proxy is up (`running`): modules, options and addons live as long as the process, and each full
    collection stops all streams for some 50 ms to look at their ~85,000 objects in vain. The thresholds stay as they
    are: with five times higher ones the collector took the same share of CPU (a request's garbage is cyclic and has to
    be found some time), and more memory.
    """
    gc.collect()
    gc.freeze()
    return gc.unfreeze
