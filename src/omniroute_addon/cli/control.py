"""How a command finds a running proxy and talks to it."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

import click

from omniroute_addon import places
from omniroute_addon.api import run_file
from omniroute_addon.api.run_file import RunFile
from omniroute_addon.bringup.found import MARK
from omniroute_addon.errors import OmnirouteError

from .words import lasting

_PATIENCE_S = 5.0


class NoAnswer(OmnirouteError):
    """There is no proxy to ask, there are several, or it said no. The text is for the person who typed."""


class _Stale(Exception):
    """Nobody is there, or somebody else is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A running proxy."""

    run: RunFile
    about: Mapping[str, Any]
    """What `GET /api/proxy` said."""

    @property
    def listen(self) -> tuple[str, ...]:
        """Where the proxy itself listens: `127.0.0.1:8080`."""
        return tuple(self.about.get("listen") or self.run.listen)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer's JSON. Raises NoAnswer with the proxy's own words when it refuses."""
        try:
            return _ask(self.run, method, path, body)
        except HTTPError as error:
            raise NoAnswer(_words(error)) from None
        except (_Stale, OSError, ValueError):
            raise NoAnswer("the proxy has ended, or does not answer.") from None


def control_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--state` and `--port`, and the function's argument `find`: called, it is the one proxy that is meant."""

    @functools.wraps(function)
    def command(*, state: Path | None, port: int | None, **arguments: Any) -> Any:
        return function(find=functools.partial(find_proxy, state, port), **arguments)

    command = click.option(
        "--port", type=click.IntRange(1, 65_535), help="The port on which the proxy listens, when several are running."
    )(command)
    return click.option(
        "--state",
        type=click.Path(path_type=Path),
        help="The proxy's state file (option omniroute_state) when it is not the standard one.",
    )(command)


def find_proxy(state: Path | None = None, port: int | None = None) -> Proxy:
    """The running proxy. Raises NoAnswer: none, several, or none with that port."""
    folder = places.state_file(state).parent
    running = running_proxies(folder)
    if port is not None:
        running = [p for p in running if any(address.endswith(f":{port}") for address in p.listen)]
    elif len(around := [p for p in running if _marked() in p.listen]) == 1:
        return around[0]
    if len(running) == 1:
        return running[0]
    if running:
        told = "\n".join(f"  --port {_port(p)}   {_described(p)}" for p in running)
        raise NoAnswer(f"{len(running)} proxies are running. Say which one is meant:\n{told}")
    where = f"no proxy {f'on port {port} ' if port is not None else ''}is running that keeps its state in {folder}"
    raise NoAnswer(
        f"{where}.\n  Start one with `omniroute run`. One with another state file is found with --state FILE; one with "
        "omniroute_control=off cannot be asked."
    )


def _marked() -> str:
    """Address of the proxy of the `omniroute exec` around us."""
    return os.environ.get(MARK, "").partition(" ")[0]


def running_proxies(folder: Path) -> list[Proxy]:
    """Every proxy with a run file in the state folder that answers; what is left over from others is removed."""
    found = []
    for run in run_file.read_all(folder):
        try:
            about = _ask(run, "GET", "/api/proxy", None)
            if not isinstance(about, dict) or about.get("pid") != run.pid:
                raise _Stale
            found.append(Proxy(run=run, about=about))
        except (_Stale, HTTPError, ValueError):
            if run.path is not None:
                run_file.remove(run.path)
        except OSError:
            continue  # it takes its time; it may be there the next time
    return found


def _ask(run: RunFile, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
    """Raises _Stale when nobody listens there, HTTPError, OSError (a time-out too), ValueError for what is no JSON."""
    data = json.dumps(body).encode() if body is not None else None
    request = Request(run.url + path, data=data, method=method, headers={"Authorization": f"Bearer {run.token}"})
    try:
        with _opener().open(request, timeout=_PATIENCE_S) as answer:
            return json.loads(answer.read())
    except HTTPError:
        raise
    except URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise _Stale from None
        raise


def _opener() -> OpenerDirector:
    """Without proxies: `HTTPS_PROXY` and its like name the very proxy that is asked."""
    return build_opener(ProxyHandler({}))


def _words(error: HTTPError) -> str:
    try:
        told = json.loads(error.read())
        return str(told["error"])
    except (TimeoutError, ValueError, KeyError, TypeError, OSError):
        return f"the proxy answered with status {error.code}."


def _port(proxy: Proxy) -> str:
    return proxy.listen[0].rpartition(":")[2] if proxy.listen else "?"


def _described(proxy: Proxy) -> str:
    up_s = (proxy.about["now"] - proxy.about["startedAt"]) / 1000
    return f"listening at {', '.join(proxy.listen) or 'no address'}, pid {proxy.run.pid}, up {lasting(up_s)}"
