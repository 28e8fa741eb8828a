"""The command `omniroute`: one small file per command, each importing what is heavy only when it runs."""

from __future__ import annotations

import logging
from typing import IO, Any

import click

from omniroute_addon import __version__
from omniroute_addon.errors import OmnirouteError

from .check import check
from .doctor import doctor
from .env import env
from .exec import exec_
from .explain import explain
from .init import init
from .path import path
from .plugins import plugins
from .providers import providers
from .reset import reset
from .rules import rules
from .run import run
from .schema import schema
from .settings import settings
from .status import status


class Refused(click.ClickException):
    """Something that a person wrote cannot be used: the text as it is, exit code 1, no traceback."""

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, file=file, err=file is None)


class Omniroute(click.Group):
    """A group that tells our own errors as sentences."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OmnirouteError as error:
            raise Refused(str(error)) from error


@click.group(cls=Omniroute, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="omniroute")
def cli() -> None:
    """Keeps LLM agents working when their providers do not."""
    # What is logged while loading is told by the commands themselves; without a handler Python would print it as well.
    logging.getLogger("omniroute_addon").addHandler(logging.NullHandler())


for command in (
    run,
    exec_,
    env,
    init,
    doctor,
    status,
    reset,
    explain,
    settings,
    path,
    check,
    providers,
    rules,
    plugins,
    schema,
):
    cli.add_command(command)


def main() -> None:
    """Entry point of the package."""
    cli(prog_name="omniroute")
