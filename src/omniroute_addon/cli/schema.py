"""`omniroute schema`: what may be written, for editors."""

from __future__ import annotations

import json

import click


@click.command()
@click.argument("what", type=click.Choice(["config", "pack", "client"]), default="config")
def schema(what: str) -> None:
    """Print a JSON Schema, for editors.

    Of omniroute.yaml (config, the default), of a provider's pack (pack) or of a client's profile (client).

    Save it, and begin a YAML file with `# yaml-language-server: $schema=FILE`: the editor then completes and checks.
    """
    if what == "pack":
        from omniroute_addon.pack_schema import pack_json_schema as make
    elif what == "client":
        from omniroute_addon.clients.profile_schema import profile_json_schema as make
    else:
        from omniroute_addon.config_schema import config_json_schema as make
    click.echo(json.dumps(make(), indent=2))
