"""What every plugin may look at: configuration, packs, rules, clock, state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .clients.book import ClientBook
from .clock import Clock
from .store import Store
from .store.memory import MemoryStore

if TYPE_CHECKING:
    from .config import Config
    from .packs import Packs
    from .verdicts import RuleBook


@dataclass(slots=True, kw_only=True)
class Core:
    """The shared ground of engine and plugins. The attributes are replaced as a whole on a reload, never changed."""

    config: Config
    packs: Packs
    rules: RuleBook
    clients: ClientBook = field(default_factory=ClientBook)
    clock: Clock = field(default_factory=Clock)
    store: Store = field(default_factory=MemoryStore)
    """Where every mechanism keeps its state; only in memory unless the addon gives it a file."""
    warming: Callable[[], list[Awaitable[None]]] = list
    """What a new request waits for before its first target is chosen: the state, as long as it is being read."""
