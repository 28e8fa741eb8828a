"""`omniroute settings`: every figure, where its value came from, and how far it may be turned (issue 4, item 9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from omniroute_addon.cli import cli

CONFIG = """
settings:
  deadline_ms: 90000
  cooldown_wait: {max_waits: 2}
connections:
  - {id: work, provider: openai, key: env:WORK, weight: 3, disable_cooling: true}
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WORK", "sk-planted")
    file = tmp_path / "omniroute.yaml"
    file.write_text(CONFIG)
    return file


def run(config: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["settings", "--config", str(config), *words], prog_name="omniroute")


def rows(config: Path, *words: str) -> dict[str, dict[str, Any]]:
    result = run(config, "--json", *words)
    assert result.exit_code == 0, result.output
    return {row["name"]: row for row in json.loads(result.stdout)}


def test_a_value_says_where_it_came_from(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Built-in, then environment, then file, then the connection itself (spec/README.md, precedence)."""
    monkeypatch.setenv("OMNIROUTE_COOLDOWN_WAIT", "0")
    found = rows(config)
    assert (found["deadline_ms"]["value"], found["deadline_ms"]["origin"]) == (90_000, f"{config}:3:16")
    wait = found["cooldown_wait.enabled"]
    assert (wait["value"], wait["origin"]) == (False, "environment OMNIROUTE_COOLDOWN_WAIT")
    assert found["cooldown_wait.max_waits"]["origin"].startswith(f"{config}:4:")
    assert found["retries_in_place"]["origin"] == "default"
    assert found["connections.work.weight"]["value"] == 3
    assert found["connections.work.disable_cooling"]["value"] is True


def test_every_setting_has_a_default_bounds_and_a_meaning(config: Path) -> None:
    for name, row in rows(config).items():
        assert row["allowed"] and row["default"] != "", name
        assert row["meaning"] or name.startswith("connections."), name


def test_only_what_is_meant_and_changed_is_shown(config: Path) -> None:
    assert set(rows(config, "--changed")) == {
        *("deadline_ms", "cooldown_wait.max_waits"),
        *("connections.work.weight", "connections.work.disable_cooling"),
    }
    assert all("breaker" in name for name in rows(config, "breaker"))
    assert rows(config, "breaker")
    assert run(config, "deadlin_ms").stdout.startswith("No setting has deadlin_ms in its name. Nearest: deadline_ms, ")


def test_the_table_tells_bounds_and_no_secret(config: Path) -> None:
    result = run(config)
    assert "cooldown_wait.max_waits" in result.stdout and "0 … 10" in result.stdout
    assert "sk-planted" not in result.output


def test_a_file_that_cannot_be_used_is_told_with_its_place(config: Path) -> None:
    config.write_text("settings: {deadline_ms: soon}\n")
    result = run(config)
    assert result.exit_code == 1 and f"{config}:1:" in result.output and "'soon'" in result.output
