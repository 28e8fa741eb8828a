"""The picture that `omniroute status` draws: a tree of providers, connections and models, and what holds each of them back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from .words import counted, lasting

Mood = Literal["good", "waiting", "out", "note"]
_SIGNS: Mapping[Mood, str] = {"good": "●", "waiting": "◐", "out": "✗", "note": "○"}
_COLOURS: Mapping[Mood, str] = {"good": "green", "waiting": "yellow", "out": "red", "note": "cyan"}
_BAR = 10
_GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the tree."""

    name: str
    depth: int
    mood: Mood
    state: str
    left: str = ""
    """How long still, with a bar; or that only a person ends it."""
    why: str = ""

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """For a table: name, state, time left, cause."""
        return f"{'  ' * self.depth}{self.name}", f"{_SIGNS[self.mood]} {self.state}", self.left, self.why


def title(status: Mapping[str, Any]) -> str:
    """Which proxy, and since when."""
    proxy = status["proxy"]
    listens = f"listening at {', '.join(proxy['listen'])}" if proxy["listen"] else "not listening"
    up = lasting((proxy["now"] - proxy["startedAt"]) / 1000)
    return f"omniroute {proxy['version']}, {listens}, pid {proxy['pid']}, up {up}"


def summary(status: Mapping[str, Any]) -> str:
    """What a person wants to know first."""
    connections = [c for c in status["connections"] if c["configured"]]
    ready = sum(c["state"] == "ready" for c in connections)
    timers = sum(t["blocks"] for t in status["timers"])
    if not connections:
        return f"No connection is configured; clients use their own credentials. {_counted(timers)}"
    return f"{ready} of {counted(len(connections), 'connection')} ready. {_counted(timers)}"


def troubles(status: Mapping[str, Any]) -> list[str]:
    """What should be looked at: the state file, plugins that are not asked."""
    out = [f"state file: {status['store']['trouble']}"] if status["store"]["trouble"] else []
    return out + [f"plugin {p['name']} is {p['state']}: {p['detail'] or 'see the log'}" for p in status["plugins"]]


def tree(status: Mapping[str, Any]) -> list[Line]:
    """Providers, their connections below them, and what is locked below those."""
    lines: list[Line] = []
    for provider in status["providers"]:
        name = provider["provider"]
        mine = [t for t in status["timers"] if t["provider"] == name]
        lines += _provider(name, provider, [t for t in mine if t["part"] == "provider"], status["proxy"]["now"])
        for connection in (c for c in status["connections"] if c["provider"] == name):
            timers = [t for t in mine if t["connectionId"] == connection["connectionId"]]
            lines += _connection(connection, timers, status["proxy"]["now"])
    return lines


def draw(status: Mapping[str, Any]) -> str:
    """Everything as text with colours, as wide as the terminal."""
    lines = tree(status)
    width = shutil.get_terminal_size((120, 40)).columns
    used = [max((len(line.cells[column]) for line in lines), default=0) for column in range(3)]
    room = max(20, width - sum(used) - 3 * len(_GAP))
    painted = []
    for line in lines:
        *cells, why = line.cells
        padded = [cell.ljust(size) for cell, size in zip(cells, used, strict=True)]
        text = _GAP.join([*padded, why if len(why) <= room else why[: room - 1] + "…"]).rstrip()
        painted.append(click.style(text, fg=None if line.mood == "good" else _COLOURS[line.mood]))
    told = [click.style(f"! {text}", fg="red", bold=True) for text in troubles(status)]
    return "\n".join(
        [click.style(title(status), bold=True), summary(status), *told, *([""] if painted else []), *painted]
    )


def _provider(name: str, row: Mapping[str, Any], timers: Sequence[Mapping[str, Any]], now: int) -> Iterator[Line]:
    first = next((t for t in timers if t["blocks"]), None)
    noted = [t for t in timers if t is not first and (t["blocks"] or t["state"] != "CLOSED")]
    if first is None:
        mood: Mood = "good" if row["state"] == "CLOSED" else "note"
        yield Line(name=name, depth=0, mood=mood, state=row["state"].lower(), why=_why(noted[0]) if noted else "")
        noted = noted[1:]
    else:
        yield _line(name, 0, first, now)
    for timer in noted:
        yield _line(timer["mechanism"], 1, timer, now)


def _connection(row: Mapping[str, Any], timers: Sequence[Mapping[str, Any]], now: int) -> Iterator[Line]:
    whole = [t for t in timers if t["part"] == "connection"]
    name = row["connectionId"] + (
        "" if row["configured"] else " (the client's own)" if row["clientsOwn"] else " (gone)"
    )
    if whole:
        yield _line(name, 1, whole[0], now)
        yield from (_line(t["mechanism"], 2, t, now) for t in whole[1:])
    elif row["state"] == "ready":
        yield Line(name=name, depth=1, mood="good", state="ready")
    else:  # its provider is held back as a whole
        yield Line(name=name, depth=1, mood="waiting", state="waits", why=f"for its provider ({row['heldBackBy']})")
    yield from (_line(t["model"], 2, t, now) for t in timers if t["part"] == "model")


def _line(name: str, depth: int, timer: Mapping[str, Any], now: int) -> Line:
    mood: Mood = "out" if timer["terminal"] else "waiting" if timer["blocks"] else "note"
    return Line(name=name, depth=depth, mood=mood, state=timer["state"], left=_left(timer, now), why=_why(timer))


def _left(timer: Mapping[str, Any], now: int) -> str:
    if timer["until"] is None:
        return "until a person acts" if timer["terminal"] else ""
    begin, end = timer["since"], timer["until"]
    share = (end - now) / (end - begin) if begin is not None and end > begin else 0.0
    full = min(_BAR, max(0, round(share * _BAR)))
    return f"{'█' * full}{'░' * (_BAR - full)} {lasting((end - now) / 1000)}"


def _why(timer: Mapping[str, Any]) -> str:
    said = f"said by {timer['hint']}" if timer["hint"] else ""
    rule = f"rule {timer['rule']}" if timer["rule"] else ""
    return " · ".join(part for part in (timer["reason"], timer["detail"], rule, said) if part)


def _counted(timers: int) -> str:
    return f"{counted(timers, 'timer')} running." if timers else "Nothing is held back."
