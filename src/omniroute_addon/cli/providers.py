"""`omniroute providers`: who is known, where, and in which dialects."""

from __future__ import annotations

import json
from typing import Any

import click

from omniroute_addon.files import Files

from .files import file_options


@click.command()
@file_options("rules")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of a table.")
def providers(files: Files, as_json: bool) -> None:
    """List all known providers: hosts, dialects, number of rules.

    Rules are those of the provider's own pack; the shared ones of its dialects come on top.
    """
    packs = files.packs()
    rows: list[dict[str, Any]] = [
        {
            "id": provider.id,
            "name": provider.name,
            "hosts": list(provider.hosts),
            "dialects": [endpoint.dialect for endpoint in provider.endpoints],
            "rules": sum(len(f.lists.restate) + len(f.lists.classify) for f in packs.rules.get(provider.id, ())),
        }
        for provider in packs.providers.values()
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    from tabulate import tabulate

    table = [
        (r["id"], r["name"], "\n".join(r["hosts"]), "\n".join(r["dialects"]) or "(recognised only)", r["rules"])
        for r in rows
    ]
    click.echo(tabulate(table, headers=("id", "name", "hosts", "dialects", "rules"), tablefmt="plain"))
