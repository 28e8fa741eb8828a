"""What a person does first with an installed wheel, in a folder that holds nothing of the checkout.

    VENV/bin/python .ci/try-wheel.py FOLDER

Ends with an exception, so with exit code 1, at the first thing that is not as told.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

BIN = Path(sysconfig.get_path("scripts"))
START_S = 30


def omniroute(*arguments: str) -> str:
    """Run the command and return what it printed."""
    done = subprocess.run([BIN / "omniroute", *arguments], check=False, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), f"omniroute {' '.join(arguments)}: {done}"
    print(f"omniroute {' '.join(arguments)}: {done.stdout.splitlines()[0]}")
    return done.stdout.strip()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(proxy: int, upstream: int) -> http.client.HTTPResponse:
    """One plain request through the proxy, tried until the proxy listens."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", proxy, timeout=10)
            connection.request("GET", f"http://127.0.0.1:{upstream}/")
            return connection.getresponse()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def only_on_loopback(port: int) -> bool:
    """On Linux all of 127.* is this machine: a socket bound to 127.0.0.1 refuses 127.0.0.2, a wildcard does not."""
    try:
        socket.create_connection(("127.0.0.2", port), timeout=2).close()
    except OSError:
        return True
    return False


@contextlib.contextmanager
def running(*command: str | Path):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield
        assert process.poll() is None, "it ended by itself"
    finally:
        process.terminate()
        output, _ = process.communicate(timeout=20)
        print(output)
    assert "error in script" not in output and "Traceback" not in output


def main(folder: Path) -> None:
    os.chdir(folder)
    script = omniroute("path")
    assert Path(script).is_file() and folder.resolve() in Path(script).resolve().parents, script
    assert "anthropic" in omniroute("providers")
    assert "connection_cooldown" in omniroute("plugins")
    omniroute("check")
    omniroute("schema", "pack")
    upstream = free_port()
    with running(sys.executable, "-m", "http.server", str(upstream), "--bind", "127.0.0.1"):
        for start in ([BIN / "mitmdump", "-s", script], [BIN / "omniroute", "run"]):
            port = free_port()
            with running(*start, "--listen-port", str(port), "--set", f"confdir={folder / 'ca'}"):
                answer = ask(port, upstream)
                assert answer.status == 200, answer.status
                assert only_on_loopback(port), "it listens on every interface"
    print("the wheel works")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
