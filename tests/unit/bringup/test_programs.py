"""Which program a command line starts, and what is known of it."""

from __future__ import annotations

import pytest

from omniroute_addon.bringup.programs import BY_ID, PROGRAMS, agent_name, by_user_agent, recognise


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
    found = recognise(command.split())
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
    assert agent_name(command, recognise(command)) == name


def test_user_agent_names_the_program() -> None:
    assert by_user_agent("claude-cli/2.1.197 (external, cli)") is BY_ID["claude-code"]
    assert by_user_agent("curl/7.88.1") is BY_ID["curl"]
    assert by_user_agent("python-httpx/0.28") is BY_ID["python"]
    assert by_user_agent("Mozilla/5.0") is None
    assert by_user_agent("") is None


def test_no_command_belongs_to_two_programs() -> None:
    names = [name for program in PROGRAMS for name in (*program.commands, *program.packages)]
    doubled = {name for name in names if names.count(name) > 1}
    assert doubled <= {"aider", "llm"}  # command and package of the same name
