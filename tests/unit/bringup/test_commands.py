"""`omniroute env`, `init` and `doctor` as a person types them."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from omniroute_addon import places
from omniroute_addon.bringup import self_test
from omniroute_addon.bringup.found import MARK
from omniroute_addon.bringup.port_owner import owner_of
from omniroute_addon.bringup.programs import CA_VARIABLES
from omniroute_addon.cli import cli
from omniroute_addon.cli.env import NONE_RUNS

KEY = "sk-planted-secret"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, and none of this machine's keys."""
    monkeypatch.setattr(places, "config_dir", lambda: tmp_path / "config")
    monkeypatch.setattr(places, "default_state_dir", lambda: tmp_path / "state")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [*os.environ]:
        if name.endswith(("_KEY", "_TOKEN")) or name in (*CA_VARIABLES, MARK, "HTTPS_PROXY", "https_proxy", "HF_TOKEN"):
            monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def running(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of something that is marked as the proxy around us."""
    (home / "ca").mkdir()
    (home / "ca" / "mitmproxy-ca-cert.pem").write_text("-----BEGIN CERTIFICATE-----\na\n-----END CERTIFICATE-----\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv(MARK, f"127.0.0.1:{port} {home / 'ca'}")
        yield port


def omniroute(*words: str | Path) -> Result:
    result = CliRunner().invoke(cli, [str(word) for word in words], prog_name="omniroute")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert KEY not in result.output
    return result


# ---------------------------------------------------------------- env


def test_env_without_a_proxy_prints_nothing_that_a_shell_would_run() -> None:
    result = omniroute("env")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"Error: {NONE_RUNS}\n")


def test_env_speaks_the_shell_that_is_wanted(running: int, home: Path) -> None:
    values = json.loads(omniroute("env", "--shell", "json").stdout)
    assert values["HTTPS_PROXY"] == f"http://127.0.0.1:{running}"
    assert Path(values["SSL_CERT_FILE"]).parent == home / "ca"
    assert omniroute("env", "--shell", "sh").stdout.startswith(f"export HTTPS_PROXY=http://127.0.0.1:{running}\n")
    assert omniroute("env", "--shell", "fish", "--agent", "me").stdout.startswith(
        f"set -gx HTTPS_PROXY 'http://me:x@127.0.0.1:{running}'\n"
    )
    assert omniroute("env", "--unset", "--shell", "sh").stdout.startswith("unset HTTPS_PROXY\n")
    assert omniroute("env", "--shell", "tcsh").exit_code == 2


def test_env_takes_the_port_that_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert f"127.0.0.1:{port}\n" in omniroute("env", "--shell", "sh", "--port", str(port)).stdout
    result = omniroute("env", "--port", str(port))
    assert (result.exit_code, result.stderr) == (1, f"Error: Nobody listens on port {port}.\n")


# ---------------------------------------------------------------- init


def test_init_writes_names_and_never_values(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY_WORK", f"{KEY}-2")
    result = omniroute("init")
    file = home / "config" / "omniroute.yaml"
    assert result.exit_code == 0 and result.stdout.startswith(f"{file}: 2 connections\n")
    assert KEY not in file.read_text() and file.stat().st_mode & 0o077 == 0
    rows = yaml.safe_load(file.read_text())["connections"]
    assert [(r["id"], r["key"]) for r in rows] == [
        ("anthropic-work", "env:ANTHROPIC_API_KEY_WORK"),
        ("openai", "env:OPENAI_API_KEY"),
    ]
    assert omniroute("check").exit_code == 0


def test_init_leaves_a_file_that_is_there_alone(home: Path) -> None:
    file = home / "config" / "omniroute.yaml"
    file.parent.mkdir()
    file.write_text("connections: []\n")
    result = omniroute("init")
    assert result.exit_code == 1
    assert result.stderr == f"Error: {file} is there already. Edit it, or replace it: omniroute init --force\n"
    assert file.read_text() == "connections: []\n"
    assert omniroute("init", "--force").exit_code == 0
    assert file.read_text() != "connections: []\n"


def test_init_follows_a_link_to_the_file(home: Path) -> None:
    (home / "config").mkdir()
    (home / "dotfiles.yaml").touch()
    (home / "config" / "omniroute.yaml").symlink_to(home / "dotfiles.yaml")
    assert omniroute("init").exit_code == 1
    assert omniroute("init", "--force").exit_code == 0
    assert (home / "config" / "omniroute.yaml").is_symlink() and (home / "dotfiles.yaml").read_text()


def test_init_prints_without_writing(home: Path) -> None:
    result = omniroute("init", "--print")
    assert yaml.safe_load(result.stdout) == {"connections": []}
    assert not (home / "config").exists()


def test_init_tells_when_it_cannot_write(home: Path) -> None:
    (home / "config").touch()
    result = omniroute("init")
    assert result.exit_code == 1 and "cannot be written" in result.stderr


# ---------------------------------------------------------------- doctor


def findings(*words: str | Path) -> tuple[int, dict[str, dict[str, str]]]:
    result = omniroute("doctor", "--no-self-test", "--json", *words)
    return result.exit_code, {row["what"]: row for row in json.loads(result.stdout)}


def test_doctor_of_an_empty_home_is_content() -> None:
    code, seen = findings()
    assert (code, seen["Python"]["state"], seen["mitmproxy"]["state"]) == (0, "ok", "ok")
    assert seen["configuration"]["state"] == seen["HTTPS_PROXY"]["state"] == "hint"


def test_doctor_names_a_key_that_is_nowhere(home: Path) -> None:
    file = home / "omniroute.yaml"
    file.write_text("connections:\n  - {id: work, provider: anthropic, key: env:NO_SUCH_KEY}\n")
    code, seen = findings("--config", file)
    assert code == 1 and "NO_SUCH_KEY is not set" in seen["key"]["text"]


def test_doctor_names_a_mistake_in_the_configuration(home: Path) -> None:
    file = home / "omniroute.yaml"
    file.write_text("connectoins: []\n")
    code, seen = findings("--config", file)
    assert code == 1 and "Did you mean 'connections'?" in seen["configuration"]["text"]


def test_doctor_names_who_holds_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code, seen = findings("--port", str(port))
        who = owner_of(port)
    assert code == 0 and f"is used by {who or 'another program'}" in seen["port"]["text"]
    assert who == "" or f"(process {os.getpid()})" in who


def test_doctor_names_a_proxy_variable_that_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
    code, seen = findings()
    assert code == 1 and seen["HTTPS_PROXY"]["text"].endswith(", where nobody listens")
    monkeypatch.setenv("HTTPS_PROXY", "nonsense://")
    assert findings()[1]["HTTPS_PROXY"]["text"] == "names no http://HOST:PORT"


def test_doctor_names_a_ruined_state_file(home: Path) -> None:
    (home / "state").mkdir()
    (home / "state" / "state.db").write_bytes(b"x" * 4096)
    code, seen = findings()
    assert code == 1 and "is no database" in seen["state"]["text"]


def test_self_test_goes_through_a_real_proxy(home: Path) -> None:
    """The first connection is limited, the second answers; nothing leaves this machine."""
    result = omniroute("doctor", "--json")
    [row] = [row for row in json.loads(result.stdout) if row["what"] == "self-test"]
    assert row["state"] == "ok", row


def test_self_test_says_what_is_wrong_with_the_answer(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    bundle = tmp_path / "none.pem"
    with pytest.raises(OSError):
        self_test.ask(port, bundle)
