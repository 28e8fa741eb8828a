"""The command `omniroute` (issue 2, point 4)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from omniroute_addon import __version__, places
from omniroute_addon.bringup.programs import CA_VARIABLES
from omniroute_addon.cli import cli
from omniroute_addon.cli.path import SCRIPT
from omniroute_addon.cli.run import EXPLICIT_MODES, EXPOSED, hint, read_options
from omniroute_addon.pack_files import bundled_rules

GOOD = "connections:\n  - {id: work, provider: anthropic, key: env:TEST_KEY}\nsettings: {retries_in_place: 1}\n"
LOOPBACK = ["--set", "listen_host=127.0.0.1"]
PACK = "id: acme\nhosts: [api.acme.example]\nendpoints:\n  openai-chat: https://api.acme.example/v1/chat/completions\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's empty configuration folder."""
    monkeypatch.setattr(places, "config_dir", lambda: tmp_path)
    monkeypatch.setenv("TEST_KEY", "sk-planted-secret")
    for name in CA_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def omniroute(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="omniroute")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# ---------------------------------------------------------------- the command itself


def test_help_names_every_command_in_one_whole_line() -> None:
    result = omniroute("--help")
    assert result.exit_code == 0
    ours = {"check", "doctor", "env", "exec", "init", "path", "plugins", "providers", "rules", "run", "schema"}
    listed = [line.split(maxsplit=1) for line in result.output.partition("Commands:")[2].strip().splitlines()]
    assert ours <= {name for name, _ in listed} == cli.commands.keys()
    assert [text for name, text in listed if name in ours and text.endswith("...")] == []


def test_help_of_rules_names_every_command_in_one_whole_line() -> None:
    listed = omniroute("rules", "--help").output.partition("Commands:")[2].strip().splitlines()
    assert len(listed) == 5 and [line for line in listed if line.endswith("...")] == []


def test_version_is_the_packages() -> None:
    assert omniroute("--version").output == f"omniroute, version {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    """Start-up matters: `omniroute --help` answers in a blink."""
    code = (
        "import sys; from omniroute_addon.cli import cli\n"
        "cli(['--help'], standalone_mode=False)\n"
        "print([m for m in ('mitmproxy', 'pydantic', 'yaml', 'tabulate', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# ---------------------------------------------------------------- path


def test_path_prints_the_file_alone_in_its_folder() -> None:
    """mitmproxy puts the script's folder on sys.path for good: nothing else may be importable from there."""
    assert omniroute("path").output == f"{SCRIPT}\n"
    assert [p.name for p in SCRIPT.parent.iterdir() if p.name != "__pycache__"] == [SCRIPT.name]
    assert SCRIPT.stem != "omniroute_addon"


# ---------------------------------------------------------------- check


def test_check_without_any_configuration_is_content(home: Path) -> None:
    result = omniroute("check")
    assert result.exit_code == 0
    first, second, clients, third = result.output.splitlines()
    assert (
        first == f"configuration  {'0 connections, 0 routes, 0 settings changed':<44} {home}/omniroute.yaml (not there)"
    )
    assert second.startswith("packs ") and " providers, " in second
    assert clients.startswith("clients ") and " profiles " in clients
    assert third.startswith("plugins ") and " on" in third


def test_check_says_what_was_loaded(home: Path) -> None:
    (home / "omniroute.yaml").write_text(GOOD, encoding="utf-8")
    result = omniroute("check")
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == (
        f"configuration  {'1 connection, 0 routes, 1 setting changed':<44} {home}/omniroute.yaml"
    )
    assert "sk-planted-secret" not in result.output


def test_check_names_all_problems_of_all_sources_and_fails(home: Path) -> None:
    (home / "omniroute.yaml").write_text("connections:\n  - {id: work, provider: antropic, key: env:TEST_KEY}\n")
    (home / "rules").mkdir()
    (home / "rules" / "acme.yaml").write_text(f"{PACK}traits: [full_txt]\n")
    (home / "plugins").mkdir()
    (home / "plugins" / "night.py").write_text("import nothing_of_that_name\n")
    result = omniroute("check")
    assert result.exit_code == 1
    assert f"{home}/omniroute.yaml:2:26: " in result.stderr
    assert "Did you mean 'anthropic'?" in result.stderr
    assert f"{home}/rules/acme.yaml:5:10: " in result.stderr
    assert "plugin night (user): " in result.stderr
    assert result.stderr.splitlines()[-1] == "3 problems"
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["configuration", "packs", "clients", "plugins"]
    assert result.stdout.startswith("configuration  cannot be used ")
    assert "Traceback" not in result.stderr


def test_readme_shows_what_check_says_of_a_wrong_key(home: Path) -> None:
    """Up to the numbers of what is bundled."""
    (home / "omniroute.yaml").write_text(
        "connections:\n  - {id: work, provider: anthropic, key: env:WORK_KEY, priority: 1}\n"
        "  - {id: spare, provider: anthropic, key: file:~/.keys/spare, prioritty: 2}\n"
    )
    result = omniroute("check")
    said = f"{result.stdout}{result.stderr}".replace(str(home), "/home/you/.config/omniroute")
    numbers = re.compile(r"(?<=  )\d+ (?:providers, \d+ rules|profiles|on) *")
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert f"$ omniroute check\n{numbers.sub('N ', said)}```" in numbers.sub("N ", readme)


def test_check_reads_the_files_that_are_named(tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text(GOOD)
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "acme.yaml").write_text(PACK)
    before = omniroute("check").output
    result = omniroute("check", "--config", file, "--rules", tmp_path / "packs")
    assert "1 connection, " in result.output
    assert f"{file}\n" in result.output
    providers = [int(text.splitlines()[1].split()[1]) for text in (before, result.output)]
    assert providers[1] == providers[0] + 1


def test_check_of_a_named_file_that_is_not_there_fails(tmp_path: Path) -> None:
    result = omniroute("check", "--config", tmp_path / "nowhere.yaml")
    assert result.exit_code == 1
    assert f"{tmp_path}/nowhere.yaml:1:1: the file does not exist." in result.stderr


def test_check_tells_warnings_and_stays_content(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_IDLE_TIMEOUT_MS", "soon")
    result = omniroute("check")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: environment variable STREAM_IDLE_TIMEOUT_MS: ")


# ---------------------------------------------------------------- providers, plugins, schema


def test_providers_shows_a_table() -> None:
    output = omniroute("providers").output
    assert output.split()[:5] == ["id", "name", "hosts", "dialects", "rules"]
    assert "api.anthropic.com" in output


def test_providers_as_json_counts_the_rules_of_a_users_pack(home: Path) -> None:
    rule = "  - id: acme-full\n    when: {status: [403], text: [used up]}\n    kind: quota_exhausted\n    examples:\n"
    example = "      - {status: 403, body: used up, expect: {kind: quota_exhausted}}\n"
    (home / "rules").mkdir()
    (home / "rules" / "acme.yaml").write_text(f"{PACK}classify:\n{rule}{example}")
    rows = {row["id"]: row for row in json.loads(omniroute("providers", "--json").output)}
    assert rows["acme"] == {
        "id": "acme",
        "name": "acme",
        "hosts": ["api.acme.example"],
        "dialects": ["openai-chat"],
        "rules": 1,
    }


def test_providers_with_a_broken_pack_fails_with_its_place(home: Path) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "acme.yaml").write_text("id: Acme!\n")
    result = omniroute("providers")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{home}/rules/acme.yaml:1:5: ")


def test_plugins_lists_origin_version_hooks_and_state(home: Path) -> None:
    (home / "omniroute.yaml").write_text("settings: {plugins: {disabled: [quiet]}}\n")
    (home / "plugins").mkdir()
    hook = "from omniroute_addon import hookimpl\nVERSION = '2.1'\n@hookimpl\ndef stop(): pass\n"
    (home / "plugins" / "loud.py").write_text(hook)
    (home / "plugins" / "quiet.py").write_text(hook)
    (home / "plugins" / "wrong.py").write_text("1 / 0\n")
    rows = {row["name"]: row for row in json.loads(omniroute("plugins", "--json").output)}
    assert rows["loud"] == {
        "name": "loud",
        "origin": "user",
        "version": "2.1",
        "hooks": ["stop"],
        "state": "on",
        "detail": "",
    }
    assert rows["quiet"]["state"] == "off"
    assert rows["wrong"]["state"] == "broken"
    assert rows["connection_cooldown"]["origin"] == "bundled"
    lines = omniroute("plugins").output.splitlines()
    assert lines[0].split() == ["name", "origin", "version", "state", "hooks"]
    assert any(line.split() == ["loud", "user", "2.1", "on", "stop"] for line in lines)
    assert any("ZeroDivisionError" in line for line in lines)


@pytest.mark.parametrize("what", ["config", "pack", "client"])
def test_schema_is_a_valid_json_schema(what: str) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(omniroute("schema", what).output)
    Draft202012Validator.check_schema(schema)
    assert Draft202012Validator(schema).is_valid({} if what == "config" else {"id": "acme"})
    assert not Draft202012Validator(schema).is_valid({"nonsense": 1})


@pytest.mark.parametrize(
    "pack", sorted(p for p in bundled_rules().glob("*.yaml") if p.name[0] != "_"), ids=lambda p: p.stem
)
def test_schema_lets_an_editor_accept_every_bundled_pack(pack: Path) -> None:
    """The short ways to write a value, one instead of a list, are as right in an editor as they are for us."""
    from jsonschema import Draft202012Validator

    from omniroute_addon.pack_schema import pack_json_schema
    from omniroute_addon.yaml_source import read_yaml

    data = read_yaml(pack.read_bytes(), file=pack.name).data
    assert [error.message for error in Draft202012Validator(pack_json_schema()).iter_errors(data)] == []


def test_schema_without_a_word_is_the_configurations() -> None:
    assert omniroute("schema").output == omniroute("schema", "config").output


# ---------------------------------------------------------------- run


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", ("127.0.0.1", 8080)),
        ("-p 9000", ("127.0.0.1", 9000)),
        ("-p9000 -w file", ("127.0.0.1", 9000)),
        ("--listen-port 9000 --listen-host 192.168.1.5", ("192.168.1.5", 9000)),
        ("--listen-host 0.0.0.0", ("127.0.0.1", 8080)),
        ("--set listen_port=9000 --set listen_host=::1", ("::1", 9000)),
        ("-m regular@9001", ("127.0.0.1", 9001)),
        ("-m upstream:http://proxy.example:3128", ("127.0.0.1", 8080)),
        ("-m reverse:https://a.example -m regular@9002", ("127.0.0.1", 9002)),
    ],
)
def test_hint_knows_where_the_proxy_will_listen(options: str, expected: tuple[str, int]) -> None:
    listening = read_options(options.split())
    assert listening
    assert (listening.host, listening.port) == expected


@pytest.mark.parametrize("options", ["-q", "-m reverse:https://a.example", "-m nonsense:", "-p many", "-p"])
def test_no_hint_where_none_is_wanted_or_mitmproxy_will_refuse(options: str) -> None:
    assert read_options(options.split()) is None


def test_modes_of_the_hint_exist_in_mitmproxy() -> None:
    from mitmproxy.proxy.mode_specs import ProxyMode

    assert {ProxyMode.parse(mode).type_name for mode in ("regular", "upstream:http://a:1")} == set(EXPLICIT_MODES)


def test_hint_names_proxy_and_certificates(tmp_path: Path) -> None:
    confdir = tmp_path / "my ca"
    listening = read_options(["-p", "9000", "--set", f"confdir={confdir}"])
    assert listening
    assert hint(listening) == (
        "As soon as it says below that the proxy is listening, set in the terminal of your agent or program:\n\n"
        "  export HTTPS_PROXY=http://127.0.0.1:9000\n"
        f"  export SSL_CERT_FILE='{confdir}/omniroute-ca-bundle.pem'\n"
        f"  export NODE_EXTRA_CA_CERTS='{confdir}/mitmproxy-ca-cert.pem'\n"
        f"  export CODEX_CA_CERTIFICATE='{confdir}/omniroute-ca-bundle.pem'\n"
        f"  export CURL_CA_BUNDLE='{confdir}/omniroute-ca-bundle.pem'\n"
        f"  export REQUESTS_CA_BUNDLE='{confdir}/omniroute-ca-bundle.pem'\n"
        f"  export NODE_USE_ENV_PROXY=1\n\n"
        "Then start it as always. Ctrl-C here ends the proxy.\n"
    )


def test_readme_shows_the_hint_as_it_is(tmp_path: Path) -> None:
    listening = read_options(["--set", f"confdir={tmp_path}"])
    assert listening
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert hint(listening).replace(str(tmp_path), "/home/you/.mitmproxy") in readme


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ("", False),
        ("--listen-host ::1", False),
        ("--listen-host 0.0.0.0", True),
        ("--set listen_host=", True),
        ("-m regular@192.168.1.5:8080", True),
    ],
)
def test_run_warns_once_when_other_machines_can_reach_it(
    mitmdump: list[list[str]], tmp_path: Path, options: str, warned: bool
) -> None:
    stderr = omniroute("run", "--set", f"confdir={tmp_path}", *options.split()).stderr
    assert stderr.count(EXPOSED) == warned


@pytest.fixture
def mitmdump(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Calls of mitmdump; it is not started."""
    from mitmproxy.tools import main

    calls: list[list[str]] = []
    monkeypatch.setattr(main, "mitmdump", calls.append)
    monkeypatch.setattr(sys, "argv", sys.argv)
    return calls


def test_run_gives_every_option_to_mitmdump(mitmdump: list[list[str]], tmp_path: Path) -> None:
    options = ["-p", "9000", "--set", f"confdir={tmp_path}", "--mode", "regular", "~u openai"]
    result = omniroute("run", *options)
    assert result.exit_code == 0
    assert mitmdump == [["-s", str(SCRIPT), *LOOPBACK, *options]]
    assert "export HTTPS_PROXY=http://127.0.0.1:9000" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize("options", [["--set", "listen_host=0.0.0.0"], ["--set=listen_host=0.0.0.0"]])
def test_run_sets_no_second_address_beside_the_users(mitmdump: list[list[str]], options: list[str]) -> None:
    """mitmproxy refuses an option that is set twice."""
    omniroute("run", "-q", *options)
    assert mitmdump == [["-s", str(SCRIPT), "-q", *options]]


def test_run_is_silent_when_asked(mitmdump: list[list[str]]) -> None:
    assert omniroute("run", "-q").stderr == ""
    assert mitmdump == [["-s", str(SCRIPT), *LOOPBACK, "-q"]]


def test_run_starts_although_no_certificate_can_be_written(mitmdump: list[list[str]], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = omniroute("run", "--set", f"confdir={tmp_path}/file")
    assert result.stderr.startswith(f"No certificate could be written to {tmp_path}/file: ")
    assert "Traceback" not in result.stderr
    assert len(mitmdump) == 1
