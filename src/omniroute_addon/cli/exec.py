"""`omniroute exec`: one line that brings any program behind the proxy."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from omniroute_addon.files import Files

from .files import file_options


@click.command(name="exec", context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@file_options("config", "rules", "plugins")
@click.option("--set", "options", multiple=True, metavar="NAME=VALUE", help="An option of mitmproxy for the new proxy.")
@click.option("--port", type=click.IntRange(1, 65_535), help="The port of the running proxy that is meant.")
@click.option("--new", is_flag=True, help="Start a proxy for this command even when one runs.")
@click.option("--agent", metavar="NAME", help="What the agent is called in logs; its program's name otherwise.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing before the command runs.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def exec_(
    files: Files,
    options: tuple[str, ...],
    port: int | None,
    new: bool,
    agent: str | None,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Run a command behind the proxy.

    Uses the proxy that runs already. When none does, starts one on a free port of this machine for this command alone,
    and ends it afterwards. Sets the variables that make the command use and trust it; signals, terminal and exit code
    are the command's own. 125 is our own failure, 126 and 127: the command cannot be run, or is not found.

    A configuration file, packs, plugins or options that are named here are for a new proxy.
    """
    from omniroute_addon.bringup import command as run
    from omniroute_addon.bringup.found import MARK, Running, mark
    from omniroute_addon.errors import OmnirouteError

    from .behind import command_environment, find_running, start_own

    own, wants_new = None, new or bool(options) or files != Files()
    if wants_new and port is not None:
        raise click.UsageError("--port names a proxy that runs; leave it out, or what is for a new one.")
    try:
        file = run.find(command, os.environ)
        running = None if wants_new else find_running(os.environ, port)
        if running is None and port is not None:
            raise OmnirouteError(f"nobody listens on port {port}. Start a proxy there: omniroute run -p {port}")
        if running is None:
            own = start_own(files, options, _way_out())
            running = Running(host="127.0.0.1", port=own.port, confdir=own.confdir)
        name, environ = command_environment(running, files, command, agent, os.environ)
        environ[MARK] = mark(running)
        if not quiet:
            log = f"; its log: {_short(own.log)}" if own else ""
            click.echo(f"omniroute: '{name}' is behind the proxy at {running.host}:{running.port}{log}", err=True)
        code = run.become(file, command, environ)
    except run.CannotRun as error:
        click.echo(f"omniroute: {error}", err=True)
        code = error.code
    except (OmnirouteError, OSError) as error:
        click.echo(f"omniroute: {error}", err=True)
        code = run.OURS
    if own is not None:
        own.stop()
    sys.exit(code)


def _short(path: Path) -> str:
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def _way_out() -> Mapping[str, str]:
    """The environment of a proxy that we start. One that has ended must not be its way out: nothing would be reached."""
    from omniroute_addon.bringup.way_out import deserted, without_proxy

    gone = deserted(os.environ)
    if gone is None:
        return os.environ
    click.echo(
        f"omniroute: HTTPS_PROXY leads to {gone}, where nobody listens; it is left out. "
        'eval "$(omniroute env --unset)" takes it away.',
        err=True,
    )
    return without_proxy(os.environ)
