"""What `omniroute doctor` asks of the state's file: is it whole, and can this version read it? Changes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from sqlite_utils import Database

from .faults import NewerStateFile, sentence
from .migrations import unknown_steps
from .state_file import BUSY_S


def trouble_of(path: Path) -> str:
    """One sentence, or empty when the file is well or not there."""
    if not path.exists():
        return ""
    try:
        address = f"{path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None)) as connection:
            found = connection.execute("pragma quick_check(1)").fetchone()
            if found is None or found[0] != "ok":
                raise sqlite3.DatabaseError(found[0] if found else "no answer")
            if newer := unknown_steps(Database(connection, execute_plugins=False)):
                raise NewerStateFile(f"was written by a newer version (it has {', '.join(newer)}); update")
    except (OSError, sqlite3.Error, NewerStateFile) as error:
        return sentence(path, error)
    return ""
