"""`omniroute init`: a first configuration from the keys that are in the environment."""

from __future__ import annotations

import os
from pathlib import Path

import click

from omniroute_addon.files import Files

from .files import file_options
from .words import counted


@click.command()
@file_options("config", "rules")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--print", "shown", is_flag=True, help="Write the file to standard output, and nowhere else.")
def init(files: Files, force: bool, shown: bool) -> None:
    """Write a first omniroute.yaml from the keys in the environment.

    It holds the names of the variables, never what is in them. A file that is there stays unless --force is given.
    """
    from omniroute_addon.bringup.bundle import replace_file
    from omniroute_addon.bringup.starter_config import find_keys, starter
    from omniroute_addon.config import read_config
    from omniroute_addon.secrets import SecretProblem, SecretReference, Vault

    path = files.config_path
    if not shown and not force and _is_there(path):
        raise click.ClickException(f"{path} is there already. Edit it, or replace it: omniroute init --force")
    packs = files.packs()
    vault = Vault(environ=os.environ)

    def identity(variable: str) -> str:
        try:
            return vault.resolve(SecretReference(kind="env", name=variable))[0].digest
        except SecretProblem as problem:
            raise ValueError(str(problem)) from None

    found, left = find_keys(os.environ, packs.providers.values(), identity)
    text = starter(found, {provider.id: provider.name for provider in packs.providers.values()})
    reading = read_config(text.encode(), file=str(path), packs=packs, vault=vault)
    if reading.config is None:  # our own fault, and better told than written
        raise click.ClickException("what would be written cannot be used:\n" + "\n".join(reading.problems))
    if shown:
        click.echo(text, nl=False)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path.resolve(), text.encode(), mode=0o600)
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}.") from None
    click.echo(f"{path}: {counted(len(found), 'connection')}")
    for key in found:
        click.echo(f"  {key.connection:<24} {key.variable}")
    for other in left:
        click.echo(f"  left out: {other.variable}: {other.why}")
    for line in _next(len(found)):
        click.echo(line)


def _is_there(path: Path) -> bool:
    return path.exists() or path.is_symlink()


def _next(found: int) -> list[str]:
    if not found:
        return [
            "No key was found. The proxy works without: your agent's own key is then the only connection.",
            "Name further keys in the file, and look at it with: omniroute check",
        ]
    return [
        "Next: omniroute exec -- YOUR-AGENT      starts a proxy for it, in a terminal that has these variables",
        "      omniroute doctor                  looks whether all is well",
    ]
