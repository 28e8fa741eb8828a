"""`omniroute exec`: the command's own exit code and signals, whatever happens (issue 5, item 8)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from omniroute_addon.bringup import command as module
from omniroute_addon.bringup import found, launch
from omniroute_addon.bringup.command import CannotRun, find, wait_for

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX")


@pytest.fixture
def listening() -> Iterator[str]:
    """Something that listens, marked as the proxy of an `omniroute exec` around us."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def environ(tmp_path: Path, listening: str) -> dict[str, str]:
    """A terminal inside another exec: no proxy need be started, so these tests are quick."""
    confdir = tmp_path / "confdir"
    confdir.mkdir()
    (confdir / "mitmproxy-ca-cert.pem").write_text("-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----\n")
    plain = {name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS", "HTTPS_PROXY")}
    return {**plain, found.MARK: f"{listening} {confdir}"}


def started(environ: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from omniroute_addon.cli import main; main()", "exec", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
    )


def run(environ: dict[str, str], *words: str) -> tuple[int, str, str]:
    process = started(environ, *words)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_command_gets_the_variables_and_its_words_as_they_are(environ: dict[str, str], listening: str) -> None:
    show = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))"
    words = ("--config", "a b", "--", "-q", "*", "$HOME")
    code, out, err = run(environ, "--", sys.executable, "-c", show, *words)
    assert code == 0, err
    arguments, seen = json.loads(out)
    assert arguments == list(words)
    assert seen["HTTPS_PROXY"] == f"http://python:x@{listening}"
    assert Path(seen["SSL_CERT_FILE"]).is_file() and seen["NODE_USE_ENV_PROXY"] == "1"
    assert err == f"omniroute: 'python' is behind the proxy at {listening}\n"


def test_agent_and_its_token_are_named(environ: dict[str, str], listening: str) -> None:
    environ["OMNIROUTE_AGENT_TOKEN"] = "s3cret"
    code, out, err = run(environ, "--agent", "reviewer", "sh", "-c", "echo $HTTPS_PROXY")
    assert (code, out) == (0, f"http://reviewer:s3cret@{listening}\n")
    assert "s3cret" not in err


@pytest.mark.parametrize("code", [0, 1, 7, 125, 126, 127, 255])
def test_exit_code_is_the_commands(environ: dict[str, str], code: int) -> None:
    assert run(environ, "-q", "sh", "-c", f"exit {code}") == (code, "", "")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGWINCH", "SIGUSR1"])
def test_signal_reaches_the_command_once(environ: dict[str, str], name: str) -> None:
    """It may handle it and go on: Claude Code takes a second Ctrl-C for the wish to leave."""
    program = (
        "import signal, sys, time\n"
        f"signal.signal(signal.{name}, lambda *_: print('got it', flush=True))\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 1\n"
        "while time.monotonic() < end: time.sleep(0.05)\n"
        "sys.exit(9)\n"
    )
    process = started(environ, "-q", sys.executable, "-c", program)
    assert process.stdout and process.stdout.readline() == "ready\n"
    process.send_signal(getattr(signal, name))
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (9, "got it\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_death_by_a_signal_is_seen_by_the_shell_as_128_and_more(environ: dict[str, str], name: str) -> None:
    number = int(getattr(signal, name))
    words = [sys.executable, "-c", "from omniroute_addon.cli import main; main()", "exec", "-q", "sh", "-c"]
    script = '"$@"; echo $?'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words, f"kill -{number} $$"],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert done.stdout.strip() == str(128 + number)


def test_broken_pipe_ends_the_command_quietly(environ: dict[str, str]) -> None:
    """Python ignores SIGPIPE; what it starts must not."""
    line = f"{sys.executable} -c 'from omniroute_addon.cli import main; main()' exec -q sh -c 'yes' | head -1"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("y\n", "")


@pytest.mark.parametrize("where", ["", "./"])
def test_command_that_is_not_there_is_127(environ: dict[str, str], where: str) -> None:
    code, _, err = run(environ, f"{where}no-such-command")
    assert (code, err) == (
        127,
        f"omniroute: '{where}no-such-command' was not found. Check its spelling, and that it is on your PATH.\n",
    )


def test_file_that_is_not_executable_is_126(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.touch()
    code, _, err = run(environ, str(file))
    assert (code, err) == (126, f"omniroute: '{file}' is there but cannot be executed. Check its permissions.\n")
    assert run(environ, str(tmp_path))[0] == 126


def test_file_of_another_machine_is_126(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text("#!/nonexistent/interpreter\n")
    file.chmod(0o755)
    code, _, err = run(environ, "-q", str(file))
    assert (code, err) == (126, f"omniroute: '{file}' cannot be executed: No such file or directory.\n")


def test_script_without_a_first_line_is_run_by_the_shell(environ: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text('echo "$1 $HTTPS_PROXY" | cut -c1-11\n')
    file.chmod(0o755)
    assert run(environ, "-q", str(file), "hi")[:2] == (0, "hi http://s\n")


def test_without_a_command_the_usage_is_shown(environ: dict[str, str]) -> None:
    code, _, err = run(environ)
    assert code == 2 and "Usage: " in err


def test_option_without_a_value_is_told(environ: dict[str, str]) -> None:
    code, _, err = run(environ, "--set", "confdir", "true")
    assert code == 2 and "'confdir' has no '='. Write --set NAME=VALUE." in err


def test_proxy_that_does_not_start_is_125_and_its_log_is_shown(environ: dict[str, str], tmp_path: Path) -> None:
    broken = tmp_path / "omniroute.yaml"
    broken.write_text("connectoins: []\n")
    environ["XDG_STATE_HOME"] = str(tmp_path / "state")
    code, _, err = run(environ, "--config", str(broken), "--set", f"confdir={tmp_path / 'ca'}", "echo", "hi")
    assert code == 125
    assert "Did you mean 'connections'?" in err and "Traceback" not in err


# ---------------------------------------------------------------- where a process cannot become another


def test_waiting_passes_the_exit_code_on(environ: dict[str, str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    assert wait_for(find(["sh"], environ), ["sh", "-c", "exit 7"], environ) == 7
    assert wait_for(find(["sh"], environ), ["sh", "-c", "kill -9 $$"], environ) == 128 + 9
    assert signal.getsignal(signal.SIGINT) is before


def test_waiting_for_what_cannot_run_is_126(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="cannot be executed") as error:
        wait_for(str(tmp_path / "none"), ["none"], {})
    assert error.value.code == module.NOT_EXECUTABLE


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_odd_names_are_not_found(name: str) -> None:
    with pytest.raises(CannotRun) as error:
        find([name], {"PATH": "/bin"})
    assert error.value.code == module.NOT_FOUND


# ---------------------------------------------------------------- a proxy of one's own


@pytest.fixture
def home(environ: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A terminal in which no proxy runs."""
    del environ[found.MARK]
    return {
        **environ,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "s"),
        "XDG_CONFIG_HOME": str(tmp_path / "c"),
    }


def port_of(url: str) -> int:
    return int(url.strip().rpartition(":")[2])


def gone(port: int, *, within_s: float = 15.0) -> bool:
    end = time.monotonic() + within_s
    while found.listens("127.0.0.1", port):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def test_proxy_is_started_used_and_stopped(home: dict[str, str], tmp_path: Path) -> None:
    code, out, err = run(home, "sh", "-c", "echo $HTTPS_PROXY; exit 3")
    assert code == 3, err
    assert gone(port_of(out))
    [log] = (tmp_path / "s" / "omniroute" / "logs").iterdir()
    assert "listening at 127.0.0.1:" in log.read_text() and log.stat().st_mode & 0o077 == 0
    assert err.endswith(f"; its log: ~/s/omniroute/logs/{log.name}\n")


def test_proxy_ends_also_when_its_command_is_killed(home: dict[str, str]) -> None:
    process = started(home, "-q", "sh", "-c", "echo $HTTPS_PROXY; exec sleep 60")
    assert process.stdout
    port = port_of(process.stdout.readline())
    assert found.listens("127.0.0.1", port)
    process.kill()
    process.communicate()
    assert gone(port)


def test_proxy_that_somebody_else_started_is_used_and_left_alone(environ: dict[str, str], listening: str) -> None:
    _, out, _ = run(environ, "-q", "sh", "-c", "echo $HTTPS_PROXY")
    assert out == f"http://sh:x@{listening}\n"
    assert found.listens("127.0.0.1", port_of(listening))


def test_exec_inside_exec_uses_the_same_proxy(home: dict[str, str]) -> None:
    omniroute = f"{sys.executable} -c 'from omniroute_addon.cli import main; main()'"
    inner = f"echo $HTTPS_PROXY; {omniroute} exec sh -c 'echo $HTTPS_PROXY'"
    _, out, _ = run(home, "-q", "sh", "-c", inner)
    first, second = out.splitlines()
    assert first == second


def test_only_the_newest_logs_are_kept(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"exec-{number:02}.log").touch()
        os.utime(tmp_path / f"exec-{number:02}.log", (number, number))
    (tmp_path / "mine.txt").touch()
    launch._new_log(tmp_path)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert len(kept) == launch.KEPT_LOGS + 1 and "exec-19.log" in kept and "exec-00.log" not in kept
