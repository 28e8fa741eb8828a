"""The programs that people bring behind the proxy: how each is started, and which variable makes it trust us.

Measured behind a real proxy, one variable at a time (guides: `docs/agents/`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PureWindowsPath
from typing import Final

NODE_CA: Final = "NODE_EXTRA_CA_CERTS"
OPENSSL_CA: Final = "SSL_CERT_FILE"
CODEX_CA: Final = "CODEX_CA_CERTIFICATE"
CURL_CA: Final = "CURL_CA_BUNDLE"
REQUESTS_CA: Final = "REQUESTS_CA_BUNDLE"
CA_VARIABLES: Final = (OPENSSL_CA, NODE_CA, CODEX_CA, CURL_CA, REQUESTS_CA)
"""All that are set; each replaces or extends the authorities of some program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is known of one program or kind of program."""

    id: str
    """Names the agent towards the proxy, and its guide."""
    name: str
    """For people."""
    commands: tuple[str, ...] = ()
    """Names of the executable."""
    packages: tuple[str, ...] = ()
    """Names under which `npx`, `uvx` and the like start it."""
    trusts: tuple[str, ...]
    """Variables that suffice to make it trust the proxy, the best first."""
    system_store: bool = True
    """It also trusts what the system trusts."""
    user_agents: tuple[str, ...] = ()
    """How its `User-Agent` begins, lower case."""
    minds_proxy: bool = True
    """It looks at `HTTPS_PROXY` by itself."""
    settings: tuple[str, ...] = ()
    """Its own settings files, `~` for the home folder, whose `env` block sets variables too late for TLS."""


PROGRAMS: Final = (
    Program(
        id="claude-code",
        name="Claude Code",
        commands=("claude",),
        packages=("@anthropic-ai/claude-code",),
        trusts=(NODE_CA, OPENSSL_CA),
        user_agents=("claude-cli/", "claude-code/"),
        settings=("~/.claude/settings.json", ".claude/settings.json", ".claude/settings.local.json"),
    ),
    Program(
        id="codex",
        name="Codex",
        commands=("codex",),
        packages=("@openai/codex",),
        trusts=(CODEX_CA, OPENSSL_CA),
        user_agents=("codex_", "codex-"),
    ),
    Program(
        id="gemini-cli",
        name="Gemini CLI",
        commands=("gemini",),
        packages=("@google/gemini-cli",),
        trusts=(NODE_CA,),
        system_store=False,
        user_agents=("geminicli", "gemini-cli"),
    ),
    Program(
        id="opencode",
        name="opencode",
        commands=("opencode",),
        packages=("opencode-ai",),
        trusts=(NODE_CA, OPENSSL_CA),
        user_agents=("opencode/", "ai-sdk/"),
    ),
    Program(
        id="aider",
        name="aider",
        commands=("aider",),
        packages=("aider-chat", "aider"),
        trusts=(OPENSSL_CA,),
        system_store=False,
        user_agents=("litellm/",),
    ),
    Program(id="llm", name="llm", commands=("llm",), packages=("llm",), trusts=(OPENSSL_CA,)),
    Program(
        id="curl",
        name="curl",
        commands=("curl",),
        trusts=(CURL_CA, OPENSSL_CA),
        user_agents=("curl/",),
    ),
    Program(
        id="node",
        name="Node programs",
        commands=("node", "tsx", "ts-node", "npm", "npx", "pnpm", "yarn"),
        trusts=(NODE_CA,),
        system_store=False,
        user_agents=("node", "undici", "openai/js", "anthropic/js"),
        minds_proxy=False,
    ),
    Program(
        id="python",
        name="Python programs",
        commands=("python", "python3", "uv", "poetry"),
        trusts=(OPENSSL_CA,),
        system_store=False,
        user_agents=(
            "python-httpx/",
            "python-requests/",
            "openai/python",
            "anthropic/python",
            "aiohttp",
            "google-genai",
        ),
    ),
)
"""In the order in which `doctor` shows them."""

BY_ID: Final = {program.id: program for program in PROGRAMS}
_RUNNERS: Final = {
    "npx": (), "bunx": (), "uvx": (), "pnpx": (),
    "npm": ("exec", "x"), "pnpm": ("dlx", "exec"), "yarn": ("dlx", "exec"), "bun": ("x",),
    "uv": ("run", "tool"), "pipx": ("run",), "poetry": ("run",),
}  # fmt: skip
"""Programs that start others -> the words that may stand before the other's name; none: it comes at once."""
_VERSION = re.compile(r"(?<=.)@[^/]*$")
_AGENT = re.compile(r"[^A-Za-z0-9._+-]+")
_PYTHON = re.compile(r"python3?(?:\.\d+)?t?w?")


def recognise(command: Sequence[str]) -> Program | None:
    """The program that a command line starts, also through `env`, `npx`, `uvx` and the like; None when it is unknown."""
    words = list(command)
    while words:
        name = stem(words[0])
        words = words[1:]
        if name in ("env", "nice", "time", "command", "exec", "nohup"):
            words = _after_options(words, assignments=name == "env")
            continue
        if name in _RUNNERS:
            rest = _after_options(words)
            started = next((p for word in rest[:1] if (p := _named(word))), None)
            if rest and rest[0] in _RUNNERS[name]:
                rest = _after_options(rest[1:])
                if rest and name == "uv" and rest[0] == "run":
                    rest = _after_options(rest[1:])
                started = next((p for word in rest[:1] if (p := _named(word) or recognise(rest))), None)
            return started or _by_command(name)
        if _PYTHON.fullmatch(name):
            return next((p for p in [_module(words)] if p), BY_ID["python"])
        return _by_command(name)
    return None


def agent_name(command: Sequence[str], program: Program | None) -> str:
    """What the agent is called when nobody says: the program's id, or its file name as far as a URL bears it."""
    if program is not None:
        return program.id
    return (_AGENT.sub("-", stem(command[0])).strip("-._+") or "agent")[:64]


def by_user_agent(text: str) -> Program | None:
    """The program whose `User-Agent` this is."""
    lowered = text.lower()
    return next((p for p in PROGRAMS if lowered.startswith(p.user_agents or ("\0",))), None)


def stem(path: str) -> str:
    """The name of an executable without folder and without what Windows adds."""
    windows = "\\" in path or (len(path) > 1 and path[1] == ":")
    name = (PureWindowsPath(path) if windows else PurePath(path)).name
    base, dot, ending = name.rpartition(".")
    return (base if dot and ending.lower() in ("exe", "cmd", "bat", "ps1", "sh", "js", "cjs", "mjs") else name) or name


def _by_command(name: str) -> Program | None:
    return next((p for p in PROGRAMS if name in p.commands), None)


def _named(word: str) -> Program | None:
    """A package with or without version, or a command."""
    package = _VERSION.sub("", word).partition("==")[0].partition("[")[0]
    return next((p for p in PROGRAMS if package in p.packages or package in p.commands), None)


def _module(words: Sequence[str]) -> Program | None:
    """`python -m aider`."""
    return _named(words[1]) if len(words) > 1 and words[0] == "-m" else None


def _after_options(words: Sequence[str], *, assignments: bool = False) -> list[str]:
    rest = list(words)
    while rest and (rest[0].startswith("-") or (assignments and "=" in rest[0])):
        rest = rest[1:]
    return rest
