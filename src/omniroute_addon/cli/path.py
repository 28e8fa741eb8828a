"""`omniroute path`: where the file for `mitmdump -s` lies."""

from __future__ import annotations

from pathlib import Path

import click

SCRIPT = Path(__file__).resolve().parents[1] / "script" / "omniroute.py"
"""The file that mitmproxy loads."""


@click.command()
def path() -> None:
    """Print the file that mitmproxy loads.

    Use it with mitmdump, mitmproxy or mitmweb: mitmweb -s "$(omniroute path)".
    """
    click.echo(SCRIPT)
