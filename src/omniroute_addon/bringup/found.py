"""Which proxy a command line means: one that runs already, found by what it left behind."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8080
"""mitmproxy's, where `omniroute run` listens unless it is told otherwise."""
MARK = "OMNIROUTE_PROXY"
"""Set by `omniroute exec` for what it runs: a command inside it uses the same proxy, and starts no second one."""


OWNER = "OMNIROUTE_OWNER"
"""Set for a proxy that belongs to one process, whose id it is, and ends with it: nobody else must rely on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A proxy that runs."""

    host: str
    port: int
    confdir: Path
    """Where its certificate authority is kept."""


def owner_of(environ: Mapping[str, str]) -> int | None:
    """The process that this proxy belongs to; None: it is for everybody."""
    text = environ.get(OWNER, "")
    return int(text) if text.isascii() and text.isdigit() else None


def choose(proxies: Iterable[Mapping[str, Any]], port: int | None = None) -> Running | None:
    """The proxy that is meant, of what `GET /api/proxy` said of each: on this port, else for everybody.

    Of several the one where everybody expects it, else the newest. Bad answers are passed over.
    """
    found: list[tuple[bool, float, Running]] = []
    for about in proxies:
        for address in about.get("listen") or ():
            host, _, text = str(address).rpartition(":")
            if not text.isdigit() or (port is not None and int(text) != port):
                continue
            if port is None and about.get("owner") is not None:
                continue
            confdir = about.get("confdir")
            running = Running(
                host=LOOPBACK if host in ("", "0.0.0.0", "::", "[::]", "*") else host.strip("[]"),
                port=int(text),
                confdir=Path(str(confdir)).expanduser() if confdir else default_confdir(),
            )
            started = about.get("startedAt")
            found.append((running.port == DEFAULT_PORT, started if isinstance(started, int) else 0, running))
            break
    return max(found, key=lambda entry: entry[:2])[2] if found else None


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
