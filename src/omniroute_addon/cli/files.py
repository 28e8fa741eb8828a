"""`--config`, `--rules`, `--plugins`: the files and folders that a command looks at."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from omniroute_addon.files import Files


def file_options(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command those of `--config`, `--rules`, `--plugins` that are named, and its function `files`."""
    texts = {
        "config": "The configuration file instead of the standard one.",
        "rules": "Folder with your own packs instead of the standard one.",
        "plugins": "Folder with your own plugins instead of the standard one.",
    }

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def command(**arguments: Any) -> Any:
            chosen = {name: arguments.pop(name) for name in names}
            return function(files=Files(**chosen), **arguments)

        for name in reversed(names):
            folder = name != "config"
            # A folder that is named must be there; the standard one need not. A missing file is told with its cause.
            kind = click.Path(path_type=Path, dir_okay=folder, file_okay=not folder, exists=folder)
            command = click.option(f"--{name}", type=kind, help=texts[name])(command)
        return command

    return decorate
