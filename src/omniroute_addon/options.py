"""The mitmproxy options of the addon: what `load` registers and the docs are made from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .nearest import unknown

OPTIONS: dict[str, tuple[type, object, str, Sequence[str] | None]] = {
    "omniroute_enabled": (
        bool,
        True,
        "Retry model calls on other connections. Switched off, mitmproxy works as if the addon were not there.",
        None,
    ),
    "omniroute_config": (
        str,
        "",
        "The configuration file: connections, routes, settings. Empty: omniroute.yaml in the user's configuration folder.",
        None,
    ),
    "omniroute_rules": (
        str,
        "",
        "Folder with your own provider packs. Empty: `rules` in the user's configuration folder.",
        None,
    ),
    "omniroute_plugins": (
        str,
        "",
        "Folder with your own plugins. Empty: `plugins` in the user's configuration folder.",
        None,
    ),
    "omniroute_state": (
        str,
        "",
        "The file that keeps what the addon has learned across restarts. Empty: state.db in the user's state folder.",
        None,
    ),
    "omniroute_control": (
        str,
        "auto",
        "Where `omniroute status` and other commands reach this proxy: auto (any free port of loopback), a port, or off.",
        None,
    ),
    "omniroute_intercept": (
        str,
        "providers",
        "Which TLS connections are decrypted: those to hosts that a pack names, or all (mitmproxy's own behaviour).",
        ("providers", "all"),
    ),
    "omniroute_fast_dispatch": (
        bool,
        True,
        "Ask only those addons that implement a hook, at once where none of them waits, leave out mitmproxy's debug checks "
        "of every message, and keep the garbage collector away from what start-up built.",
        None,
    ),
}
"""Option name -> type, default, help, choices."""

AT_START = frozenset({"omniroute_plugins", "omniroute_state", "omniroute_control"})
"""Options that count when the proxy starts, and not later."""


def wrong_choice(options: object, updated: Iterable[str]) -> str | None:
    """What is wrong with an option that has choices: mitmproxy only shows them, and a typing error would be the default."""
    for name in updated:
        choices = OPTIONS[name][3] if name in OPTIONS else None
        value = getattr(options, name) if choices else None
        if choices and value is not None and value not in choices:
            return f"{name}: {unknown('value', value, choices)}"
    return None
