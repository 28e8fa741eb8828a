"""A real mitmproxy inside the test process, or as a process of its own.

    async with running_proxy(config={…}, rehost={"api.openai.com:443": upstream.address}) as proxy:
        …a client talks to proxy.url and trusts proxy.ca_file…
        assert proxy.flows[0].response.status_code == 200

One at a time in a process: mitmproxy keeps its context in a global.
"""

# mypy: disable-error-code="no-untyped-call"
# (mitmproxy leaves its option and addon managers without annotations)

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import yaml
from mitmproxy import exceptions, hooks, http
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.options import Options
from mitmproxy.tools.dump import DumpMaster

from .ca import shared_ca
from .rehost import Address, Rehost

Config = str | Mapping[str, Any]
_LOGGERS = ("mitmproxy", "omniroute_addon", "omniroute")


class ProxyFailed(AssertionError):
    """mitmproxy reported an error while it started; the text is its log."""


class RunningProxy:
    """What a test may know about the proxy."""

    def __init__(self, master: DumpMaster, ca_file: Path, folder: Path, log: list[str]) -> None:
        self.master = master
        self.ca_file = ca_file
        """PEM file of the authority that signs intercepted hosts."""
        self.folder = folder
        """Temporary folder with `omniroute.yaml` and the state; gone after the test."""
        self.flows: list[http.HTTPFlow] = []
        """Finished flows, in the order in which they ended."""
        self.log = log
        """`LEVEL logger: message`, with traceback if there is one."""
        self.news = asyncio.Event()
        """Set whenever a flow has ended."""

    @property
    def ports(self) -> list[int]:
        """One per TCP mode, in the order of `mode`."""
        server: Proxyserver = self.master.addons.get("proxyserver")
        return [address[1] for address in server.listen_addrs()]

    @property
    def port(self) -> int:
        return self.ports[0]

    @property
    def url(self) -> str:
        """For `HTTPS_PROXY`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def config_file(self) -> Path:
        """Rewrite it to test hot reload."""
        return self.folder / "omniroute.yaml"

    @property
    def errors(self) -> list[str]:
        """Log lines of level ERROR and above."""
        return [line for line in self.log if line.startswith(("ERROR ", "CRITICAL "))]

    async def finished(self, count: int, *, within_s: float = 10.0) -> http.HTTPFlow:
        """Wait until so many flows have ended; returns the last of them. Raises TimeoutError.

        A client sees the end of its answer before mitmproxy has run the last hook.
        """
        async with asyncio.timeout(within_s):
            while len(self.flows) < count:
                self.news.clear()
                await self.news.wait()
        return self.flows[count - 1]


class _Recorder:
    """The addon that fills `RunningProxy.flows`."""

    def __init__(self, flows: list[http.HTTPFlow], news: asyncio.Event) -> None:
        self.flows = flows
        self.news = news

    def response(self, flow: http.HTTPFlow) -> None:
        if flow not in self.flows:
            self.flows.append(flow)
        self.news.set()

    def error(self, flow: http.HTTPFlow) -> None:
        self.response(flow)


class _LogTo(logging.Handler):
    """A plain handler: mitmproxy's own goes deaf when pytest moves from set-up to the test."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.lines = lines
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@cache
def shared_confdir() -> Path:
    """mitmproxy's folder with its authority, one per process: making its key takes longer than most tests."""
    return Path(mkdtemp(prefix="omniroute-test-confdir-"))


def our_addons() -> list[Any]:
    """What `mitmdump -s omniroute_addon` loads."""
    from omniroute_addon.addon import Omniroute
    from omniroute_addon.certificate_help import CertificateHelp

    return [CertificateHelp(), Omniroute()]


def write_config(folder: Path, config: Config | None) -> dict[str, Any]:
    """Write `omniroute.yaml` into the folder; returns the mitmproxy options that point our addon there.

    Packs, plugins and state get folders of their own in it: what the person at this machine configured plays no part.
    """
    text = (
        config if isinstance(config, str) else yaml.safe_dump(dict(config or {}), allow_unicode=True, sort_keys=False)
    )
    (folder / "omniroute.yaml").write_text(text, encoding="utf-8")
    for name in ("rules", "plugins", "state"):
        (folder / name).mkdir()
    return {
        "omniroute_config": str(folder / "omniroute.yaml"),
        "omniroute_rules": str(folder / "rules"),
        "omniroute_plugins": str(folder / "plugins"),
        "omniroute_state": str(folder / "state" / "state.db"),
    }


@asynccontextmanager
async def running_proxy(
    *,
    config: Config | None = None,
    mode: Sequence[str] = ("regular",),
    rehost: Mapping[str, Address] | None = None,
    addons: Sequence[Any] | None = None,
    options: Mapping[str, Any] | None = None,
    upstream_ca: Path | None = None,
) -> AsyncIterator[RunningProxy]:
    """mitmproxy with our addon on a free loopback port, in the running event loop; one at a time per process.

    `config` is the text of `omniroute.yaml` or a mapping; None is an empty one. `rehost` puts fakes under real names.
    `addons` replaces ours (`[]` is a bare mitmproxy) and come before the recorder. `options` are mitmproxy's, applied
    last. `upstream_ca` is the only authority that the proxy trusts, by default the one of the fakes.
    Raises ProxyFailed when mitmproxy would have refused to start.
    """
    with TemporaryDirectory(prefix="omniroute-test-") as name:
        folder = Path(name)
        wanted: dict[str, Any] = {
            "confdir": str(shared_confdir()),
            "mode": list(mode),
            "listen_host": "127.0.0.1",
            "listen_port": 0,
            "connection_strategy": "lazy",
            "ssl_verify_upstream_trusted_ca": str(upstream_ca or shared_ca().pem_file),
            **write_config(folder, config),
            **(options or {}),
        }
        log: list[str] = []
        with _logging_to(log):
            master = _master(wanted)
            proxy = RunningProxy(master, shared_confdir() / "mitmproxy-ca-cert.pem", folder, log)
            running = asyncio.Event()
            run: asyncio.Future[None] | None = None
            try:
                _load(master, our_addons() if addons is None else addons)
                _load(master, [Rehost(rehost), _Recorder(proxy.flows, proxy.news), _Starter(running)])
                run = asyncio.ensure_future(master.run())
                await _started(run, running, proxy)
                yield proxy
            finally:
                await (master.done() if run is None else _stop(master, run))


class _Starter:
    def __init__(self, event: asyncio.Event) -> None:
        self.event = event

    def running(self) -> None:
        self.event.set()


def _master(wanted: dict[str, Any]) -> DumpMaster:
    opts = Options()
    built_in = {name: value for name, value in wanted.items() if name in opts}
    opts.update(**built_in)
    master = DumpMaster(opts, with_termlog=False, with_dumper=False)
    # mitmproxy's check ends the process with sys.exit at the first error in the log; a test wants an exception.
    check = master.addons.get("errorcheck")
    check.finish()
    master.addons.remove(check)
    # mitmproxy's addons hear of their options only once they are all there; ours wait until it is loaded.
    opts.update_defer(**{name: value for name, value in wanted.items() if name not in built_in})
    return master


def _load(master: DumpMaster, addons: Sequence[Any]) -> None:
    """As mitmproxy loads a script: options that waited for the addon are set, then it is told of all of them."""
    for addon in addons:
        try:
            master.addons.add(addon)
            master.addons.invoke_addon_sync(addon, hooks.ConfigureHook(master.options.keys()))
        except exceptions.OptionsError as error:
            raise ProxyFailed(str(error)) from error


async def _started(run: asyncio.Future[None], running: asyncio.Event, proxy: RunningProxy) -> None:
    waiter = asyncio.ensure_future(running.wait())
    both: list[asyncio.Future[Any]] = [run, waiter]
    await asyncio.wait(both, timeout=20, return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    if run.done():
        await run
    if proxy.errors or not running.is_set():
        raise ProxyFailed("\n".join(proxy.log) or "mitmproxy did not start within 20 s")


async def _stop(master: DumpMaster, run: asyncio.Future[None]) -> None:
    server: Proxyserver = master.addons.get("proxyserver")
    await server.servers.update([])
    for handler in list(server.connections.values()):
        # What a client does that goes away: mitmproxy then closes the connections that belong to it.
        io = handler.transports.get(handler.client)
        if io is not None and io.handler is not None:
            io.handler.cancel("test is over")
    async with asyncio.timeout(10):
        while server.connections:  # noqa: ASYNC110 (mitmproxy keeps no task or event to wait for)
            await asyncio.sleep(0.001)
        master.shutdown()
        await run


class _logging_to:
    """Our loggers and mitmproxy's at DEBUG into a list, as long as the block runs."""

    def __init__(self, lines: list[str]) -> None:
        self.handler = _LogTo(lines)
        self.levels: dict[str, int] = {}

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self.handler)
        for name in _LOGGERS:
            self.levels[name] = logging.getLogger(name).level
            logging.getLogger(name).setLevel(logging.DEBUG)

    def __exit__(self, *exc: object) -> None:
        logging.getLogger().removeHandler(self.handler)
        for name, level in self.levels.items():
            logging.getLogger(name).setLevel(level)
