"""Which programs of this machine will trust the proxy, started from this terminal (`A39`). Looks at files only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from omniroute_addon.model import ClientProfile, ClientStart

from . import findings
from .bundle import SYSTEM_FILES, holds
from .findings import Finding
from .programs import NODE_CA


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The terminal that is judged."""

    environ: Mapping[str, str]
    authority: Path
    bundle: Path
    is_behind: bool
    """`HTTPS_PROXY` leads to a proxy of ours: what is started here goes through it."""
    home: Path
    folder: Path
    """Where the terminal is: some programs have settings there."""
    system_files: tuple[str, ...] = SYSTEM_FILES


def trust(program: ClientProfile, around: Surroundings) -> Finding:
    """Whether a program would trust the proxy, and the one step that is missing if not."""
    start = program.start or ClientStart()
    wrong: list[str] = []
    for variable in start.trusts:
        value = around.environ.get(variable, "")
        if not value:
            continue
        held = holds(Path(value).expanduser(), around.authority)
        if held:
            return findings.ok(program.name, f"trusts the proxy by {variable}")
        why = "cannot be read" if held is None else "does not hold the proxy's certificate"
        wrong.append(f"{variable} names {value}, which {why}")
    if not wrong and start.system_store and any(holds(Path(f), around.authority) for f in around.system_files):
        return findings.ok(program.name, "trusts the proxy by the system's own authorities")
    best = start.trusts[0]
    file = around.authority if best == NODE_CA else around.bundle
    todo = f"export {best}={file}"
    if start.commands:
        todo += f", or start it so: omniroute exec -- {start.commands[0]}"
    late = next(_set_too_late(start, around), None)
    if late:
        text = (
            f"{late[0]} is set in {late[1]} only, which {program.name} reads when TLS is set up already"
            if not wrong
            else f"{wrong[0]}; {late[1]} is read too late to change that"
        )
    else:
        text = wrong[0] if wrong else f"{' and '.join(start.trusts)} {_is(start)} not set here"
    if late or around.is_behind:
        return findings.broken(program.name, f"will refuse the proxy's certificate: {text}", todo)
    return findings.hint(program.name, f"would refuse the proxy's certificate from this terminal: {text}", todo)


def _is(start: ClientStart) -> str:
    return "is" if len(start.trusts) == 1 else "are"


def _set_too_late(start: ClientStart, around: Surroundings) -> Iterator[tuple[str, str]]:
    """Variables for us in the program's own settings: name, and the file as the user writes it."""
    for shown in start.settings:
        path = around.home / shown[2:] if shown.startswith("~/") else around.folder / shown
        try:
            variables = json.loads(path.read_text(encoding="utf-8"))["env"]
            for name in start.trusts:
                if variables.get(name):
                    yield name, shown
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
