"""The file by which commands find a running proxy: where it can be asked, and the word that it wants to hear.

One file per proxy in `<state folder>/run`, readable by its owner only. What a killed proxy left behind is recognised by
asking: nobody answers there, or somebody who does not know the token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = "run"
_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """One running proxy. Its `repr` has no token in it."""

    url: str
    """`http://127.0.0.1:54321`, of the control endpoint."""
    token: str = field(repr=False)
    pid: int
    started_at: float
    """Epoch seconds."""
    listen: tuple[str, ...] = ()
    """Where the proxy itself listened when it started: `127.0.0.1:8080`."""
    path: Path | None = field(default=None, compare=False)
    """Where it was read from."""


def write(folder: Path, run: RunFile) -> Path:
    """Write it for its owner's eyes only, all at once. `folder` is the state folder. Raises OSError."""
    home = folder / FOLDER
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.chmod(0o700)
    path = home / f"{run.pid}-{urlsplit(run.url).port}.json"
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    text = {"url": run.url, "token": run.token, "pid": run.pid, "startedAt": run.started_at, "listen": [*run.listen]}
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(text, file)
    draft.replace(path)
    return path


def read_all(folder: Path) -> Iterator[RunFile]:
    """Every run file of a state folder that can be understood, oldest proxy first. Stale ones are among them."""
    found = []
    for path in sorted((folder / FOLDER).glob("*.json")):
        with suppress(OSError, ValueError):
            found.append(_read(path))
    yield from sorted(found, key=lambda run: run.started_at)


def remove(path: Path) -> None:
    """Take it away; whoever did so before is fine, and so is a folder that cannot be written."""
    with suppress(OSError):
        path.unlink()


def _read(path: Path) -> RunFile:
    """Raises OSError, or ValueError for what is no run file."""
    with path.open("rb") as file:
        value = json.loads(file.read(_MOST_BYTES))
    if not isinstance(value, dict):
        raise ValueError("not an object")
    url, token, pid, started_at = (value.get(name) for name in ("url", "token", "pid", "startedAt"))
    listen = value.get("listen")
    if not isinstance(url, str) or not isinstance(token, str) or not token.isascii() or not isinstance(pid, int):
        raise ValueError("not a run file")
    # The token goes nowhere but to this machine, whoever wrote the file.
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in ("127.0.0.1", "::1") or parts.port is None:
        raise ValueError("not on loopback")
    return RunFile(
        url=url,
        token=token,
        pid=pid,
        started_at=float(started_at) if isinstance(started_at, int | float) else 0.0,
        listen=tuple(str(address) for address in listen) if isinstance(listen, list) else (),
        path=path,
    )
