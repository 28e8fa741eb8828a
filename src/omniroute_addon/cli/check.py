"""`omniroute check`: whatever people wrote, judged without a proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from omniroute_addon.files import Files

from .files import file_options


@click.command()
@file_options("config", "rules", "plugins")
def check(files: Files) -> None:
    """Check configuration, packs and plugins; name every problem.

    Exit code 1 when anything is wrong. When all is well, says what the proxy would work with.
    """
    from omniroute_addon.errors import InputError

    loaded = files.load()
    book = files.rule_book(loaded)
    plugins = files.plugin_host(loaded.config.settings).plugins()
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    problems = [
        *loaded.problems,
        *book.problems,
        *(f"plugin {p.name} ({p.origin}): {p.detail}" for p in plugins if p.state == "broken"),
    ]
    if problems:
        raise InputError([*problems, _count(len(problems), "problem")])

    config, packs = loaded.config, loaded.packs
    changed = sum(source.origin != "default" for source in config.sources.values())
    for name, text, place in (
        (
            "configuration",
            f"{_count(len(config.connections), 'connection')}, {_count(len(config.routes), 'route')}, "
            f"{_count(changed, 'setting')} changed",
            files.config_path,
        ),
        ("packs", f"{_count(len(packs.providers), 'provider')}, {_count(len(book.rules), 'rule')}", files.rules_folder),
        ("plugins", ", ".join(_states(p.state for p in plugins)), files.plugins_folder),
    ):
        click.echo(f"{name:<14} {text:<44} {_shown(place)}")


def _states(states: Iterable[str]) -> Iterator[str]:
    return (f"{number} {state}" for state, number in sorted(Counter(states).items(), reverse=True))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _shown(path: Path) -> str:
    return f"{path}" if path.exists() else f"{path} (not there)"
