"""Which program a command line starts, and what is known of it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from omniroute_addon.bringup.programs import CA_VARIABLES, RUNTIMES, Programs, agent_name
from omniroute_addon.files import Files

PROGRAMS = Programs(Files(rules=Path("/nonexistent")).clients().profiles.values())


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("claude", "claude-code"),
        ("/usr/local/bin/claude -p hello", "claude-code"),
        (r"C:\npm\claude.cmd -p hello", "claude-code"),
        ("npx @anthropic-ai/claude-code", "claude-code"),
        ("npx -y @anthropic-ai/claude-code@2.1.197 -p hi", "claude-code"),
        ("bunx @openai/codex exec", "codex"),
        ("npm exec @google/gemini-cli", "gemini-cli"),
        ("env CI=1 codex exec hi", "codex"),
        ("env -i A=b opencode run", "opencode"),
        ("uvx aider-chat", "aider"),
        ("uv tool run aider-chat==0.86.2", "aider"),
        ("pipx run aider-chat", "aider"),
        ("python -m aider", "aider"),
        ("python3.12 script.py", "python"),
        ("uv run python script.py", "python"),
        ("uv run script.py", "python"),
        ("node app.js", "node"),
        ("npm test", "node"),
        ("npx tsx app.ts", "node"),
        ("nice curl https://api.openai.com", "curl"),
        ("make all", None),
        ("env", None),
        ("npx", "node"),
        ("", None),
    ],
)
def test_program_is_recognised_however_it_is_started(command: str, program: str | None) -> None:
    found = PROGRAMS.recognise(command.split())
    assert (found.id if found else None) == program


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["claude"], "claude-code"),
        (["./my agent.sh"], "my-agent"),
        (["/opt/Ünïcode"], "n-code"),
        (["/"], "agent"),
        (["x" * 100], "x" * 64),
    ],
)
def test_agent_is_called_by_what_a_proxy_url_bears(command: list[str], name: str) -> None:
    assert agent_name(command, PROGRAMS.recognise(command)) == name


def test_no_command_belongs_to_two_programs() -> None:
    names = [name for p in PROGRAMS.all if p.start for name in {*p.start.commands, *p.start.packages}]
    assert [name for name in names if names.count(name) > 1] == []


def test_variables_of_a_profile_are_those_that_are_set() -> None:
    from omniroute_addon.clients.profile_schema import CaVariable

    assert set(get_args(CaVariable)) == set(CA_VARIABLES)
    assert [p.id for p in PROGRAMS.all if p.start and not p.start.trusts] == []


def test_runtimes_come_last() -> None:
    assert PROGRAMS.all[-2:] == RUNTIMES
