"""`omniroute check`: whatever people wrote, judged without a proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omniroute_addon.files import Files

from .files import file_options
from .words import counted

if TYPE_CHECKING:
    from omniroute_addon.plugin_host import PluginInfo
    from omniroute_addon.reload import Loaded


@click.command()
@file_options("config", "rules", "plugins")
def check(files: Files) -> None:
    """Check configuration, packs and plugins; name every problem.

    Says what the proxy would work with, warns of what is hardly meant, and ends with exit code 1 when anything is
    wrong.
    """
    from omniroute_addon.errors import InputError
    from omniroute_addon.pack_files import pack_folders
    from omniroute_addon.packs import load_packs

    from .doubts import doubts

    loaded = files.load()
    book = files.rule_book(loaded)
    plugins = files.plugin_host(loaded.config.settings).plugins()
    bundled, _ = load_packs(pack_folders()[:1])
    for row in _summary(files, loaded, len(book.rules), plugins):
        click.echo(row)
    for warning in (*loaded.warnings, *doubts(loaded.config, loaded.packs, bundled, plugins)):
        click.echo(f"warning: {warning}", err=True)
    problems = [
        *loaded.problems,
        *book.problems,
        *(f"plugin {p.name} ({p.origin}): {p.detail}" for p in plugins if p.state == "broken"),
    ]
    if problems:
        raise InputError([*problems, counted(len(problems), "problem")])


def _summary(files: Files, loaded: Loaded, rules: int, plugins: Iterable[PluginInfo]) -> Iterator[str]:
    """What would be in force, a line for each sort of file."""
    config, packs = loaded.config, loaded.packs
    changed = sum(source.origin != "default" for source in config.sources.values())
    for name, text, place in (
        (
            "configuration",
            "cannot be used"
            if loaded.refused
            else f"{counted(len(config.connections), 'connection')}, {counted(len(config.routes), 'route')}, "
            f"{counted(changed, 'setting')} changed",
            files.config_path,
        ),
        (
            "packs",
            f"{counted(len(packs.providers), 'provider')}, {counted(rules, 'rule')}",
            files.rules_folder,
        ),
        ("clients", counted(len(loaded.clients.profiles), "profile"), files.rules_folder / "clients"),
        ("plugins", ", ".join(_states(p.state for p in plugins)), files.plugins_folder),
    ):
        yield f"{name:<14} {text:<44} {_shown(place)}"


def _states(states: Iterable[str]) -> Iterator[str]:
    return (f"{number} {state}" for state, number in sorted(Counter(states).items(), reverse=True))


def _shown(path: Path) -> str:
    return f"{path}" if path.exists() else f"{path} (not there)"
