"""One run: fake provider, real mitmdump with or without the addon, and the agent as a process that cannot outlive it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from omniroute_addon.bringup.bundle import certificates
from omniroute_addon.bringup.variables import Behind, variables
from omniroute_addon.testing.ca import shared_ca
from omniroute_addon.testing.process import proxy_process
from omniroute_addon.testing.upstream import FakeUpstream

from .clients import KEY, Agent
from .situations import FIRST, MARK, SIDE_HOSTS, Provider, Situation

SYSTEM = Path("/etc/ssl/certs/ca-certificates.crt")
POOL = {"AGENTS_KEY_A": FIRST[0], "AGENTS_KEY_B": "sk-pool-b"}
_KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TZ", "IS_SANDBOX")
"""All that an agent gets of this process's environment: nothing of the person who runs this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened."""

    agent: str
    situation: str
    addon: bool
    exit_code: int | None
    """None: it was still running at the end of its time."""
    seconds: float
    answers: int
    """How often the right answer stands in what it printed."""
    words: str
    """In short, for the table."""
    good: bool
    """As the situation wants it."""
    stdout: str = field(repr=False, default="")
    stderr: str = field(repr=False, default="")
    model_calls: list[dict[str, Any]] = field(repr=False, default_factory=list)
    side_calls: list[str] = field(repr=False, default_factory=list)
    proxy_log: list[str] = field(repr=False, default_factory=list)


async def run(agent: Agent, file: Path, situation: Situation, *, addon: bool, within_s: float) -> Outcome:
    """Run the agent once."""
    provider = Provider(situation, agent.dialect)
    hosts = (agent.host, *SIDE_HOSTS)
    async with FakeUpstream(http2=True, names=hosts) as upstream:
        upstream.script(provider)
        reachable = hosts if situation.side_hosts else (agent.host,)
        connections = [
            {"id": name, "provider": agent.provider, "key": f"env:{variable}", "priority": number}
            for number, (name, variable) in enumerate(zip(("a", "b"), POOL, strict=True))
        ]
        async with proxy_process(
            config={"connections": connections} if addon else None,
            rehost={f"{host}:443": upstream.address for host in reachable},
            addon=addon,
            env=POOL,
            options={"flow_detail": 0},
        ) as proxy:
            with TemporaryDirectory(prefix="omniroute-agent-", ignore_cleanup_errors=True) as name:
                environ = _environment(agent, Path(name), proxy.port, proxy.ca_file)
                seen = await _answer(file, agent, environ, Path(name) / "work", within_s)
        log = list(proxy.log)
        upstream.crashes.clear()  # an agent that is killed breaks what the fake was saying
    return _judged(agent, situation, addon, seen, provider, log)


def _environment(agent: Agent, folder: Path, port: int, authority: Path) -> dict[str, str]:
    """As `omniroute exec` makes it, in a home of its own. The fakes' authority is trusted for hosts that are not ours."""
    home = folder / "home"
    home.mkdir()
    (folder / "work").mkdir()
    agent.prepare(home)
    ours = authority.read_bytes() + shared_ca().pem_file.read_bytes()
    (folder / "ca.pem").write_bytes(ours)
    system = SYSTEM.read_bytes() if SYSTEM.is_file() else b""
    assert certificates(ours)
    (folder / "bundle.pem").write_bytes(system + ours)
    behind = Behind(
        host="127.0.0.1", port=port, bundle=folder / "bundle.pem", authority=folder / "ca.pem", agent=agent.id
    )
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config"), "XDG_DATA_HOME": str(home / ".local/share")}
    return {**kept, **own, **variables(behind, {}), agent.key_variable: KEY, **agent.environ, "NO_COLOR": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    code: int | None
    seconds: float
    out: str
    err: str


async def _answer(file: Path, agent: Agent, environ: dict[str, str], work: Path, within_s: float) -> _Seen:
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        file,
        *agent.arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environ,
        cwd=work,
        start_new_session=True,
    )
    assert process.stdout and process.stderr
    reading = [asyncio.ensure_future(_read(stream)) for stream in (process.stdout, process.stderr)]
    code: int | None = None
    try:
        async with asyncio.timeout(within_s):
            code = await process.wait()
    except TimeoutError:
        pass
    finally:
        seconds = time.monotonic() - began
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the agent, and whatever it has left running
        await process.wait()
        done, late = await asyncio.wait(reading, timeout=5)
        for task in late:
            task.cancel()
    out, err = (task.result() if task in done else "" for task in reading)
    return _Seen(code=code, seconds=seconds, out=out, err=err)


async def _read(stream: asyncio.StreamReader) -> str:
    return (await stream.read()).decode("utf-8", "replace")


def _judged(
    agent: Agent, situation: Situation, addon: bool, seen: _Seen, provider: Provider, log: list[str]
) -> Outcome:
    answers = seen.out.count(MARK)
    if seen.code is None:
        words = f"still trying at {seen.seconds:.0f} s"
    elif seen.code == 0 and answers:
        words = f"answer, {seen.seconds:.0f} s" if answers == 1 else f"answer {answers} times, {seen.seconds:.0f} s"
    elif seen.code == 0:
        words = f"exit 0 without the answer, {seen.seconds:.0f} s"
    else:
        words = f"exit {seen.code}, {seen.seconds:.0f} s"
    answered = seen.code == 0 and answers == 1
    ended_well = answered if situation.wants_answer else seen.code is not None and seen.seconds < 60 and not answers
    return Outcome(
        agent=agent.id,
        situation=situation.id,
        addon=addon,
        exit_code=seen.code,
        seconds=round(seen.seconds, 1),
        answers=answers,
        words=words,
        good=ended_well,
        stdout=seen.out[-4000:],
        stderr=seen.err[-4000:],
        model_calls=provider.model_calls,
        side_calls=provider.side_calls,
        proxy_log=log[-60:],
    )
