"""Which client refused our certificate, and what it needs: once for each client and host, in one sentence (`A39`).

When TLS fails there is no request yet, so the client is known by what its CONNECT said: user agent and proxy user.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from omniroute_addon.nearest import looks_like_credential

from .programs import BY_ID, CA_VARIABLES, NODE_CA, Program, by_user_agent

MOST = 512
"""Names and hosts that are remembered; the oldest go."""
_CERTAIN = "does not trust"
"""mitmproxy's words where the client said so; otherwise it only went away in the middle."""


class RefusedCertificates:
    """One for each proxy."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, tuple[str, str]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], None] = OrderedDict()

    def connected(self, connection: str, *, user_agent: str, user: str) -> None:
        """A CONNECT said who is calling. `connection`: mitmproxy's id of the client connection."""
        _put(self._clients, connection, (user_agent, user))

    def gone(self, connection: str) -> None:
        """The client connection is over."""
        self._clients.pop(connection, None)

    def refused(self, connection: str, *, host: str, error: str, confdir: Path) -> str | None:
        """The sentence for the log; None when it was said before."""
        user_agent, user = self._clients.get(connection, ("", ""))
        program = BY_ID.get(user) or by_user_agent(user_agent)
        who = _shown(user) or (program.name if program else "") or _shown(user_agent.partition(" ")[0]) or "a client"
        if (who, host) in self._told:
            return None
        _put(self._told, (who, host), None)
        certain = _CERTAIN in error
        verb = "refused our certificate" if certain else "ended the TLS handshake, perhaps because of our certificate,"
        return f"{who} {verb} for {_shown(host)}. {_advice(program, confdir)}"


def _advice(program: Program | None, confdir: Path) -> str:
    authority, bundle = confdir / "mitmproxy-ca-cert.pem", confdir / "omniroute-ca-bundle.pem"
    if program is None:
        names = ", ".join(CA_VARIABLES)
        return f'Start it with: omniroute exec -- COMMAND, or set what it honours of {names}: eval "$(omniroute env)"'
    variable = program.trusts[0]
    start = f" or start it with: omniroute exec -- {program.commands[0]}" if program.commands else ""
    return f"Where it is started, set {variable}={authority if variable == NODE_CA else bundle}{start}"


def _shown(text: str) -> str:
    if looks_like_credential(text):  # a token where the name should be
        return ""
    return "".join(c if c.isprintable() else "?" for c in text[:80])


def _put[K, V](entries: OrderedDict[K, V], key: K, value: V) -> None:
    entries[key] = value
    while len(entries) > MOST:
        entries.popitem(last=False)
