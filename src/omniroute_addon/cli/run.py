"""`omniroute run`: mitmdump with our script, after a hint how to bring a client behind it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from omniroute_addon.bringup.shells import rendered
from omniroute_addon.bringup.variables import Behind, variables

from .path import SCRIPT
from .trust import own_authority, write_bundle

LOOPBACK = "127.0.0.1"
EVERY_INTERFACE = ("", "0.0.0.0", "::")
EXPLICIT_MODES = ("regular", "upstream")
"""Modes in which a client names the proxy itself."""

EXPOSED = (
    "Warning: other machines can reach this proxy and send requests through it; they get none of your credentials."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """What mitmproxy was told, as far as the hint needs it."""

    host: str
    """Name under which a client on this machine reaches the proxy."""
    port: int
    exposed: bool
    """Other machines can reach it."""
    confdir: Path
    """Where mitmproxy keeps its certificate authority."""


def read_options(options: list[str]) -> Listening | None:
    """Find the few options that the hint depends on, or None when no hint is wanted.

    mitmproxy itself judges all options; what is wrong here is told by it a moment later.
    """
    from mitmproxy.proxy.mode_specs import ProxyMode

    from omniroute_addon.peers import is_loopback

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-p", "--listen-port")
    parser.add_argument("--listen-host", default="")
    parser.add_argument("-m", "--mode", action="append", default=[])
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("--set", action="append", default=[])
    try:
        known, _ = parser.parse_known_args(options)
        settings = dict(pair.partition("=")[::2] for pair in known.set)
        modes = [ProxyMode.parse(mode) for mode in known.mode or [settings.get("mode", "regular")]]
        port = int(known.listen_port or settings.get("listen_port") or 0) or None
    except (argparse.ArgumentError, ValueError):
        return None
    mode = next((mode for mode in modes if mode.type_name in EXPLICIT_MODES), None)
    if mode is None or known.quiet:
        return None
    host = mode.listen_host(known.listen_host or settings.get("listen_host", LOOPBACK))
    return Listening(
        host=LOOPBACK if host in EVERY_INTERFACE else host,
        port=mode.listen_port(port) or 0,
        exposed=not is_loopback(host),
        confdir=Path(settings.get("confdir", "~/.mitmproxy")).expanduser(),
    )


def hint(listening: Listening) -> str:
    """What to type in the client's terminal. Raises OSError when the certificates cannot be written.

    It comes before mitmproxy has started, because afterwards nobody but mitmproxy prints; it says so.
    """
    behind = Behind(
        host=listening.host,
        port=listening.port,
        bundle=write_bundle(listening.confdir),
        authority=own_authority(listening.confdir),
    )
    exports = rendered(variables(behind, {}), "sh").replace("\n", "\n  ")
    return f"""\
As soon as it says below that the proxy is listening, set in the terminal of your agent or program:

  {exports}

Then start it as always. Ctrl-C here ends the proxy.
"""


def loopback(options: list[str]) -> list[str]:
    """What keeps mitmproxy on this machine unless somebody says otherwise (`design.md` §7.1).

    A script is loaded when mitmproxy is about to listen already, too late to choose the address. `--set` comes before
    mitmproxy's own configuration file and `--listen-host`, so both still win; given twice it would be refused.
    """
    said = any(option.removeprefix("--set=").startswith("listen_host") for option in options)
    return [] if said else ["--set", f"listen_host={LOOPBACK}"]


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[MITMPROXY OPTIONS]...")
def run(options: tuple[str, ...]) -> None:
    """Start the proxy: mitmdump with this addon.

    Prints first what to set in the terminal of your agent. All options go to mitmdump, such as -p 9000 or
    --set omniroute_config=FILE; `mitmdump --options` lists them.
    """
    arguments = list(options)
    listening = read_options(arguments)
    if listening:
        try:
            click.echo(hint(listening), err=True)
        except OSError as error:
            click.echo(f"No certificate could be written to {listening.confdir}: {error.strerror}.", err=True)
        if listening.exposed:
            click.echo(EXPOSED, err=True)
    from mitmproxy.tools.main import mitmdump

    sys.argv = ["mitmdump", "-s", str(SCRIPT), *loopback(arguments), *arguments]  # mitmproxy explains errors by it
    mitmdump(sys.argv[1:])
