"""`omniroute status`: what a running proxy holds back, why, and for how long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from .control import Proxy, control_options
from .status_view import draw

_EVERY_S = 1.0


@click.command()
@control_options
@click.option("--watch", is_flag=True, help="Draw it anew every second, until Ctrl-C.")
@click.option("--json", "as_json", is_flag=True, help="Print the proxy's answer as JSON instead of a picture.")
def status(find: Callable[[], Proxy], watch: bool, as_json: bool) -> None:
    """Show what the running proxy holds back, why, and for how long.

    Providers, their connections, and models that are locked: each with its state, the time that is left, the cause, the
    rule that judged it, and where the upstream said how long.
    """
    proxy = find()

    def look() -> str:
        found: Mapping[str, Any] = proxy.ask("GET", "/api/status")
        return json.dumps(found, indent=2, ensure_ascii=False) if as_json else draw(found)

    if not watch:
        click.echo(look())
        return
    try:
        _watch(look)
    except KeyboardInterrupt:
        click.echo()


def _watch(look: Callable[[], str]) -> None:
    """Until Ctrl-C. With rich the picture changes in place and the terminal is as before afterwards."""
    try:
        from rich.live import Live
        from rich.text import Text
    except ImportError:
        while True:
            text = look()
            click.clear()
            click.echo(text)
            time.sleep(_EVERY_S)
    with Live(Text.from_ansi(look()), screen=True, auto_refresh=False) as live:
        while True:
            live.update(Text.from_ansi(look()), refresh=True)
            time.sleep(_EVERY_S)
