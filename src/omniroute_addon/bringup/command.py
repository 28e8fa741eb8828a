"""Runs the command behind the proxy.

On POSIX this process becomes the command: signals, the terminal with its foreground group, job control and the exit code
are then the command's own, with nothing between that could lose one. Elsewhere it waits, and passes the exit code on.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

from omniroute_addon.errors import OmnirouteError

OURS = 125
"""Exit code for our own failure, as `env` and `timeout` have it; the command's own are below."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127


class CannotRun(OmnirouteError):
    """The command cannot be started."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


def find(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The file that runs. Raises CannotRun, before any proxy is started for it."""
    name = command[0]
    path = environ.get("PATH", os.defpath)
    found = shutil.which(name, path=path) if name else None
    if found:
        return found
    candidates = [name] if os.path.dirname(name) else [os.path.join(f, name) for f in path.split(os.pathsep)]  # noqa: PTH118, PTH120
    if name and any(os.path.exists(candidate) for candidate in candidates):  # noqa: PTH110
        raise CannotRun(f"'{name}' is there but cannot be executed. Check its permissions.", NOT_EXECUTABLE)
    raise CannotRun(f"'{name}' was not found. Check its spelling, and that it is on your PATH.", NOT_FOUND)


def become(file: str, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command to its end and return its exit code; where the system can, never return. Raises CannotRun."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        return wait_for(file, command, environ)
    # Python ignores these two; a program that is started expects them as they are by default.
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        try:
            os.execve(file, list(command), dict(environ))
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            # A script without `#!` line: the shell runs it, as every shell and `env` do.
            os.execve("/bin/sh", ["/bin/sh", file, *command[1:]], dict(environ))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it holds a null character"
        raise CannotRun(f"'{command[0]}' cannot be executed: {why}.", NOT_EXECUTABLE) from None


def wait_for(file: str, command: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run it as a child. Ctrl-C is the command's affair: the console sends it to both, and only the child acts on it."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = subprocess.run([file, *command[1:]], env=dict(environ), check=False).returncode
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CannotRun(f"'{command[0]}' cannot be executed: {why}.", NOT_EXECUTABLE) from None
    finally:
        signal.signal(signal.SIGINT, before)
    return 128 - code if code < 0 else code
