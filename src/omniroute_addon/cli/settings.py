"""`omniroute settings`: every figure, where it came from, and how far it may be turned. Needs no running proxy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from omniroute_addon.errors import InputError
from omniroute_addon.files import Files

from .files import file_options

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from omniroute_addon.config import Config

PER_CONNECTION: Mapping[str, str] = {
    "priority": "0",
    "weight": "1",
    "max_concurrent": "none",
    "disable_cooling": "false",
    "allow_insecure": "false",
}
"""What a connection may turn for itself, with its default."""


@click.command()
@click.argument("words", nargs=-1, metavar="[WORD]...")
@file_options("config", "rules")
@click.option("--changed", is_flag=True, help="Only what is not at its default.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects instead of a table.")
def settings(files: Files, words: tuple[str, ...], changed: bool, as_json: bool) -> None:
    """Show every setting: its value, where it came from, its bounds.

    A WORD lists only settings with it in their name: omniroute settings breaker. A value comes from the built-in table,
    from an environment variable, from a line of the configuration file, or from a connection's own entry in it.
    """
    loaded = files.load()
    if loaded.refused:
        raise InputError(list(loaded.problems))
    rows = [
        row
        for row in (*_rows(loaded.config), *_of_connections(loaded.config, str(files.config_path)))
        if all(word.lower() in row["name"].lower() for word in words) and (row["origin"] != "default" or not changed)
    ]
    for problem in (*loaded.problems, *loaded.warnings):
        click.echo(problem, err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not rows:
        click.echo(_none_meant(words) if words else "Every setting is at its default.")
        return
    from tabulate import tabulate

    table = [(row["name"], _shown(row["value"]), row["origin"], row["allowed"]) for row in rows]
    click.echo(
        tabulate(table, headers=("setting", "value", "from", "allowed"), tablefmt="plain", disable_numparse=True)
    )


def _rows(config: Config) -> Iterator[dict[str, Any]]:
    from omniroute_addon.settings import rows

    for row in rows():
        found = config.sources.get(row.name)
        value = found.value if found is not None else row.field.get_default(call_default_factory=True)
        yield {
            "name": row.name,
            "value": _plain(value),
            "origin": found.origin if found is not None else "default",
            "default": _plain(row.field.get_default(call_default_factory=True)),
            "allowed": allowed(row.field),
            "environment": list(row.env),
            "meaning": row.field.description or "",
        }


def _of_connections(config: Config, file: str) -> Iterator[dict[str, Any]]:
    for connection in config.connections:
        for name, default in PER_CONNECTION.items():
            value = getattr(connection, name)
            if _shown(value) == default:
                continue
            yield {
                "name": f"connections.{connection.id}.{name}",
                "value": value,
                "origin": f"connection {connection.id} in {file}",
                "default": default,
                "allowed": "true or false" if isinstance(value, bool) else "a whole number",
                "environment": [],
                "meaning": "",
            }


def _none_meant(words: tuple[str, ...]) -> str:
    from omniroute_addon.nearest import by_nearness
    from omniroute_addon.settings import rows

    near = by_nearness(words[0], [row.name for row in rows()])[:3]
    return f"No setting has {' and '.join(words)} in its name. Nearest: {', '.join(near)}."


def allowed(field: FieldInfo) -> str:
    """What a setting may be, in few words: `0 … 86400000`, `last, first, never`."""
    annotation: Any = field.annotation
    if get_origin(annotation) is Literal:
        return ", ".join(str(word) for word in get_args(annotation))
    bounds = {
        name: getattr(m, name) for m in field.metadata for name in ("ge", "le") if getattr(m, name, None) is not None
    }
    unset = ", or unset" if type(None) in get_args(annotation) else ""
    if bounds:
        low, high = bounds.get("ge", 0), bounds.get("le")
        return (f"{low} … {high}" if high is not None else f"at least {low}") + unset
    if bool in (annotation, *get_args(annotation)):
        return "true or false" + unset
    return "a mapping" if get_origin(annotation) in (dict, Mapping) else "a list"


def _plain(value: Any) -> Any:
    """As JSON takes it."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if isinstance(value, (tuple, list, set, frozenset)):
        return [_plain(entry) for entry in value]
    return {str(k): _plain(v) for k, v in value.items()} if isinstance(value, Mapping) else value


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "(empty)"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value)
