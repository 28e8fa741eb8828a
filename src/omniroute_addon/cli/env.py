"""`omniroute env`: the variables that lead to the running proxy, in the words of a shell."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from omniroute_addon.bringup.shells import SHELLS, rendered, shell_of, unset

NONE_RUNS = (
    "No proxy is running. Start one in another terminal (omniroute run), "
    "or run your program behind one of its own: omniroute exec -- COMMAND"
)


@click.command()
@click.option("--shell", type=click.Choice(SHELLS), help="Whose words to use; that of $SHELL otherwise.")
@click.option("--agent", metavar="NAME", default="", help="Name the agent towards the proxy.")
@click.option("--port", type=click.IntRange(1, 65_535), help="The port of the proxy that is meant.")
@click.option("--unset", "takes_away", is_flag=True, help="Print what takes the variables away again.")
def env(shell: str | None, agent: str, port: int | None, takes_away: bool) -> None:
    """Print the variables that bring programs behind the running proxy.

    In sh, bash and zsh: eval "$(omniroute env)". Every program that is started in this terminal from then on goes
    through the proxy and trusts it.
    """
    from .behind import behind, find_running, proxy_variables

    running = find_running(os.environ, port)
    if running is None:
        raise click.ClickException(f"Nobody listens on port {port}." if port else NONE_RUNS)
    chosen = shell or shell_of(os.environ, windows=os.name == "nt")
    try:
        values = proxy_variables(behind(running, agent, os.environ), os.environ)
        if takes_away:
            click.echo(unset(values, chosen))
            return
        click.echo(rendered(values, chosen, command=_command(shell, agent, port) if _is_terminal() else ""))
    except OSError as error:
        raise click.ClickException(f"No certificate could be written to {running.confdir}: {error.strerror}.") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def _command(shell: str | None, agent: str, port: int | None) -> str:
    words: list[Any] = [
        "omniroute",
        "env",
        *(["--shell", shell] if shell else []),
        *(["--agent", agent] if agent else []),
    ]
    return " ".join(map(str, words))


def _is_terminal() -> bool:
    """Only a person needs to be told how to use it."""
    return sys.stdout.isatty()
