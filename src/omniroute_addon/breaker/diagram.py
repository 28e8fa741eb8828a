"""The table as the documentation shows it: `scripts/docs.py` puts both into `docs/circuit-breaker.md`."""

from __future__ import annotations

from collections.abc import Iterator

from .table import TABLE, Event, State


def mermaid() -> str:
    """A state diagram of every transition that changes the state."""
    return "\n".join(["stateDiagram-v2", f"    [*] --> {State.CLOSED}", *_arrows()])


def _arrows() -> Iterator[str]:
    for (state, event), row in TABLE.items():
        if row.to is not state:
            yield f"    {state} --> {row.to}: {event}"


def rows() -> Iterator[tuple[str, ...]]:
    """State, event, next state, what is done to the counters, reason; in the order of the table."""
    for state in State:
        for event in Event:
            row = TABLE.get((state, event))
            if row is not None:
                yield str(state), str(event), str(row.to), row.effect, row.reason
