"""Opens the control endpoint inside the proxy's event loop, and closes it. No fault of it is the proxy's."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omniroute_addon import __version__
from omniroute_addon.peers import is_loopback
from omniroute_addon.wire import HIDDEN

from . import run_file

if TYPE_CHECKING:
    from uvicorn import Server

    from omniroute_addon.engine import Engine

    from .guard import Doorkeeper

log = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"
OFF, AUTO = "off", "auto"


def port_of(choice: str) -> int | None:
    """The port that the option `omniroute_control` means: 0 for any free one, None for off. Raises ValueError."""
    word = choice.strip().lower()
    if word in (AUTO, ""):
        return 0
    if word == OFF:
        return None
    if word.isascii() and word.isdigit() and 1 <= int(word) <= 65_535:
        return int(word)
    raise ValueError(f"omniroute_control: '{choice}' is no port. Use auto, off, or a number from 1 to 65535.")


class Control:
    """One per proxy. `listen` tells where the proxy itself listens now (host and port), `folder` is the state folder.
    `confdir`: where the proxy's certificates are; `owner`: the process that it was started for alone, if any."""

    def __init__(
        self,
        engine: Engine,
        *,
        folder: Path,
        listen: Callable[[], Iterable[Sequence[Any]]],
        port: int | None = 0,
        confdir: Path | None = None,
        owner: int | None = None,
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._listening = listen
        self._port = port
        self._confdir = confdir
        self._owner = owner
        self._file: Path | None = None
        self._server: Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None
        self._closed = False
        self.doorkeeper: Doorkeeper | None = None
        """None while the endpoint is not open."""

    def __repr__(self) -> str:
        return f"<Control {self.doorkeeper or 'closed'}>"

    def _listen(self) -> tuple[str, ...]:
        return tuple(_shown(address) for address in self._listening())

    async def open(self) -> None:
        """Listen, then write the run file. Never raises: without the endpoint the proxy works as well."""
        if self._port is None:
            return
        try:
            await self._open(self._port)
        except Exception as error:  # noqa: BLE001 - told once; a port, a folder or a library is no reason not to serve
            log.warning(
                "the control endpoint is not open, `omniroute status` will not find this proxy: %s",
                error if isinstance(error, OSError | ImportError) else type(error).__name__,
            )
            self.close()

    async def _open(self, port: int) -> None:
        await asyncio.to_thread(_import_libraries)
        if self._closed:
            return
        from .guard import Doorkeeper, Guard
        from .routes import About, Api

        self._socket = bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((LOOPBACK, port))
        token, started_at = secrets.token_urlsafe(32), self._engine.core.clock.now()
        self.doorkeeper = Doorkeeper(token=token, port=bound.getsockname()[1])
        about = About(
            pid=os.getpid(),
            version=__version__,
            started_at=started_at,
            listen=self._listen,
            confdir=self._confdir,
            owner=self._owner,
        )
        self._server = _server(Guard(Api(self._engine, about).app(), self.doorkeeper))
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[bound]))
        while not self._server.started and not self._serving.done():  # noqa: ASYNC110
            await asyncio.sleep(0.005)  # uvicorn has no event for it
        run = run_file.RunFile(
            url=f"http://{LOOPBACK}:{self.doorkeeper.port}",
            token=token,
            pid=about.pid,
            started_at=started_at,
            listen=self._listen(),
        )
        self._file = await asyncio.to_thread(run_file.write, self._folder, run)
        if self._closed:
            run_file.remove(self._file)
            return
        log.info("control endpoint on loopback port %d, for `omniroute status` and others", self.doorkeeper.port)

    def dialled(self, address: tuple[str, int] | None, local: tuple[str, int] | None) -> None:
        """The proxy itself has connected somewhere: if it was here, what comes from there is refused."""
        keeper = self.doorkeeper
        if keeper is None or address is None or local is None or address[1] != keeper.port:
            return
        if is_loopback(address[0]):
            keeper.dialled.add((local[0], local[1]))

    def hung_up(self, local: tuple[str, int] | None) -> None:
        """That connection is closed: its port may be anybody's next."""
        if self.doorkeeper is not None and self.doorkeeper.dialled and local is not None:
            self.doorkeeper.dialled.discard((local[0], local[1]))

    def is_here(self, host: str, port: int) -> bool:
        """This address is the endpoint's. A cheap look: a stranger's name for it is found by `dialled`."""
        return self.doorkeeper is not None and port == self.doorkeeper.port and is_loopback(host)

    def close(self) -> None:
        """At once, also when the loop is about to end."""
        self._closed = True
        if self._file is not None:
            run_file.remove(self._file)
            self._file = None
        if self._server is not None:
            self._server.should_exit = self._server.force_exit = True
            for listener in getattr(self._server, "servers", ()):
                listener.close()
            for connection in list(self._server.server_state.connections):
                with suppress(Exception):
                    connection.transport.close()
        if self._serving is not None:
            self._serving.cancel()
        if self._socket is not None:
            self._socket.close()
        self.doorkeeper = self._server = self._serving = self._socket = None


def refuse_detour[R](headers: MutableMapping[str, str], make: Callable[[int, bytes, dict[str, str]], R]) -> R:
    """The answer to a request for the endpoint that came to the proxy; its token is taken out of the flow."""
    if "authorization" in headers:
        headers["authorization"] = HIDDEN
    body = b'{"error": "Ask the control endpoint directly, not through the proxy.", "code": "through_the_proxy"}'
    return make(403, body, {"content-type": "application/json"})


def _shown(address: Sequence[Any]) -> str:
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _import_libraries() -> None:
    """What takes long: off the loop."""
    for name in ("starlette.applications", "starlette.responses", "uvicorn", "uvicorn.protocols.http.h11_impl"):
        import_module(name)


def _server(app: object) -> Server:
    import uvicorn

    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # what it tells at its start is about itself

    class Quiet(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield  # signals belong to mitmproxy

    return Quiet(
        uvicorn.Config(
            app,  # type: ignore[arg-type]
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=1,
            limit_concurrency=64,
        )
    )
