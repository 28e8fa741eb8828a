"""What runs beside the measuring process: upstream, client, and one mitmdump per contender."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class Helper:
    """The upstream or the client: a script of ours that is spoken to by lines."""

    def __init__(self, script: str) -> None:
        self._script = script
        self._process = subprocess.Popen(
            [sys.executable, HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {self._script} ended")
        return json.loads(line)

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


class Proxy:
    """One mitmdump, listening on a loopback port."""

    def __init__(self, name: str, folder: Path, options: Sequence[str], *, env: Mapping[str, str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.name = name
        self._log = folder / f"{name}.log"
        home = folder / name
        home.mkdir()
        # An empty home: neither a user's mitmproxy options nor a user's omniroute configuration gets in.
        homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"), str(home))
        code = "from mitmproxy.tools.main import mitmdump; mitmdump()"
        listen = ["--listen-host", "127.0.0.1", "-p", str(self.port), "--set", f"confdir={home}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *listen, *options],
                env={**os.environ, **env, **homes},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await_port()

    def _await_port(self) -> None:
        for _ in range(300):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                time.sleep(0.5)  # mitmdump listens before it finds errors in its scripts
                if self._process.poll() is None:
                    return
            time.sleep(0.1)
        raise SystemExit(f"bench: {self.name} did not start\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of what it logged."""
        return self._log.read_text(errors="replace")[-3000:]

    def cpu_s(self) -> float:
        """CPU seconds of all threads so far; nan where the system does not say."""
        root = Path(f"/proc/{self._process.pid}")
        try:  # nanoseconds; the classic counters tick a hundred times a second, too coarse for our windows
            return sum(int((t / "schedstat").read_text().split()[0]) for t in (root / "task").iterdir()) / 1e9
        except OSError:
            pass
        try:
            fields = (root / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return float("nan")

    def rss_mib(self) -> float:
        """Resident memory now; nan where the system does not say."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return float("nan")
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
