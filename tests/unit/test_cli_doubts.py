"""What `omniroute check` warns of: allowed, and hardly meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from omniroute_addon import places
from omniroute_addon.cli import cli
from omniroute_addon.cli.doubts import covers

CONNECTIONS = """
connections:
  - {id: claude, provider: anthropic, key: env:TEST_KEY}
  - {id: gpt, provider: openai, key: env:TEST_KEY}
  - {id: keyless, provider: anthropic, key: env:NOT_SET_ANYWHERE}
"""


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`check(routes)`: the whole result, which must be good."""
    monkeypatch.setattr(places, "config_dir", lambda: tmp_path)
    monkeypatch.setenv("TEST_KEY", "sk-planted-secret")

    def run(routes: str = "") -> Result:
        (tmp_path / "omniroute.yaml").write_text(f"{CONNECTIONS}routes:\n{routes}" if routes else CONNECTIONS)
        result = CliRunner().invoke(cli, ["check"])
        assert result.exit_code == 0, result.output
        return result

    return run


def warnings(result: Result) -> list[str]:
    """All but the one about the key that is not there."""
    lines = result.stderr.splitlines()
    assert all(line.startswith("warning: ") for line in lines)
    return [line.removeprefix("warning: ") for line in lines if "NOT_SET_ANYWHERE" not in line]


def test_routes_that_make_sense_raise_no_doubt(check) -> None:
    routes = """
  - {provider: openai, model: gpt-5*, connections: [gpt, client]}
  - {provider: openai, connections: [gpt]}
  - {provider: anthropic, connections: [claude, keyless]}
  - {connections: [claude, gpt]}
"""
    assert warnings(check(routes)) == []


def test_connection_that_speaks_no_dialect_of_the_routes_provider(check) -> None:
    assert warnings(check("  - {provider: codex, connections: [gpt, claude]}\n")) == [
        "route 1 (provider codex, model *): connection 'claude' is never used, because its provider 'anthropic' "
        "speaks anthropic-messages and openai-chat, and clients of 'codex' speak openai-responses."
    ]


def test_route_that_an_earlier_one_catches(check) -> None:
    routes = """
  - {provider: openai, model: gpt-5, connections: [gpt]}
  - {provider: openai, model: "gpt-*", connections: [gpt]}
  - {provider: openai, model: "gpt-5-*", connections: [gpt, client]}
"""
    assert warnings(check(routes)) == [
        "route 3 (provider openai, model gpt-5-*) is never reached: route 2 (provider openai, model gpt-*) catches "
        "all of it."
    ]


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        ("*", "gpt-*", True),
        ("gpt-*", "gpt-5", True),
        ("*-mini", "gpt-*-mini", True),
        ("gpt-?", "gpt-?", True),
        ("gpt-5", "gpt-*", False),
        ("gpt-?", "gpt-*", False),
        ("gpt-[45]", "gpt-[4567]", False),
        ("*a]", "x[ba]", False),
        ("gpt-*", "*", False),
    ],
)
def test_one_glob_covers_another(wide: str, narrow: str, expected: bool) -> None:
    assert covers(wide, narrow) is expected


def test_pack_that_claims_a_bundled_host(check, tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    pack = tmp_path / "rules" / "acme.yaml"
    endpoints = "endpoints: {openai-chat: 'https://api.openai.com/v1/chat/completions'}\n"
    pack.write_text(f"id: acme\nhosts: [api.openai.com, api.acme.example, 'localhost:9999']\n{endpoints}")
    assert warnings(check()) == [
        f"{pack}:1: provider 'acme' claims api.openai.com, a host of the bundled provider 'openai', and gets its "
        "calls. Write `id: openai` if you mean to change that one."
    ]
    pack.write_text("id: openai\nhosts: [api.openai.com, 'localhost:11434']\n")
    [warning] = warnings(check())
    assert "provider 'openai' claims localhost:11434, a host of the bundled provider 'ollama" in warning


def test_plugin_without_a_hook(check, tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "night.py").write_text("def exclude(call, targets, now):\n    return None\n")
    assert warnings(check()) == ["plugin night (user) implements no hook; did you forget @hookimpl?"]
