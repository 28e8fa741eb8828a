"""`omniroute status` and `omniroute reset`: the picture, and how a running proxy is found."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from omniroute_addon.api import run_file
from omniroute_addon.api.run_file import RunFile
from omniroute_addon.cli import cli
from omniroute_addon.cli.control import NoAnswer, find_proxy, running_proxies
from omniroute_addon.cli.status_view import draw, tree
from omniroute_addon.cli.words import lasting

NOW = 1_000_000
ABOUT = {"pid": 7, "version": "0.1.0", "startedAt": NOW - 125_000, "now": NOW, "listen": ["127.0.0.1:8080"]}


def timer(**fields: Any) -> dict[str, Any]:
    usual = {"part": "connection", "mechanism": "connection_cooldown", "provider": "openai", "connectionId": "work"}
    usual |= {"model": None, "state": "cooling", "blocks": True, "terminal": False, "reason": "rate_limit_exceeded"}
    usual |= {"detail": "slow down", "rule": "r1", "hint": "header:retry-after", "failures": 0}
    return {**usual, "since": NOW - 30_000, "until": NOW + 30_000, "remainingMs": 30_000, **fields}


def connection(name: str, provider: str = "openai", state: str = "ready", **fields: Any) -> dict[str, Any]:
    usual = {"configured": True, "clientsOwn": False, "heldBackBy": None}
    return {"connectionId": name, "provider": provider, "state": state, **usual, **fields}


def provider(name: str, state: str = "CLOSED") -> dict[str, Any]:
    return {"provider": name, "state": state}


def status(*timers: dict[str, Any], providers: Any = (), connections: Any = (), **more: Any) -> dict[str, Any]:
    found = {"proxy": ABOUT, "store": {"trouble": None}, "plugins": [], "timers": [*timers]}
    return {**found, "providers": [*providers], "connections": [*connections], **more}


def test_a_tree_says_who_is_held_back_for_how_long_and_why() -> None:
    lines = tree(
        status(
            timer(
                part="provider",
                connectionId=None,
                mechanism="circuit_breaker",
                provider="groq",
                state="OPEN",
                hint=None,
            )
            | {"reason": "transient", "detail": "the breaker of groq is open after 12 failures", "rule": None},
            timer(),
            timer(part="model", model="gpt-5.4", mechanism="model_lockout", state="locked", until=NOW + 60_000),
            timer(connectionId="old", state="banned", terminal=True, until=None, since=None, hint=None, detail="gone"),
            providers=(provider("groq", "OPEN"), provider("openai")),
            connections=(
                connection("fast", "groq", "OPEN", heldBackBy="circuit_breaker"),
                connection("old", state="banned"),
                connection("spare"),
                connection("work", state="cooling"),
                connection("client:abc", configured=False, clientsOwn=True),
            ),
        )
    )
    assert [line.cells for line in lines] == [
        ("groq", "◐ OPEN", "█████░░░░░ 30 s", "transient · the breaker of groq is open after 12 failures"),
        ("  fast", "◐ waits", "", "for its provider (circuit_breaker)"),
        ("openai", "● closed", "", ""),
        ("  old", "✗ banned", "until a person acts", "rate_limit_exceeded · gone · rule r1"),
        ("  spare", "● ready", "", ""),
        (
            "  work",
            "◐ cooling",
            "█████░░░░░ 30 s",
            "rate_limit_exceeded · slow down · rule r1 · said by header:retry-after",
        ),
        (
            "    gpt-5.4",
            "◐ locked",
            "███████░░░ 1 min",
            "rate_limit_exceeded · slow down · rule r1 · said by header:retry-after",
        ),
        ("  client:abc (the client's own)", "● ready", "", ""),
    ]


def test_a_degraded_provider_is_worth_a_note() -> None:
    row = timer(part="provider", connectionId=None, state="DEGRADED", blocks=False, until=None, hint=None)
    [line] = tree(status(row, providers=(provider("openai", "DEGRADED"),)))
    assert (line.mood, line.state, line.left) == ("note", "degraded", "")
    assert line.why.startswith("rate_limit_exceeded · slow down")


def test_the_picture_begins_with_what_a_person_wants_to_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = click.unstyle(
        draw(
            status(
                timer(detail="x" * 300),
                providers=(provider("openai"),),
                connections=(connection("work", state="cooling"), connection("spare")),
                store={"trouble": "the state file cannot be written: disk full"},
                plugins=[{"name": "night_shift", "state": "quarantined", "detail": "10 faults in a row"}],
            )
        )
    )
    lines = text.splitlines()
    assert lines[0] == "omniroute 0.1.0, listening at 127.0.0.1:8080, pid 7, up 2 min 5 s"
    assert lines[1] == "1 of 2 connections ready. 1 timer running."
    assert lines[2] == "! state file: the state file cannot be written: disk full"
    assert lines[3] == "! plugin night_shift is quarantined: 10 faults in a row"
    assert lines[4] == "" and len(lines) == 8
    assert all(len(line) <= 80 for line in lines[5:]) and lines[6].endswith("…")
    nobody = click.unstyle(draw(status()))
    assert nobody.splitlines()[1] == (
        "No connection is configured; clients use their own credentials. Nothing is held back."
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0.1, "1 s"),
        (59.2, "1 min"),
        (243, "4 min 3 s"),
        (7_500, "2 h 5 min"),
        (7_200, "2 h"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations_have_two_units(seconds: float, text: str) -> None:
    assert lasting(seconds) == text


# ---------------------------------------------------------------- finding a proxy


class Fake(ThreadingHTTPServer):
    """A proxy's endpoint that says what the test wants."""

    def __init__(self, about: Any = None, code: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.about, self.code = about, code
        self.asked: list[tuple[str, str, bytes, str | None]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    server: Fake

    def do_GET(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length)
        self.server.asked.append((self.command, self.path, body, self.headers.get("authorization")))
        about = self.server.about
        found = about[self.path] if isinstance(about, dict) and self.path in about else about
        raw = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(self.server.code if self.path != "/api/proxy" or isinstance(about, bytes) else 200)
        self.end_headers()
        self.wfile.write(raw)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def fakes() -> Iterator[list[Fake]]:
    made: list[Fake] = []
    yield made
    for fake in made:
        fake.shutdown()
        fake.server_close()


def running(folder: Path, fake: Fake, *, pid: int = 7) -> Path:
    run = RunFile(url=fake.url, token="right", pid=pid, started_at=1.0, listen=("127.0.0.1:8080",))
    return run_file.write(folder, run)


def test_what_a_killed_proxy_left_behind_is_removed(tmp_path: Path, fakes: list[Fake]) -> None:
    gone, other, reused = Fake(), Fake(b"<html>", 401), Fake({"/api/proxy": {**ABOUT, "pid": 8}})
    fakes += [other, reused]
    paths = [running(tmp_path, fake) for fake in (gone, other, reused)]
    gone.shutdown()
    gone.server_close()
    (tmp_path / "run" / "broken.json").write_text("{")
    (tmp_path / "run" / "far.json").write_text(json.dumps({"url": "http://10.0.0.1:1", "token": "t", "pid": 1}))
    assert running_proxies(tmp_path) == []
    assert [path.exists() for path in paths] == [False, False, False]


def test_the_token_never_leaves_this_machine(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for url in ("http://10.0.0.1:1", "https://127.0.0.1:1", "http://127.0.0.1", "http://localhost.evil.example:1", "x"):
        (tmp_path / "run" / "a.json").write_text(json.dumps({"url": url, "token": "t", "pid": 1}))
        assert list(run_file.read_all(tmp_path)) == []
    assert "right" not in repr(RunFile(url="http://127.0.0.1:1", token="right", pid=1, started_at=0.0))


def test_without_a_proxy_it_says_what_to_do(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["status", "--state", str(tmp_path / "state.db")])
    assert done.exit_code == 1 and isinstance(done.exception, SystemExit)
    assert done.output == (
        f"no proxy is running that keeps its state in {tmp_path}.\n"
        "  Start one with `omniroute run`. One with another state file is found with --state FILE; one with "
        "omniroute_control=off cannot be asked.\n"
    )
    with pytest.raises(NoAnswer, match="no proxy on port 9 is running"):
        find_proxy(tmp_path, 9)


def test_of_several_the_person_picks_one(tmp_path: Path, fakes: list[Fake]) -> None:
    fakes += [Fake({"/api/proxy": ABOUT}), Fake({"/api/proxy": {**ABOUT, "pid": 8, "listen": ["127.0.0.1:9000"]}})]
    running(tmp_path, fakes[0])
    running(tmp_path, fakes[1], pid=8)
    with pytest.raises(NoAnswer) as told:
        find_proxy(tmp_path)
    assert str(told.value) == (
        "2 proxies are running. Say which one is meant:\n"
        "  --port 8080   listening at 127.0.0.1:8080, pid 7, up 2 min 5 s\n"
        "  --port 9000   listening at 127.0.0.1:9000, pid 8, up 2 min 5 s"
    )
    assert find_proxy(tmp_path, 9000).run.pid == 8


def test_status_and_reset_ask_with_the_token_and_past_every_proxy(
    tmp_path: Path, fakes: list[Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setitem(os.environ, "NO_PROXY", "")
    cleared = {"mechanism": "model_lockout", "provider": "openai", "connectionId": "a", "model": "gpt", "part": "model"}
    fake = Fake(
        {"/api/proxy": ABOUT, "/api/status": status(), "/api/reset": {"cleared": [cleared], "skippedTerminal": ["b"]}}
    )
    fakes.append(fake)
    running(tmp_path, fake)
    where = ["--state", str(tmp_path)]
    done = CliRunner().invoke(cli, ["status", "--json", *where])
    assert json.loads(done.output) == status()
    done = CliRunner().invoke(cli, ["reset", "model", "gpt", "--connection", "a", *where])
    assert done.output == (
        "cleared model_lockout: openai a gpt\n"
        "left as it is: b, which needs a person. `omniroute reset connection b --terminal` ends that.\n"
        "1 timer ended; the next request may go there.\n"
    )
    assert fake.asked[-1] == (
        "POST",
        "/api/reset",
        b'{"part": "model", "name": "gpt", "connection": "a"}',
        "Bearer right",
    )
    fake.about["/api/reset"] = {"cleared": [], "skippedTerminal": []}
    assert CliRunner().invoke(cli, ["reset", "all", *where]).output == "Nothing was held back.\n"
    CliRunner().invoke(cli, ["reset", "provider", "openai", *where])
    CliRunner().invoke(cli, ["reset", "connection", "a", "--terminal", *where])
    assert [json.loads(body) for _, _, body, _ in fake.asked if body][-3:] == [
        {"part": "all"},
        {"part": "provider", "name": "openai"},
        {"part": "connection", "name": "a", "terminal": True},
    ]


def test_a_refusal_is_told_in_the_proxys_words(tmp_path: Path, fakes: list[Fake]) -> None:
    fake = Fake({"/api/proxy": ABOUT, "/api/reset": {"error": "unknown connection 'x'.", "code": "c"}}, 404)
    fakes.append(fake)
    running(tmp_path, fake)
    done = CliRunner().invoke(cli, ["reset", "connection", "x", "--state", str(tmp_path)])
    assert (done.exit_code, done.output) == (1, "unknown connection 'x'.\n")
    fake.about["/api/reset"] = []
    done = CliRunner().invoke(cli, ["reset", "connection", "x", "--state", str(tmp_path)])
    assert done.output == "the proxy answered with status 404.\n"


def test_inside_an_exec_its_own_proxy_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a proxy for everybody, `omniroute exec -- sh -c 'omniroute status'` means the one around it."""
    from omniroute_addon.cli import control

    both = []
    for port in (8080, 9125):
        run = RunFile(url=f"http://127.0.0.1:{port}", token="t", pid=port, started_at=0.0)
        both.append(control.Proxy(run=run, about={**ABOUT, "pid": port, "listen": [f"127.0.0.1:{port}"]}))
    monkeypatch.setattr(control, "running_proxies", lambda folder: both)
    monkeypatch.setenv("OMNIROUTE_PROXY", "127.0.0.1:9125 /conf")
    assert find_proxy() is both[1]
    assert find_proxy(port=8080) is both[0]
    monkeypatch.delenv("OMNIROUTE_PROXY")
    with pytest.raises(NoAnswer, match="2 proxies are running"):
        find_proxy()
