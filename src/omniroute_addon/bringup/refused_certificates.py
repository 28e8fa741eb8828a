"""Which client refused our certificate, and what it needs: once for each client and host, in one sentence (`A39`).

When TLS fails there is no request yet, so the client is known by what its CONNECT said: its headers and the proxy user.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from omniroute_addon.model import ClientProfile
from omniroute_addon.nearest import looks_like_credential

from .programs import CA_VARIABLES, NODE_CA

MOST = 512
"""Names and hosts that are remembered; the oldest go."""
_CERTAIN = "does not trust"
"""mitmproxy's words where the client said so; otherwise it only went away in the middle."""


class RefusedCertificates:
    """One for each proxy."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, tuple[str, ClientProfile | None]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def connected(self, connection: str, *, name: str, program: ClientProfile | None) -> None:
        """A CONNECT said who is calling. `connection`: mitmproxy's id of it; `name`: proxy user or user agent."""
        _put(self._clients, connection, (name, program))

    def gone(self, connection: str) -> None:
        """The client connection is over."""
        self._clients.pop(connection, None)

    def refused(self, connection: str, *, host: str, error: str, confdir: Path) -> str | None:
        """The sentence for the log; None when it was said before."""
        name, program = self._clients.get(connection, ("", None))
        who = _shown(name) or (program.name if program else "") or "a client"
        if (who, host) in self._told:
            return None
        _put(self._told, (who, host), None)
        certain = _CERTAIN in error
        verb = "refused our certificate" if certain else "ended the TLS handshake, perhaps because of our certificate,"
        return f"{who} {verb} for {_shown(host)}. {_advice(program, confdir)}"


def _advice(program: ClientProfile | None, confdir: Path) -> str:
    authority, bundle = confdir / "mitmproxy-ca-cert.pem", confdir / "omniroute-ca-bundle.pem"
    start = program.start if program is not None else None
    if start is None or not start.trusts:
        names = ", ".join(CA_VARIABLES)
        return f'Start it with: omniroute exec -- COMMAND, or set what it honours of {names}: eval "$(omniroute env)"'
    variable = start.trusts[0]
    how = f" or start it with: omniroute exec -- {start.commands[0]}" if start.commands else ""
    return f"Where it is started, set {variable}={authority if variable == NODE_CA else bundle}{how}"


def _shown(text: str) -> str:
    if looks_like_credential(text):  # a token where the name should be
        return ""
    return "".join(c if c.isprintable() else "?" for c in text[:80])


def _put[K, V](entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    while len(entries) > MOST:
        entries.popitem(last=False)
