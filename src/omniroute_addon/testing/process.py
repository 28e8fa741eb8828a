"""The real `mitmdump` as a process of its own: for the command line, `kill -9`, start-up and speed.

async with proxy_process(config={…}, rehost={"api.openai.com:443": upstream.address}) as proxy:
    …proxy.url, proxy.ca_file…
    proxy.process.kill()
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import omniroute_addon

from . import rehost as rehost_script
from .ca import shared_ca
from .proxy import Config, ProxyFailed, shared_confdir, write_config
from .rehost import Address

_LISTENING = re.compile(r"listening at .*?127\.0\.0\.1:(\d+)")
_ADDON_FILE = "from omniroute_addon.addon import addons\n"


@dataclass(slots=True, kw_only=True)
class ProxyProcess:
    """A running `mitmdump` and everything that it printed so far."""

    process: asyncio.subprocess.Process
    ca_file: Path
    folder: Path
    """Temporary folder with `omniroute.yaml` and the state."""
    port: int = 0
    log: list[str] = field(default_factory=list)
    """Lines of stdout and stderr, in the order in which they came."""
    news: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def url(self) -> str:
        """For `HTTPS_PROXY`."""
        return f"http://127.0.0.1:{self.port}"

    async def logged(self, text: str, *, within_s: float = 20.0) -> str:
        """Wait for a log line that contains `text`. Raises ProxyFailed with the whole log when none comes."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    self.news.clear()
                    if line := next((line for line in self.log if text in line), None):
                        return line
                    if self.process.returncode is not None:
                        raise ProxyFailed(f"mitmdump ended with {self.process.returncode}:\n" + "\n".join(self.log))
                    await self.news.wait()
        except TimeoutError:
            raise ProxyFailed(f"no line with {text!r} within {within_s} s:\n" + "\n".join(self.log)) from None


@asynccontextmanager
async def proxy_process(
    *,
    config: Config | None = None,
    mode: Sequence[str] = ("regular",),
    rehost: Mapping[str, Address] | None = None,
    addon: bool = True,
    options: Mapping[str, object] | None = None,
    arguments: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    upstream_ca: Path | None = None,
) -> AsyncIterator[ProxyProcess]:
    """Start `mitmdump -s omniroute_addon …` and wait until it listens; terminated (then killed) after the block.

    `addon=False` is a bare mitmdump to compare with. `options` become `--set name=value`; `arguments` are appended.
    `env` is added to this process's environment. Raises ProxyFailed with the log when it ends before it listens.
    """
    with TemporaryDirectory(prefix="omniroute-test-") as name:
        folder = Path(name)
        settings: dict[str, object] = {
            "confdir": shared_confdir(),
            "listen_host": "127.0.0.1",
            "listen_port": 0,
            "connection_strategy": "lazy",
            "ssl_verify_upstream_trusted_ca": upstream_ca or shared_ca().pem_file,
        }
        scripts: list[Path] = []
        if addon:
            (folder / "omniroute_addon").write_text(_ADDON_FILE, encoding="utf-8")
            scripts.append(folder / "omniroute_addon")
            settings |= write_config(folder, config)
        if rehost:
            scripts.append(Path(rehost_script.__file__))
        command = [sys.executable, "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()"]
        for spec in mode:
            command += ["--mode", spec]
        for script in scripts:
            command += ["-s", str(script)]
        for option, value in (settings | dict(options or {})).items():
            command += ["--set", f"{option}={_text(value)}"]
        for real, (host, port) in (rehost or {}).items():
            command += ["--set", f"rehost={real}={host}:{port}"]
        process = await asyncio.create_subprocess_exec(
            *command,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **_import_path(), **(env or {})},
        )
        proxy = ProxyProcess(process=process, ca_file=shared_confdir() / "mitmproxy-ca-cert.pem", folder=folder)
        reader = asyncio.ensure_future(_read_log(proxy))
        try:
            match = _LISTENING.search(await proxy.logged("listening at"))
            if match is None:
                raise ProxyFailed("mitmdump does not listen on 127.0.0.1:\n" + "\n".join(proxy.log))
            proxy.port = int(match[1])
            yield proxy
        finally:
            await _end(process)
            await reader


def _import_path() -> dict[str, str]:
    # A package that is not installed but imported from a source tree must be found by the process, too.
    here = str(Path(omniroute_addon.__file__).parents[1])
    return {"PYTHONPATH": os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _read_log(proxy: ProxyProcess) -> None:
    assert proxy.process.stdout is not None
    async for line in proxy.process.stdout:
        proxy.log.append(line.decode("utf-8", "replace").rstrip())
        proxy.news.set()
    await proxy.process.wait()
    proxy.news.set()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 5)
    except TimeoutError:
        process.kill()
        await process.wait()
