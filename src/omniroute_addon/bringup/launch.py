"""Starts a proxy for one command and waits until it listens; its log goes to a file, never into the agent's terminal."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from omniroute_addon.errors import OmnirouteError

from .found import OWNER

WITHIN_S = 60.0
"""A first start on a slow machine compiles everything."""
LOOK_EVERY_S = 0.03
KEPT_LOGS = 10
LOOPBACK = "127.0.0.1"
READY_SCRIPT = Path(__file__).with_name("ready") / "omniroute_ready.py"
_READY = re.compile(r"^omniroute: ready at 127\.0\.0\.1:(\d+)$", re.MULTILINE)


class NotStarted(OmnirouteError):
    """The proxy ended, or did not listen in time; the text holds the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnProxy:
    """A proxy that we started."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def stop(self) -> None:
        """End it, kindly first."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(options: Sequence[str], *, logs: Path, environ: Mapping[str, str], within_s: float = WITHIN_S) -> OwnProxy:
    """mitmdump with our addon on a free loopback port. Raises NotStarted, OSError.

    It gets a session of its own, so that Ctrl-C in the terminal reaches the agent and not the proxy.
    """
    log = _new_log(logs)
    command = [sys.executable, "-m", "omniroute_addon.cli.companion", *options, "-s", str(READY_SCRIPT)]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if os.name == "nt" else subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**environ, OWNER: str(os.getpid()), "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    deadline = time.monotonic() + within_s
    try:
        while True:
            ended = process.poll()
            text = log.read_text(encoding="utf-8", errors="replace")
            if ended is not None:
                raise NotStarted(f"the proxy ended with exit code {ended}. Its log, {log}, ends so:\n{_tail(text)}")
            if match := _READY.search(text):
                return OwnProxy(process=process, port=int(match[1]), log=log)
            if time.monotonic() > deadline:
                raise NotStarted(
                    f"the proxy did not listen within {within_s:.0f} s. Its log, {log}, ends so:\n{_tail(text)}"
                )
            time.sleep(LOOK_EVERY_S)
    except BaseException:
        process.kill()
        process.wait()
        raise


def _new_log(folder: Path) -> Path:
    """A file of our own that only the user may read; the oldest ones go."""
    folder.mkdir(parents=True, exist_ok=True)
    old = sorted(folder.glob("exec-*.log"), key=lambda path: path.stat().st_mtime if path.exists() else 0)
    for path in old[: max(0, len(old) - KEPT_LOGS + 1)]:
        with contextlib.suppress(OSError):
            path.unlink()
    log = folder / f"exec-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    log.touch(mode=0o600)
    return log


def _tail(text: str, lines: int = 15) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines()[-lines:]) or "  (nothing)"
