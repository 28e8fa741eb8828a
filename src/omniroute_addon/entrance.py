"""What is decided at a request's head, before anything is dialled: who may come in, and which WebSockets are turned away."""

from __future__ import annotations

import logging

from mitmproxy.http import HTTPFlow, Response
from mitmproxy.proxy.mode_specs import RegularMode, UpstreamMode

from .agents import Caller, Refused, parse_login, recognise, shown
from .engine import Engine
from .stream.copies import meant_host, response_of
from .upgrades import is_websocket, upgrade_reply
from .wire import HIDDEN

log = logging.getLogger(__name__)

_LOGIN = "proxy-authorization"
_CHALLENGE = {"proxy-authenticate": 'Basic realm="omniroute"', "content-type": "text/plain; charset=utf-8"}
_REFUSAL = (
    b"omniroute: this proxy does not know you. Put the agent's name and token into the proxy URL: "
    b"HTTPS_PROXY=http://NAME:TOKEN@host:port\n"
)


class Entrance:
    """mitmproxy's own `proxyauth` comes first: what it has refused stays refused, whom it let in is asked for here too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def connect(self, flow: HTTPFlow) -> None:
        """A CONNECT: what it says of its client holds for every request in its tunnel."""
        if flow.response is not None:
            return
        caller = self._recognised(flow)
        if caller is not None:
            self._engine.callers.remember(flow.client_conn, caller)
        if _LOGIN in flow.request.headers:
            flow.request.headers[_LOGIN] = HIDDEN

    def request(self, flow: HTTPFlow) -> None:
        """Any other request's head. Runs for every request: mostly there is neither a demand nor a login."""
        if flow.response is not None:
            return
        if self._required or "proxyauth" in flow.metadata or _LOGIN in flow.request.headers:
            self._check(flow)
        if flow.request.method == "GET" and "upgrade" in flow.request.headers and flow.response is None:
            self._turn_websocket_away(flow, self._engine.callers.of(flow, flow.client_conn))

    def login(self, client: object, name: str, token: str) -> bool:
        """A SOCKS login that mitmproxy's `proxyauth` has let in; False refuses it."""
        try:
            caller = recognise((name, token), self._engine.core.config.agents, required=self._required)
        except Refused as why:
            log.warning("refused a client: %s", why)
            return False
        self._engine.callers.remember(client, caller)
        return True

    # ------------------------------------------------------------ inside

    @property
    def _required(self) -> bool:
        return self._engine.core.config.settings.require_agent

    def _check(self, flow: HTTPFlow) -> None:
        """What a tunnel said counts; a request outside any brings its own login, or none. A replay is the operator's own."""
        known = self._engine.callers.of(flow, flow.client_conn)
        if flow.is_replay == "request":
            return
        if known is not None:
            if self._required and not known.is_proved(self._engine.core.config.agents):
                self._refuse(flow, "its agent is no longer listed")
        elif (caller := self._recognised(flow)) is not None:
            self._engine.callers.remember(flow, caller)
            if caller.proof is not None:  # it was for us; one that is not stays, as without us
                flow.request.headers.pop(_LOGIN, None)

    def _recognised(self, flow: HTTPFlow) -> Caller | None:
        """None: refused, and the flow has its answer."""
        seen, login = flow.metadata.get("proxyauth"), None
        if isinstance(seen, (tuple, list)) and len(seen) == 2:
            login = (str(seen[0]), str(seen[1]))
        elif isinstance(flow.client_conn.proxy_mode, (RegularMode, UpstreamMode)):
            login = parse_login(flow.request.headers.get(_LOGIN, ""))
        try:
            return recognise(login, self._engine.core.config.agents, required=self._required)
        except Refused as why:
            self._refuse(flow, str(why))
            return None

    def _refuse(self, flow: HTTPFlow, why: str) -> None:
        peer = flow.client_conn.peername
        log.warning("refused a request to %s from %s: %s", shown(flow.request.host), peer[0] if peer else "?", why)
        if _LOGIN in flow.request.headers:
            flow.request.headers[_LOGIN] = HIDDEN
        flow.response = Response.make(407, _REFUSAL, _CHALLENGE)

    def _turn_websocket_away(self, flow: HTTPFlow, caller: Caller | None) -> None:
        request, host = flow.request, meant_host(flow)
        if not is_websocket(request.method, request.headers.get("upgrade", "")):
            return
        peer = flow.client_conn.peername[0] if flow.client_conn.peername else ""
        reply = upgrade_reply(
            self._engine.core,
            self._engine.plugins,
            host=host,
            port=request.port,
            path=request.path,
            headers=tuple(request.headers.fields),
            peer=peer,
            agent=caller.name if caller else None,
            trusted=self._engine.trusts(peer, caller),
        )
        if reply is not None:
            log.info("asked a client to use HTTP instead of a WebSocket: host=%s", host)
            flow.response = response_of(reply)
