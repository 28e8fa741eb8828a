"""`omniroute doctor`: everything that must be right before an agent gets its answers."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omniroute_addon.files import Files

from .files import file_options
from .words import counted

if TYPE_CHECKING:
    from omniroute_addon.bringup.findings import Finding

MARKS = {"ok": "ok", "hint": "hint", "broken": "BROKEN"}
COLOURS = {"ok": "green", "hint": "yellow", "broken": "red"}


@click.command()
@file_options("config", "rules", "plugins")
@click.option("-p", "--port", default=8080, show_default=True, help="Where the proxy is to listen.")
@click.option("--no-self-test", is_flag=True, help="Leave out the request through a proxy of our own.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of lines.")
def doctor(files: Files, port: int, no_self_test: bool, as_json: bool) -> None:
    """Look whether all is well, and say what to do if not.

    One line for each thing: ok, a hint, or what is broken. Judges the terminal that it runs in: which programs, started
    here, would go through the proxy and trust it. Exit code 1 when something is broken. No key is ever shown.
    """
    found: list[Finding] = []
    for finding in _findings(files, port, no_self_test):
        found.append(finding)
        if not as_json:
            _show(finding)
    bad = sum(finding.state == "broken" for finding in found)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(finding) for finding in found], indent=2, ensure_ascii=False))
    else:
        click.echo(f"\n{counted(bad, 'thing')} broken" if bad else "\nall is well")
    sys.exit(1 if bad else 0)


def _findings(files: Files, port: int, no_self_test: bool) -> Iterator[Finding]:
    from omniroute_addon import places
    from omniroute_addon.bringup.found import default_confdir

    from . import examine
    from .behind import find_running

    running = find_running(os.environ)
    confdir = running.confdir if running else default_confdir()
    yield from examine.python()
    yield from examine.mitmproxy()
    yield from examine.written(files)
    yield from examine.state(places.default_state_dir())
    yield from examine.proxy(os.environ, port)
    yield from examine.certificate(os.environ, confdir)
    yield from examine.programs(files, os.environ, confdir, Path.cwd())
    yield from examine.node(os.environ)
    if not no_self_test:
        yield from examine.end_to_end(confdir)


def _show(finding: Finding) -> None:
    mark = click.style(f"{MARKS[finding.state]:<7}", fg=COLOURS[finding.state])
    click.echo(f"{mark} {finding.what:<16} {finding.text}")
    if finding.todo:
        click.echo(f"{'':<24} -> {finding.todo}")
