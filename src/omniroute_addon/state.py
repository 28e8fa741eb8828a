"""The state of one running proxy: when its file is opened, how long a request waits for it, and how it ends.

The file is opened, read and written by the store's own thread (`store.sqlite`). What the event loop does about it is here:
it hears that the file was read, lets the first requests wait a moment for that, and hands the end over to another thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from .store.sqlite import SqliteStore

WAIT_S = 5.0
"""How long after the start a request waits for the file at most. It takes a tenth of a second; on a machine that is busy
with its own start, longer. A disk that takes even longer is not worth a client's time."""


class State:
    """The store, opened when it is first needed. Use on the event loop."""

    def __init__(self, path: Path, *, told: Callable[[], None]) -> None:
        """`told` is called when what the file holds is in memory, or cannot be read now."""
        self._loop = asyncio.get_running_loop()
        self._told = told
        self._looked: asyncio.Future[None] = self._loop.create_future()
        self._open = False
        self.store = SqliteStore(path, on_look=self._on_look)

    def __repr__(self) -> str:
        return f"<State {'open' if self._open else 'not open'} {self.store!r}>"

    def open(self) -> None:
        """Start to read and write the file; returns at once."""
        if not self._open:
            self._open = True
            self._loop.call_later(WAIT_S, self._settle)
            self.store.open()

    def warming(self) -> list[Awaitable[None]]:
        """What a request must wait for before it chooses: the file, in the first moment after the start."""
        # Shielded: a client that goes away must not end the wait of the others.
        return [asyncio.shield(self._looked)] if self._open and not self._looked.done() else []

    def close(self) -> Awaitable[None]:
        """Write what is left, in another thread. It goes on when nobody awaits the answer."""
        self._settle()
        return asyncio.ensure_future(asyncio.to_thread(self.store.close))

    def _on_look(self) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        self._told()
        self._settle()

    def _settle(self) -> None:
        if not self._looked.done():
            self._looked.set_result(None)
