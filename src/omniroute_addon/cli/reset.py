"""`omniroute reset`: a person ends a timer early."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click

from .control import Proxy, control_options
from .words import counted


@click.group()
def reset() -> None:
    """End timers of the running proxy early.

    A terminal state (banned, expired, out of credits) stays, unless its connection is named with --terminal.
    """


@reset.command()
@click.argument("name")
@control_options
def provider(find: Callable[[], Proxy], name: str) -> None:
    """Close the circuit breaker of provider NAME."""
    _reset(find(), {"part": "provider", "name": name})


@reset.command()
@click.argument("name")
@click.option("--terminal", is_flag=True, help="Also when it is banned, expired or out of credits.")
@control_options
def connection(find: Callable[[], Proxy], name: str, terminal: bool) -> None:
    """Let connection NAME be asked again, with all of its models."""
    _reset(find(), {"part": "connection", "name": name, "terminal": terminal})


@reset.command()
@click.argument("name")
@click.option("--connection", help="Only on this connection; otherwise on all.")
@control_options
def model(find: Callable[[], Proxy], name: str, connection: str | None) -> None:
    """Let model NAME be asked again."""
    _reset(find(), {"part": "model", "name": name, "connection": connection})


@reset.command("all")
@control_options
def everything(find: Callable[[], Proxy]) -> None:
    """End every timer that time would end as well."""
    _reset(find(), {"part": "all"})


def _reset(proxy: Proxy, order: Mapping[str, Any]) -> None:
    done = proxy.ask("POST", "/api/reset", order)
    rows = done["cleared"]
    for row in rows:
        where = " ".join(str(word) for word in (row["provider"], row["connectionId"], row["model"]) if word)
        click.echo(f"cleared {row['mechanism']}: {where}")
    for name in done["skippedTerminal"]:
        click.echo(
            f"left as it is: {name}, which needs a person. `omniroute reset connection {name} --terminal` ends that."
        )
    if not rows and not done["skippedTerminal"]:
        click.echo("Nothing was held back.")
    elif rows:
        click.echo(f"{counted(len(rows), 'timer')} ended; the next request may go there.")
