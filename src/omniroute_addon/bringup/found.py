"""Which proxy a command line means: one that runs already, found by what it left behind."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8080
"""mitmproxy's, where `omniroute run` listens unless it is told otherwise."""
MARK = "OMNIROUTE_PROXY"
"""Set by `omniroute exec` for what it runs: a command inside it uses the same proxy, and starts no second one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A proxy that runs."""

    host: str
    port: int
    confdir: Path
    """Where its certificate authority is kept."""


def default_confdir() -> Path:
    """mitmproxy's folder when nobody says otherwise."""
    return Path("~/.mitmproxy").expanduser()


def marked(environ: Mapping[str, str]) -> Running | None:
    """The proxy of the `omniroute exec` around us, while it listens."""
    where, _, confdir = environ.get(MARK, "").partition(" ")
    host, _, port = where.rpartition(":")
    if not port.isdigit() or not listens(host, int(port)):
        return None
    return Running(host=host, port=int(port), confdir=Path(confdir) if confdir else default_confdir())


def mark(running: Running) -> str:
    """The value of `MARK`."""
    return f"{running.host}:{running.port} {running.confdir}"


def listens(host: str, port: int, *, within_s: float = 1.0) -> bool:
    """Somebody accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=within_s).close()
    except (OSError, OverflowError):
        return False
    return True
