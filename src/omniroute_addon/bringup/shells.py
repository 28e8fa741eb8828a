"""Variables as the lines that a shell, or another program, reads. Pure.

A value that a shell cannot carry raises `ValueError` rather than being written wrong.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final

_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,-]+")
_POWERSHELL_QUOTES = re.compile("['\u2018\u2019\u201a\u201b]")


def _sh(name: str, value: str) -> str:
    return f"export {name}={shlex.quote(value)}"


def _fish(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"set -gx {name} '{quoted}'"


def _powershell(name: str, value: str) -> str:
    # PowerShell takes typographic quotes for quotes; each is doubled to stand for itself.
    return f"$Env:{name} = '{_POWERSHELL_QUOTES.sub(lambda m: m[0] * 2, value)}'"


def _cmd(name: str, value: str) -> str:
    if '"' in value:
        raise ValueError(f"{name} holds a double quote, which cmd cannot carry. Use --shell powershell.")
    return f'set "{name}={value.replace("%", "%%")}"'


def _dotenv(name: str, value: str) -> str:
    if _PLAIN.fullmatch(value):
        return f"{name}={value}"
    if "'" not in value:
        return f"{name}='{value}'"
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'{name}="{escaped}"'


_LINES: Final[dict[str, Callable[[str, str], str]]] = {
    "sh": _sh,
    "bash": _sh,
    "zsh": _sh,
    "fish": _fish,
    "powershell": _powershell,
    "cmd": _cmd,
    "dotenv": _dotenv,
}
_UNSET: Final[dict[str, str]] = {
    "sh": "unset {}",
    "bash": "unset {}",
    "zsh": "unset {}",
    "fish": "set -e {}",
    "powershell": "Remove-Item Env:{} -ErrorAction SilentlyContinue",
    "cmd": 'set "{}="',
}
SHELLS: Final = (*_LINES, "json")
"""What `--shell` may be."""
_HOW: Final[dict[str, str]] = {
    "sh": '# To set them here: eval "$({})"',
    "bash": '# To set them here: eval "$({})"',
    "zsh": '# To set them here: eval "$({})"',
    "fish": "# To set them here: {} | source",
    "powershell": "# To set them here: {} | Out-String | Invoke-Expression",
    "cmd": "REM To set them here, in a batch file: {} > omniroute-env.cmd && call omniroute-env.cmd",
    "dotenv": "",
}


def rendered(values: Mapping[str, str], shell: str, *, command: str = "") -> str:
    """The whole text, with a last line that says how to use it when `command` is given. Raises ValueError."""
    for name, value in values.items():
        if any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise ValueError(f"{name} holds a line break or control character. Rename the folder that it names.")
    if shell == "json":
        return json.dumps(dict(values), indent=2, ensure_ascii=False)
    lines = [_LINES[shell](name, value) for name, value in values.items()]
    how = _HOW[shell].format(command) if command else ""
    return "\n".join([*lines, *([how] if how else [])])


def unset(names: Mapping[str, str], shell: str) -> str:
    """The lines that take the variables away again. Raises ValueError where there is no such line."""
    if shell not in _UNSET:
        raise ValueError(f"--unset cannot be said in {shell}. Use one of: {', '.join(_UNSET)}.")
    return "\n".join(_UNSET[shell].format(name) for name in names)


def shell_of(environ: Mapping[str, str], *, windows: bool) -> str:
    """The shell that called us, as far as the environment tells."""
    name = environ.get("SHELL", "").rpartition("/")[2]
    if name in _LINES:
        return name
    return "powershell" if windows and not name else "sh"
