"""Which program will trust the proxy, started from a terminal, and the one step that is missing (A39)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omniroute_addon.bringup.programs import Programs
from omniroute_addon.bringup.trust_check import Surroundings, trust
from omniroute_addon.files import Files

BY_ID = Programs(Files(rules=Path("/nonexistent")).clients().profiles.values()).by_id


def pem(word: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{word}\n-----END CERTIFICATE-----\n"


class Terminal:
    """A folder with certificates, and an environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("home", "work"):
            (folder / name).mkdir()
        self.ours = self.file("ours.pem", pem("ours"))
        self.bundle = self.file("bundle.pem", pem("world") + pem("ours"))
        self.other = self.file("other.pem", pem("world"))
        self.system = self.file("system.pem", pem("world"))
        self.environ: dict[str, str] = {}
        self.is_behind = True

    def file(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def look(self, program: str) -> tuple[str, str, str]:
        around = Surroundings(
            environ=self.environ,
            authority=self.ours,
            bundle=self.bundle,
            is_behind=self.is_behind,
            home=self.folder / "home",
            folder=self.folder / "work",
            system_files=(str(self.system),),
        )
        found = trust(BY_ID[program], around)
        return found.state, found.text, found.todo


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_variable_that_holds_our_certificate_is_enough(terminal: Terminal) -> None:
    terminal.environ["NODE_EXTRA_CA_CERTS"] = str(terminal.ours)
    assert terminal.look("gemini-cli") == ("ok", "trusts the proxy by NODE_EXTRA_CA_CERTS", "")
    terminal.environ = {"SSL_CERT_FILE": str(terminal.bundle)}
    assert terminal.look("claude-code")[:2] == ("ok", "trusts the proxy by SSL_CERT_FILE")


def test_system_store_is_enough_for_those_that_look_there(terminal: Terminal) -> None:
    terminal.system.write_text(pem("ours"))
    assert terminal.look("codex")[0] == "ok"
    assert terminal.look("gemini-cli")[0] == "broken"


def test_missing_variable_is_named_with_the_file_it_wants(terminal: Terminal) -> None:
    assert terminal.look("gemini-cli") == (
        "broken",
        "will refuse the proxy's certificate: NODE_EXTRA_CA_CERTS is not set here",
        f"export NODE_EXTRA_CA_CERTS={terminal.ours}, or start it so: omniroute exec -- gemini",
    )
    assert terminal.look("aider")[2].startswith(f"export SSL_CERT_FILE={terminal.bundle},")


def test_variable_that_names_the_wrong_file_is_said_so(terminal: Terminal) -> None:
    terminal.environ = {"CODEX_CA_CERTIFICATE": str(terminal.other), "SSL_CERT_FILE": "/nowhere.pem"}
    state, text, _ = terminal.look("codex")
    assert state == "broken"
    assert text.endswith(f"CODEX_CA_CERTIFICATE names {terminal.other}, which does not hold the proxy's certificate")
    terminal.environ = {"SSL_CERT_FILE": "/nowhere.pem"}
    assert terminal.look("aider")[1].endswith("SSL_CERT_FILE names /nowhere.pem, which cannot be read")


def test_terminal_that_is_not_behind_the_proxy_gets_a_hint_only(terminal: Terminal) -> None:
    terminal.is_behind = False
    assert terminal.look("gemini-cli")[0] == "hint"


@pytest.mark.parametrize("place", ["home/.claude/settings.json", "work/.claude/settings.local.json"])
@pytest.mark.parametrize("is_behind", [True, False])
def test_variable_in_settings_json_only_is_the_missing_step(terminal: Terminal, place: str, is_behind: bool) -> None:
    """A39: the file is read when TLS is set up already."""
    terminal.is_behind = is_behind
    terminal.file(place, json.dumps({"env": {"NODE_EXTRA_CA_CERTS": str(terminal.ours)}}))
    state, text, todo = terminal.look("claude-code")
    shown = place.replace("home/", "~/").replace("work/", "")
    assert state == "broken"
    assert f"NODE_EXTRA_CA_CERTS is set in {shown} only, which Claude Code reads when TLS is set up already" in text
    assert todo == f"export NODE_EXTRA_CA_CERTS={terminal.ours}, or start it so: omniroute exec -- claude"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"env": []}', '{"env": {"NODE_EXTRA_CA_CERTS": ""}}', "\udcff"])
def test_odd_settings_files_are_passed_over(terminal: Terminal, text: str) -> None:
    path = terminal.file("home/.claude/settings.json", "")
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "NODE_EXTRA_CA_CERTS and SSL_CERT_FILE are not set here" in terminal.look("claude-code")[1]
