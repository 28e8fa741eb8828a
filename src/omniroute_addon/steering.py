"""Seeing and steering what the mechanisms hold against providers, connections and models. Knows none of them by name.

Called on the event loop's thread, like every hook. Nothing here reads a file or waits.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from .connection_key import is_guest
from .core import Core
from .learning import on_one_line
from .model import Cleared, ResetOrder, Timer
from .plugin_host import PluginHost
from .provider_failure import provider_key

log = logging.getLogger(__name__)


def timers(core: Core, plugins: PluginHost) -> list[Timer]:
    """Every timer of every mechanism: what blocks first, then what ends first, then by name."""
    answers = plugins.each("timers", now=core.clock.now())
    rows: list[Timer] = [timer for answer in answers for timer in answer]
    return sorted(
        rows, key=lambda t: (not t.blocks, t.terminal, t.until or 0.0, t.provider, t.connection or "", t.model or "")
    )


def reset(core: Core, plugins: PluginHost, order: ResetOrder) -> list[Cleared]:
    """Clear what a person named, and log every thing that was (`A06`). On the disk only after the store's `flush`."""
    with core.store.transaction():
        answers = plugins.each("reset", order=order, now=core.clock.now())
    cleared: list[Cleared] = [entry for answer in answers for entry in answer]
    for entry in cleared:
        log.info(
            "reset by a person: mechanism=%s provider=%s connection=%s model=%s was=%s",
            *(entry.mechanism, entry.provider, entry.connection or "-", on_one_line(entry.model or "-"), entry.state),
        )
    return cleared


class Names:
    """Everything that a person may name now."""

    def __init__(self, core: Core, shown: Sequence[Timer]) -> None:
        config = core.config
        self.providers = sorted({provider_key(p) for p in core.packs.providers} | {t.provider for t in shown})
        self._of = {c.id: provider_key(c.provider) for c in config.connections}
        self._of |= {t.connection: t.provider for t in shown if t.connection and t.connection not in self._of}
        self.models = sorted(
            {t.model for t in shown if t.model}
            | {m for c in config.connections for m in (*c.models, *c.rename.values()) if "*" not in m}
        )

    @property
    def connections(self) -> list[str]:
        """Configured ones first, then clients' own credentials of which something is known."""
        return sorted(self._of, key=lambda name: (is_guest(name), name))

    def provider_of(self, connection: str) -> str:
        """Provider id of a known connection."""
        return self._of[connection]

    def of_provider(self, provider: str | None) -> list[str]:
        """Known connections of one provider, or of all."""
        return [c for c in self.connections if provider is None or self._of[c] == provider_key(provider)]


def terminal(shown: Iterable[Timer], connections: Collection[str] | None = None) -> set[str]:
    """Connections that only a person or a new credential brings back."""
    return {
        t.connection
        for t in shown
        if t.terminal and t.connection and (connections is None or t.connection in connections)
    }
