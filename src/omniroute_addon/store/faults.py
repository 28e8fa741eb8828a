"""What can be wrong with the state's file, as one sentence a person can act on."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from omniroute_addon.errors import OmnirouteError

_ADVICE = {
    sqlite3.SQLITE_BUSY: "is locked by another program; close what holds it",
    sqlite3.SQLITE_LOCKED: "is locked by another program; close what holds it",
    sqlite3.SQLITE_READONLY: "cannot be written; give this user the right to write the file and its folder",
    sqlite3.SQLITE_PERM: "cannot be used; give this user the right to read and write the file and its folder",
    sqlite3.SQLITE_FULL: "cannot grow, the disk is full; make room",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; give this user the right to read and write the file and its folder",
    sqlite3.SQLITE_CORRUPT: "is corrupt and could not be set aside; move it away",
    sqlite3.SQLITE_NOTADB: "is no database and could not be set aside; move it away",
}
_ADVICE_OS = {
    errno.ENOSPC: _ADVICE[sqlite3.SQLITE_FULL],
    errno.EROFS: _ADVICE[sqlite3.SQLITE_READONLY],
    errno.EACCES: _ADVICE[sqlite3.SQLITE_PERM],
    errno.EPERM: _ADVICE[sqlite3.SQLITE_PERM],
    errno.ENOTDIR: "lies under something that is no folder; name another path",
    errno.EEXIST: "lies under something that is no folder; name another path",
}
_TRANSIENT = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL}
_RUINED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


class NewerStateFile(OmnirouteError):
    """The file was written by a newer version of this package; reading it with our rules could ruin it."""


def is_ruined(error: Exception) -> bool:
    """The file's content is damaged, so that a new file must be started."""
    return _code(error) in _RUINED


def is_transient(error: Exception) -> bool:
    """The open connection is as good as before; the same write may work later."""
    return _code(error) in _TRANSIENT


def sentence(path: Path, error: Exception) -> str:
    """What is wrong and what to do about it."""
    if isinstance(error, NewerStateFile):
        what = str(error)
    elif isinstance(error, OSError):
        what = _ADVICE_OS.get(error.errno or 0) or f"cannot be used ({error.strerror or error})"
    else:
        what = _ADVICE.get(_code(error)) or f"cannot be used ({error})"
    return f"{path} {what}. Until then state is kept in memory only."


def _code(error: Exception) -> int:
    """Primary result code of SQLite; 0 when the error is none of SQLite's own."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
