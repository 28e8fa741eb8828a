"""The programs that people bring behind the proxy: which one a command line starts.

What is known of each stands in its client profile (`rules/clients/*.yaml`, `start:`). Here are only the two runtimes that
start anything. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import Final

from omniroute_addon.model import ClientProfile, ClientStart

NODE_CA: Final = "NODE_EXTRA_CA_CERTS"
OPENSSL_CA: Final = "SSL_CERT_FILE"
CODEX_CA: Final = "CODEX_CA_CERTIFICATE"
CURL_CA: Final = "CURL_CA_BUNDLE"
REQUESTS_CA: Final = "REQUESTS_CA_BUNDLE"
CA_VARIABLES: Final = (OPENSSL_CA, NODE_CA, CODEX_CA, CURL_CA, REQUESTS_CA)
"""All that are set; each replaces or extends the authorities of some program."""

RUNTIMES: Final = (
    ClientProfile(
        id="node",
        name="Node programs",
        start=ClientStart(
            commands=("node", "tsx", "ts-node", "npm", "npx", "pnpm", "yarn"), trusts=(NODE_CA,), minds_proxy=False
        ),
    ),
    ClientProfile(
        id="python",
        name="Python programs",
        start=ClientStart(commands=("python", "python3", "uv", "poetry"), trusts=(OPENSSL_CA,)),
    ),
)
"""They start what nobody has measured, or what an SDK is in."""
_RUNNERS: Final = {
    "npx": (), "bunx": (), "uvx": (), "pnpx": (),
    "npm": ("exec", "x"), "pnpm": ("dlx", "exec"), "yarn": ("dlx", "exec"), "bun": ("x",),
    "uv": ("run", "tool"), "pipx": ("run",), "poetry": ("run",),
}  # fmt: skip
"""Programs that start others -> the words that may stand before the other's name; none: it comes at once."""
_VERSION = re.compile(r"(?<=.)@[^/]*$")
_AGENT = re.compile(r"[^A-Za-z0-9._+-]+")
_PYTHON = re.compile(r"python3?(?:\.\d+)?t?w?")


class Programs:
    """What is known of programs: the client profiles that say how they are started, and the runtimes."""

    def __init__(self, profiles: Iterable[ClientProfile]) -> None:
        self.all = (*(p for p in profiles if p.start is not None), *RUNTIMES)
        """In the order in which `doctor` shows them."""
        self.by_id = {program.id: program for program in self.all}

    def recognise(self, command: Sequence[str]) -> ClientProfile | None:
        """The program that a command line starts, also through `env`, `npx`, `uvx` and the like; None: unknown."""
        words = list(command)
        while words:
            name = stem(words[0])
            words = words[1:]
            if name in ("env", "nice", "time", "command", "exec", "nohup"):
                words = _after_options(words, assignments=name == "env")
                continue
            if name in _RUNNERS:
                return self._started_by(name, words) or self._by_command(name)
            if _PYTHON.fullmatch(name):
                module = words[1] if len(words) > 1 and words[0] == "-m" else ""
                return self._named(module) or self.by_id["python"]
            return self._by_command(name)
        return None

    def _started_by(self, runner: str, words: list[str]) -> ClientProfile | None:
        rest = _after_options(words)
        if rest and rest[0] in _RUNNERS[runner]:
            rest = _after_options(rest[1:])
            if rest and runner == "uv" and rest[0] == "run":  # uv tool run
                rest = _after_options(rest[1:])
            return (self._named(rest[0]) or self.recognise(rest)) if rest else None
        return self._named(rest[0]) if rest else None

    def _by_command(self, name: str) -> ClientProfile | None:
        return next((p for p in self.all if p.start and name in p.start.commands), None)

    def _named(self, word: str) -> ClientProfile | None:
        """A package with or without version, or a command."""
        package = _VERSION.sub("", word).partition("==")[0].partition("[")[0]
        return next((p for p in self.all if p.start and package in (*p.start.packages, *p.start.commands)), None)


def agent_name(command: Sequence[str], program: ClientProfile | None) -> str:
    """What the agent is called when nobody says: the program's id, or its file name as far as a URL bears it."""
    if program is not None:
        return program.id
    return (_AGENT.sub("-", stem(command[0])).strip("-._+") or "agent")[:64]


def stem(path: str) -> str:
    """The name of an executable without folder and without what Windows adds."""
    windows = "\\" in path or (len(path) > 1 and path[1] == ":")
    name = (PureWindowsPath(path) if windows else PurePath(path)).name
    base, dot, ending = name.rpartition(".")
    return (base if dot and ending.lower() in ("exe", "cmd", "bat", "ps1", "sh", "js", "cjs", "mjs") else name) or name


def _after_options(words: Sequence[str], *, assignments: bool = False) -> list[str]:
    rest = list(words)
    while rest and (rest[0].startswith("-") or (assignments and "=" in rest[0])):
        rest = rest[1:]
    return rest
