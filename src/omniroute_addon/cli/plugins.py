"""`omniroute plugins`: who has a say, where it came from, and whether it is listened to."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from omniroute_addon.files import Files

from .files import file_options


@click.command()
@file_options("config", "plugins")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of a table.")
def plugins(files: Files, as_json: bool) -> None:
    """List all plugins in the order in which they are asked.

    Shows name, origin (user, entry point, bundled), version, the hooks it implements and its state: on, off,
    quarantined or broken. Switch one off with `plugins: {disabled: [NAME]}` in omniroute.yaml.
    """
    infos = files.plugin_host(files.load().config.settings).plugins()
    if as_json:
        rows = [asdict(info) for info in infos]
        for row in rows:
            del row["faults"]  # of this moment's process, which has asked nobody anything
        click.echo(json.dumps(rows, indent=2))
        return
    from tabulate import tabulate

    rows_of_text = [
        (info.name, info.origin, info.version, info.state, ", ".join(info.hooks) or info.detail) for info in infos
    ]
    click.echo(tabulate(rows_of_text, headers=("name", "origin", "version", "state", "hooks"), tablefmt="plain"))
