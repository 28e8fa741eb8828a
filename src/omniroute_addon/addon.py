"""The mitmproxy addon: options in, lifecycle, and the few hooks of mitmproxy that the engine needs.

Everything that may take time (files, keyrings) runs in a worker thread; the hooks themselves only look things up.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from mitmproxy import ctx, exceptions
from mitmproxy.addonmanager import Loader
from mitmproxy.http import HTTPFlow, Response
from mitmproxy.proxy.layers.modes import Socks5AuthData
from mitmproxy.proxy.mode_specs import ReverseMode
from mitmproxy.proxy.server_hooks import ServerConnectionHookData
from mitmproxy.tls import ClientHelloData
from mitmproxy.utils import asyncio_utils

from . import fast
from .api.server import Control, port_of, refuse_detour
from .bringup.found import owner_of
from .certificate_help import CertificateHelp
from .core import Core
from .engine import Engine
from .entrance import Entrance
from .errors import NotAdmitted, UnsupportedMitmproxy
from .files import Files
from .loopback import move_to_loopback
from .options import AT_START, OPTIONS, wrong_choice
from .reload import Loaded, Sources
from .state import State
from .stream import Waiting, install
from .stream.copies import meant_host
from .wire import HIDDEN

log = logging.getLogger(__name__)

RELOAD_EVERY_S = 1.0


class Omniroute:
    """One per mitmproxy."""

    name = "omniroute"

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._sources: Sources | None = None
        self._state: State | None = None
        self._undo: list[Callable[[], None]] = []
        self._uninstall: Callable[[], None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._told: list[str] = []
        self._moves = False
        self._control: Control | None = None

    # ------------------------------------------------------------ lifecycle

    def load(self, loader: Loader) -> None:
        for name, (kind, default, text, choices) in OPTIONS.items():
            loader.add_option(name, kind, default, text, choices)
        if not ctx.options.has_changed("connection_strategy"):
            ctx.options.update(connection_strategy="lazy")
            log.info("connection_strategy is now lazy: the original host is dialled only when it is really used.")
        if not ctx.options.has_changed("listen_host"):
            # mitmproxy's default is every interface; configured credentials must not be open to a network.
            ctx.options.update(listen_host="127.0.0.1")
            self._moves = True

    def configure(self, updated: set[str]) -> None:
        if wrong := wrong_choice(ctx.options, updated):
            raise exceptions.OptionsError(wrong)
        if "omniroute_control" in updated:
            try:
                port_of(ctx.options.omniroute_control)
            except ValueError as error:
                raise exceptions.OptionsError(str(error)) from None
        if self.engine is not None and len(updated) < len(OPTIONS):
            for name in sorted(updated & AT_START):
                log.warning("%s takes effect after a restart.", name)
        if updated & {"omniroute_config", "omniroute_rules"}:
            self._load_sources()
        if self.engine is not None:  # else `running` comes back with all options
            self.engine.verified_tls = not ctx.options.ssl_insecure
            self._switch(self.engine)

    def running(self) -> None:  # not async: mitmproxy runs it synchronously when a script is added later
        if self.engine is None:  # added by a program instead of `-s`: nobody has called configure
            self.configure({*OPTIONS})
        asyncio_utils.create_task(self._open_doors(), name="omniroute listen", keep_ref=True)
        if ctx.options.omniroute_fast_dispatch:
            self._undo += fast.install(ctx.master)
        self._watcher = asyncio_utils.create_task(self._watch_files(), name="omniroute reload", keep_ref=True)

    async def _open_doors(self) -> None:
        server = ctx.master.addons.get("proxyserver")
        if self._moves:
            self._moves = False
            await move_to_loopback(server.servers)
        if self.engine is not None and ctx.options.server:
            folder, port = self._files().state_path.parent, port_of(ctx.options.omniroute_control)
            confdir, owner = Path(ctx.options.confdir), owner_of(os.environ)
            self._control = Control(
                self.engine, folder=folder, port=port, listen=server.listen_addrs, confdir=confdir, owner=owner
            )
            await self._control.open()

    def done(
        self,
    ) -> Awaitable[None] | None:  # mitmproxy awaits it at its end, and does not when a script is taken away
        if self._watcher is not None:
            self._watcher.cancel()
        if self._control is not None:
            self._control.close()
        if self._uninstall is not None:
            self._uninstall()
            self._uninstall = None
        if self.engine is not None:
            self.engine.plugins.each("stop")
            self.engine = None
        while self._undo:
            self._undo.pop()()
        state, self._state = self._state, None
        return state.close() if state is not None else None

    def _switch(self, engine: Engine) -> None:
        if ctx.options.omniroute_enabled and self._uninstall is None:
            try:
                self._uninstall = install(engine)
            except UnsupportedMitmproxy as error:
                raise exceptions.OptionsError(str(error)) from None
        elif not ctx.options.omniroute_enabled and self._uninstall is not None:
            self._uninstall()
            self._uninstall = None
        if (
            self._state is not None
            and self._uninstall is not None
            and (ctx.options.server or ctx.options.client_replay)
        ):
            self._state.open()  # nothing is written for somebody who only reads a dump (`mitmdump -nr FILE`)

    # ------------------------------------------------------------ configuration, packs, plugins

    def _load_sources(self) -> None:
        """At start and when an option names other files: synchronously, because nothing can be served before."""
        self._sources = self._files().sources()
        self._use(self._sources.load())

    def _use(self, loaded: Loaded) -> None:
        if loaded.refused:
            # mitmproxy ends a start that logs an error; one that is running keeps what was in force.
            log.error("%s\nnot started: the configuration cannot be used.", "\n".join(loaded.problems))
        self._tell((*loaded.problems, *loaded.warnings))
        rules = Files.rule_book(loaded)
        self._tell((*self._told, *rules.problems))
        if self.engine is None:
            files = self._files()
            self._state = State(files.state_path, told=self._remembered)
            core = Core(
                config=loaded.config, packs=loaded.packs, rules=rules, clients=loaded.clients, store=self._state.store
            )
            core.warming = self._state.warming
            self.engine = Engine(core, files.plugin_host(loaded.config.settings))
        core = self.engine.core
        core.config, core.packs, core.rules, core.clients = loaded.config, loaded.packs, rules, loaded.clients
        self.engine.plugins.each("start", core=core)
        log.info("in force: %s", summary(loaded, len(rules.rules), len(self.engine.plugins.plugins())))

    def _remembered(self) -> None:
        """What was known before the restart is in memory: plugins look at it."""
        if self.engine is not None:
            self.engine.plugins.each("start", core=self.engine.core)

    @staticmethod
    def _files() -> Files:
        kinds = ("config", "rules", "plugins", "state")
        named = {kind: getattr(ctx.options, f"omniroute_{kind}") for kind in kinds}
        return Files(**{kind: Path(text).expanduser() if text else None for kind, text in named.items()})

    async def _watch_files(self) -> None:
        """Notice edits within two seconds; a bad one keeps the last good version (design.md §6)."""
        while True:
            await asyncio.sleep(RELOAD_EVERY_S)
            sources = self._sources
            if sources is None:
                continue
            try:
                loaded = await asyncio.to_thread(sources.poll)
                if loaded is not None and sources is self._sources:
                    self._use(loaded)
                    if not loaded.problems:
                        log.info("configuration and packs were reloaded")
            except Exception:  # our own fault in a background task: told, and tried again at the next edit
                log.exception("could not reload configuration and packs; the last good version stays in force")

    def _tell(self, problems: Sequence[str]) -> None:
        for problem in problems:
            if problem not in self._told:
                log.warning("%s", problem)
        self._told = list(problems)

    # ------------------------------------------------------------ mitmproxy's hooks

    def tls_clienthello(self, data: ClientHelloData) -> None:
        """Decrypt only what a pack names (design.md §7.3)."""
        if self.engine is None or ctx.options.omniroute_intercept == "all" or not ctx.options.omniroute_enabled:
            return
        if isinstance(data.context.client.proxy_mode, ReverseMode):
            return  # the operator named the one host
        host, port = data.context.server.address or ("", 443)
        names = {name for name in (data.client_hello.sni, host) if name}
        if not any(self.engine.decrypts(name, port) for name in names):
            data.ignore_connection = True

    def http_connect(self, flow: HTTPFlow) -> None:
        """The proxy user of a CONNECT names the agent."""
        if self.engine is not None and self._uninstall is not None:
            Entrance(self.engine).connect(flow)

    def socks5_auth(self, data: Socks5AuthData) -> None:
        """Whom mitmproxy's `proxyauth` let in (without that option it asks no SOCKS client)."""
        if self.engine is not None and self._uninstall is not None and data.valid:
            data.valid = Entrance(self.engine).login(data.client_conn, data.username, data.password)

    def requestheaders(self, flow: HTTPFlow) -> None:
        """A model call is read whole, whatever another addon says: it may have to be sent again."""
        request, engine = flow.request, self.engine
        if self._control is not None and self._control.is_here(request.host, request.port):
            flow.response = refuse_detour(request.headers, Response.make)
            return
        if engine is None or self._uninstall is None:
            return
        Entrance(engine).request(flow)
        password = "proxyauth" in flow.metadata
        if not (request.stream or password):
            return
        if engine.is_ours(request.method, meant_host(flow), request.port, request.path):
            request.stream = False
            if password:  # mitmproxy writes it into every dump; who called may stay, how it logged in may not
                flow.metadata["proxyauth"] = (flow.metadata["proxyauth"][0], HIDDEN)

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Nobody reaches the control endpoint through the proxy, whatever name leads there."""
        if self._control is not None:
            self._control.dialled(data.server.peername, data.server.sockname)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        if self._control is not None:
            self._control.hung_up(data.server.sockname)

    async def omniroute_pause(self, waiting: Waiting) -> None:
        """Sit out a pause or a permit, until the client leaves or the time for all attempts is over (`stream/`)."""
        assert self.engine is not None
        left = waiting.exchange.deadline_at - self.engine.core.clock.now()
        pause = waiting.pause
        work = asyncio.ensure_future(pause.permit if pause.permit is not None else asyncio.sleep(pause.seconds))
        gone = asyncio.ensure_future(waiting.gone.wait())
        try:
            done, _ = await asyncio.wait({work, gone}, timeout=max(0.0, left), return_when=asyncio.FIRST_COMPLETED)
            if not done:
                raise NotAdmitted("the time for all attempts is over")
            if work.cancelled():
                log.warning("a plugin's permit was cancelled; the request goes on without it")
            elif work.done():
                work.result()
        except NotAdmitted as refusal:
            self.engine.not_admitted(waiting.exchange, str(refusal))
        except Exception:  # a plugin's fault is not the request's: it goes on without the permit
            log.exception("a plugin's permit failed; the request goes on without it")
        finally:
            work.cancel()
            gone.cancel()


def summary(loaded: Loaded, rules: int, plugins: int) -> str:
    """What a person wants to see after a start or an edit, in one line."""
    config = loaded.config
    counts = (
        (len(config.connections), "connection"),
        (len(config.routes), "route"),
        (len(loaded.packs.providers), "provider"),
        (rules, "rule"),
        (plugins, "plugin"),
    )
    told = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return told if config.connections else f"{told}; without connections the client's own credential is the only one"


addons = [CertificateHelp(), Omniroute()]
