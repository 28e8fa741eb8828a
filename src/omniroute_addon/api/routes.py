"""The routes of the management API: `spec/01`, `spec/03`, `spec/04`, and what our own commands need beside them.

Every handler runs on the proxy's event loop, where the mechanisms live. What a person clears is answered only after it has
reached the disk, and that wait is spent in a worker thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from omniroute_addon import steering
from omniroute_addon.engine import Engine
from omniroute_addon.model import Cleared, ResetOrder, Timer
from omniroute_addon.provider_failure import provider_key
from omniroute_addon.steering import Names

from . import views
from .bodies import flag, read_object, text, texts
from .refusals import HEADERS, Refusal, unknown_name

log = logging.getLogger(__name__)
PARTS = ("provider", "connection", "model", "all")
_MOST_REQUESTS = 1_000
_COOLDOWNS, _LOCKS = "/api/resilience/cooldowns", "/api/resilience/model-cooldowns"
ROUTES: tuple[tuple[str, str, str, str], ...] = (
    ("GET", "/api/proxy", "proxy", "which proxy this is: pid, version, addresses"),
    ("GET", "/api/status", "status", "everything that is held back, and why"),
    ("POST", "/api/reset", "reset", "end what a person names, also a terminal state"),
    ("GET", "/api/requests", "requests", "the last requests"),
    ("GET", "/api/requests/{id}", "request", "one request: every candidate, attempt and exclusion"),
    ("GET", "/api/monitoring/health", "health", "every circuit breaker and provider cooldown (CB-67)"),
    ("POST", "/api/resilience/reset", "reset_breakers", "close circuit breakers (CB-68)"),
    ("GET", _COOLDOWNS, "cooldowns", "connections that are out of routing (ML-60)"),
    ("POST", _COOLDOWNS, "clear_cooldowns", "end cooldowns and locks of connections (ML-61)"),
    ("GET", _LOCKS, "model_cooldowns", "every model that is locked (ML-57)"),
    ("DELETE", _LOCKS, "clear_models", "remove locks of models (ML-58)"),
)
"""Method, path, method of `Api`, meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The proxy itself."""

    pid: int
    version: str
    started_at: float
    listen: Callable[[], tuple[str, ...]]
    confdir: Path | None = None
    """Where its certificates are."""
    owner: int | None = None
    """The process that it was started for alone (`omniroute exec`), and ends with; None: it is for everybody."""


class Api:
    """Handlers over one engine."""

    def __init__(self, engine: Engine, about: About) -> None:
        self._engine = engine
        self._about = about

    def app(self) -> Starlette:
        """The ASGI application, without its guard."""
        routes = [Route(path, getattr(self, name), methods=[method]) for method, path, name, _ in ROUTES]
        handlers: dict[Any, Any] = {Refusal: _refused, HTTPException: _http_error, Exception: _our_fault}
        return Starlette(routes=routes, exception_handlers=handlers)

    # ------------------------------------------------------------ seeing

    async def proxy(self, request: Request) -> Response:
        """Who is this."""
        return _json(self._proxy())

    async def status(self, request: Request) -> Response:
        """Everything that `omniroute status` draws."""
        core, shown, now = self._engine.core, self._shown(), self._now
        return _json(
            {
                "proxy": self._proxy(),
                "store": {"trouble": core.store.trouble or None},
                "plugins": [
                    {"name": p.name, "state": p.state, "detail": p.detail or None}
                    for p in self._engine.plugins.plugins()
                    if p.state in ("quarantined", "broken")
                ],
                "providers": views.providers(core, shown),
                "connections": views.connections(core, shown),
                "timers": [views.timer_row(timer, now) for timer in shown],
            }
        )

    async def health(self, request: Request) -> Response:
        """`CB-67`: every known breaker."""
        shown = self._shown()
        lists = {n: [t.row for t in shown if t.listed == n] for n in ("circuitBreakers", "providerCooldowns")}
        degraded = any(t.listed == "circuitBreakers" and t.state != "CLOSED" for t in shown)
        return _json({"status": "degraded" if degraded else "ok", **lists})

    async def cooldowns(self, request: Request) -> Response:
        """`ML-60`."""
        provider = request.query_params.get("provider")
        shown = self._shown()
        if provider is not None:
            self._check_provider(provider, shown)
        return _json({"connections": views.cooldowns(shown, provider)})

    async def model_cooldowns(self, request: Request) -> Response:
        """`ML-57`: longest remaining first."""
        items = [t.row for t in self._shown() if t.listed == "modelCooldowns"]
        items.sort(key=lambda row: -row.get("remainingMs", 0))
        return _json({"items": items, "slowStartStates": []})

    async def requests(self, request: Request) -> Response:
        """Newest first; `eventful=true` leaves out those that succeeded at once."""
        given = request.query_params.get("limit", "20")
        if not (given.isascii() and given.isdigit() and 1 <= int(given) <= _MOST_REQUESTS):
            raise Refusal(400, "bad_query", f"'limit' is no number from 1 to {_MOST_REQUESTS}.")
        eventful = request.query_params.get("eventful", "false")
        if eventful not in ("true", "false"):
            raise Refusal(400, "bad_query", "'eventful' is neither true nor false.")
        return _json({"requests": self._engine.history.recent(int(given), eventful=eventful == "true")})

    async def request(self, request: Request) -> Response:
        """One request by its id."""
        id = request.path_params["id"]
        found = self._engine.history.find(id)
        if found is None:
            raise unknown_name("request", id, (r["id"] for r in self._engine.history.recent(_MOST_REQUESTS)))
        return _json(found)

    # ------------------------------------------------------------ steering

    async def reset_breakers(self, request: Request) -> Response:
        """`CB-68`, `CB-69`, `CB-70`, `PC-29`."""
        body = await read_object(request, "provider", needed=False)
        provider = text(body, "provider")
        if provider is not None:
            self._check_provider(provider, self._shown())
        cleared = await self._clear(ResetOrder(part="provider", provider=provider))
        count = sum(entry.part == "provider" and entry.mechanism == "circuit_breaker" for entry in cleared)
        return _json({"ok": True, "resetCount": count, "message": f"Reset {count} circuit breaker(s)"})

    async def clear_cooldowns(self, request: Request) -> Response:
        """`ML-61` to `ML-63`: terminal connections stay as they are, and so do their locks."""
        body = await read_object(request, "connectionIds", "all", "provider")
        ids, provider, shown = texts(body, "connectionIds"), text(body, "provider"), self._shown()
        names = Names(self._engine.core, shown)
        if flag(body, "all"):
            if provider is not None:
                self._check_provider(provider, shown)
            chosen = set(names.of_provider(provider))
        elif ids is not None:
            chosen = set(ids) & set(names.of_provider(provider))
        else:
            raise Refusal(400, "bad_body", "name the connections in 'connectionIds', or say {\"all\": true}.")
        out = steering.terminal(shown, chosen)
        cleared = await self._clear(ResetOrder(part="connection", connections=frozenset(chosen - out)))
        done = {entry.connection for entry in cleared}
        return _json(
            {
                "cleared": len(done),
                "unchanged": len(chosen - out - done),
                "skippedTerminal": len(out),
                "lockoutsCleared": sum(entry.part == "model" for entry in cleared),
            }
        )

    async def clear_models(self, request: Request) -> Response:
        """`ML-58`, `ML-59`."""
        body = await read_object(request, "provider", "connection", "connectionId", "model", "all")
        connection = text(body, "connection") or text(body, "connectionId")
        model, provider = text(body, "model"), text(body, "provider")
        if not flag(body, "all") and model is None:
            raise Refusal(400, "bad_body", "name the 'model', or say {\"all\": true}.")
        chosen = frozenset({connection}) if connection is not None else None
        order = ResetOrder(part="model", provider=provider, connections=chosen, model=model)
        if flag(body, "all"):
            order = ResetOrder(part="model")
        return _json({"ok": True, "cleared": len(await self._clear(order))})

    async def reset(self, request: Request) -> Response:
        """What a person named: also a terminal state, when the connection and `terminal` are named (`CC-55`)."""
        body = await read_object(request, "part", "name", "connection", "provider", "terminal")
        order = self._order(body, self._shown())
        left = steering.terminal(self._shown(), order.connections) if not order.terminal else set()
        if order.part == "connection":  # as `ML-62`: who stays out keeps its locks as well
            chosen = order.connections or frozenset(Names(self._engine.core, self._shown()).of_provider(order.provider))
            order = ResetOrder(part="connection", connections=chosen - left, terminal=order.terminal)
        cleared = await self._clear(order)
        rows = [
            {"part": c.part, "mechanism": c.mechanism, "provider": c.provider, "connectionId": c.connection}
            | {"model": c.model}
            for c in cleared
        ]
        about_connections = order.part in ("connection", "all")
        return _json({"ok": True, "cleared": rows, "skippedTerminal": sorted(left) if about_connections else []})

    def _order(self, body: dict[str, Any], shown: list[Timer]) -> ResetOrder:
        part, name, terminal = text(body, "part"), text(body, "name"), flag(body, "terminal")
        connection, provider = text(body, "connection"), text(body, "provider")
        names = Names(self._engine.core, shown)
        if part not in PARTS:
            raise Refusal(400, "bad_body", f"'part' must be one of {', '.join(PARTS)}.")
        if (name is None) != (part == "all"):
            raise Refusal(
                400, "bad_body", "'name' says which provider, connection or model; with \"all\" there is none."
            )
        if terminal and part != "connection":
            raise Refusal(400, "bad_body", "'terminal' goes with one connection by its name.")
        if provider is not None:
            self._check_provider(provider, shown)
        if part == "provider":
            self._check_provider(name or "", shown)
            return ResetOrder(part="provider", provider=name)
        for wanted in (name if part == "connection" else None, connection):
            if wanted is not None and wanted not in names.connections:
                raise unknown_name("connection", wanted, names.connections)
        if part == "connection":
            return ResetOrder(part="connection", connections=frozenset({name or ""}), terminal=terminal)
        if part == "model" and name not in names.models:
            raise unknown_name("model", name or "", names.models)
        chosen = frozenset({connection}) if connection is not None else None
        if part == "model":
            return ResetOrder(part="model", model=name, connections=chosen, provider=provider)
        return ResetOrder(part="all", provider=provider)

    # ------------------------------------------------------------ inside

    @property
    def _now(self) -> float:
        return self._engine.core.clock.now()

    def _shown(self) -> list[Timer]:
        return steering.timers(self._engine.core, self._engine.plugins)

    def _proxy(self) -> dict[str, Any]:
        about = self._about
        started, now = round(about.started_at * 1000), round(self._now * 1000)
        listen = [*about.listen()]
        more = {"confdir": str(about.confdir) if about.confdir else None, "owner": about.owner}
        return {"pid": about.pid, "version": about.version, "startedAt": started, "now": now, "listen": listen, **more}

    def _check_provider(self, provider: str, shown: list[Timer]) -> None:
        known = Names(self._engine.core, shown).providers
        if provider_key(provider) not in known:
            raise unknown_name("provider", provider, known)

    async def _clear(self, order: ResetOrder) -> list[Cleared]:
        cleared = steering.reset(self._engine.core, self._engine.plugins, order)
        if cleared:
            await asyncio.to_thread(self._engine.core.store.flush)
        return cleared


def _json(value: Any) -> JSONResponse:
    return JSONResponse(value, headers=HEADERS)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = "method_not_allowed" if error.status_code == 405 else "unknown_route"
    return Refusal(error.status_code, code).response()


async def _our_fault(request: Request, error: Exception) -> Response:
    log.error("the control endpoint failed on %s %s", request.method, request.url.path, exc_info=error)
    return Refusal(500, "internal_error").response()
