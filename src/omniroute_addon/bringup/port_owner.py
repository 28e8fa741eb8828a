"""Which program holds a port of this machine, as far as the system tells (Linux; empty elsewhere)."""

from __future__ import annotations

import contextlib
from pathlib import Path

_LISTENS = "0A"


def owner_of(port: int, proc: Path = Path("/proc")) -> str:
    """`python (process 4711)`, or empty when nobody knows."""
    inodes = {f"socket:[{inode}]" for name in ("tcp", "tcp6") for inode in _listening(proc / "net" / name, port)}
    for folder in proc.glob("[0-9]*") if inodes else ():
        with contextlib.suppress(OSError):
            for link in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(link.readlink()) in inodes:
                        return f"{(folder / 'comm').read_text().strip()} (process {folder.name})"
    return ""


def _listening(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [
        row[9] for row in rows if len(row) > 9 and row[3] == _LISTENS and int(row[1].rpartition(":")[2], 16) == port
    ]
