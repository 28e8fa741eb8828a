"""The agents: where they come from, how each answers one question, and what keeps it from asking a person."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omniroute_addon.model import DialectName

INSTALL_WITHIN_S: Final = 900
QUESTION: Final = "Say hello and nothing else. Use no tools."
KEY: Final = "sk-agent-own"
"""What every agent believes to be its credential; it goes to the fakes only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """One agent in one way of using it."""

    id: str
    package: str
    """npm package and version."""
    command: str
    """Name in `node_modules/.bin`."""
    arguments: Sequence[str]
    dialect: DialectName
    provider: str
    host: str
    key_variable: str
    environ: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], None] = lambda home: None
    """Writes what the agent wants to find in its home folder."""
    speaks_websocket: bool = False
    """Asks over a WebSocket first, which the fakes do not speak."""

    @property
    def folder(self) -> str:
        """Where it is installed, below the cache folder."""
        return self.package.rpartition("/")[2]


def _codex_login(home: Path) -> None:
    folder = home / ".codex"
    folder.mkdir(parents=True)
    (folder / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}), encoding="utf-8")


_CODEX = ("exec", "--skip-git-repo-check", "--sandbox", "read-only", "-c", 'approval_policy="never"')
_OWN_PROVIDER = '{name="fake",base_url="https://api.openai.com/v1",env_key="OPENAI_API_KEY",wire_api="responses"}'
AGENTS: Final = {
    agent.id: agent
    for agent in (
        Agent(
            id="claude-code",
            package="@anthropic-ai/claude-code@2.1.197",
            command="claude",
            arguments=("-p", QUESTION, "--model", "claude-sonnet-4-5"),
            dialect="anthropic-messages",
            provider="anthropic",
            host="api.anthropic.com",
            key_variable="ANTHROPIC_API_KEY",
            environ={"DISABLE_AUTOUPDATER": "1"},
        ),
        Agent(
            id="codex",
            package="@openai/codex@0.171.0",
            command="codex",
            arguments=(*_CODEX, "-c", "model_provider=fake", "-c", f"model_providers.fake={_OWN_PROVIDER}", QUESTION),
            dialect="openai-responses",
            provider="openai",
            host="api.openai.com",
            key_variable="OPENAI_API_KEY",
        ),
        Agent(
            id="codex-websocket",
            package="@openai/codex@0.171.0",
            command="codex",
            arguments=(*_CODEX, QUESTION),
            dialect="openai-responses",
            provider="openai",
            host="api.openai.com",
            key_variable="OPENAI_API_KEY",
            prepare=_codex_login,
            speaks_websocket=True,
        ),
        Agent(
            id="gemini-cli",
            package="@google/gemini-cli@0.61.0",
            command="gemini",
            arguments=("-p", QUESTION, "-m", "gemini-2.5-flash"),
            dialect="gemini",
            provider="gemini",
            host="generativelanguage.googleapis.com",
            key_variable="GEMINI_API_KEY",
            environ={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        ),
        Agent(
            id="opencode",
            package="opencode-ai@1.18.33",
            command="opencode",
            arguments=("run", "--model", "anthropic/claude-sonnet-4-5", QUESTION),
            dialect="anthropic-messages",
            provider="anthropic",
            host="api.anthropic.com",
            key_variable="ANTHROPIC_API_KEY",
        ),
    )
}


def install(agent: Agent, cache: Path) -> Path:
    """The agent's executable, installed by name from npm when it is not there yet. Raises SystemExit with the reason."""
    folder = cache / agent.folder
    file = folder / "node_modules" / ".bin" / agent.command
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}\n", encoding="utf-8")  # else npm looks for one further up
        print(f"installing {agent.package} …", flush=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", agent.package]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False
            )
        except FileNotFoundError:
            raise SystemExit("agents: npm is not there. Install Node 20 or newer.") from None
        except subprocess.TimeoutExpired:
            raise SystemExit(f"agents: npm did not install {agent.package} within {INSTALL_WITHIN_S} s.") from None
        if done.returncode or not file.exists():
            raise SystemExit(f"agents: npm could not install {agent.package}:\n{done.stderr[-2000:]}")
    return file
