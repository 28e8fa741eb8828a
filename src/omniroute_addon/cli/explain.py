"""`omniroute explain`: what became of a past request, and why."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import click

from .control import NoAnswer, Proxy, control_options
from .explain_view import listing, story


@click.command()
@click.argument("request", required=False, metavar="[REQUEST]")
@control_options
@click.option("--limit", type=click.IntRange(1, 1_000), default=20, show_default=True, help="How many are listed.")
@click.option("--eventful", is_flag=True, help="List only those with a failure or a connection that was passed by.")
@click.option("--json", "as_json", is_flag=True, help="Print the proxy's answer as JSON.")
def explain(find: Callable[[], Proxy], request: str | None, limit: int, eventful: bool, as_json: bool) -> None:
    """Tell what became of a past request: every candidate, every attempt, everybody who was passed by, and why.

    REQUEST is the id in the answer's header x-omniroute-request and in the log, or `last` for the last one that something
    happened to. Without it the last requests are listed.
    """
    proxy = find()
    if request is None:
        found = proxy.ask("GET", f"/api/requests?limit={limit}&eventful={str(eventful).lower()}")
        click.echo(_json(found) if as_json else listing(found["requests"]))
        return
    if request == "last":
        newest = proxy.ask("GET", "/api/requests?limit=1&eventful=true")["requests"]
        if not newest:
            raise NoAnswer("no request with a failure or a skipped connection is remembered.")
        one = newest[0]
    else:
        one = proxy.ask("GET", f"/api/requests/{quote(request, safe='')}")
    click.echo(_json(one) if as_json else story(one, time.time() * 1000))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
