"""Where the proxy listens when nobody says so: a real `mitmdump`, started as a person starts it (`design.md` §7.1)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
STARTS = {
    "mitmdump -s omniroute_addon": [BIN / "mitmdump", "-s", "omniroute_addon"],
    "omniroute run": [BIN / "omniroute", "run"],
}

Start = Callable[..., int]


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=2).close()
    except OSError:
        return False
    return True


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start the proxy with further options; returns its port once it has settled."""
    processes: list[subprocess.Popen[str]] = []

    def run(command: list[str | Path], *options: str) -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        process = subprocess.Popen(
            [*command, "--set", f"listen_port={port}", "--set", f"confdir={tmp_path}", *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        processes.append(process)
        assert process.stdout
        for line in process.stdout:
            if "listening at" in line:
                break
        # A script is loaded while mitmproxy begins to listen, so the first address need not be the last.
        time.sleep(1)
        return port

    yield run
    for process in processes:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize("command", STARTS.values(), ids=STARTS)
def test_without_options_only_this_machine_can_connect(start: Start, command: list[str | Path]) -> None:
    """A socket bound to 127.0.0.1 refuses 127.0.0.2; one that is bound to every interface does not."""
    port = start(command)
    assert answers("127.0.0.1", port)
    assert not answers("127.0.0.2", port)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only one loopback address")
@pytest.mark.parametrize("command", STARTS.values(), ids=STARTS)
def test_address_that_the_user_names_is_the_one(start: Start, command: list[str | Path]) -> None:
    port = start(command, "--listen-host", "127.0.0.3")
    assert answers("127.0.0.3", port)
    assert not answers("127.0.0.1", port)


@pytest.mark.parametrize("command", STARTS.values(), ids=STARTS)
def test_mitmproxys_own_configuration_file_still_decides(
    start: Start, command: list[str | Path], tmp_path: Path
) -> None:
    (tmp_path / "config.yaml").write_text("listen_host: 0.0.0.0\n", encoding="utf-8")
    assert answers("127.0.0.2", start(command)) == (sys.platform == "linux")
