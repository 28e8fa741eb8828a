"""Who may ask the control endpoint: somebody on this machine who has read the run file, and no web page.

The listener is bound to loopback. `Host` is checked against a name that a stranger's DNS points here (rebinding),
`Origin` against pages in a local browser, the token against everybody else. A request that came through the proxy
itself is recognised by the address from which our own proxy dialled, whatever name it had been given.
"""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from .refusals import Refusal


class Doorkeeper:
    """What the guard knows. One per endpoint."""

    def __init__(self, *, token: str, port: int) -> None:
        self._token = token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.port = port
        self.dialled: set[tuple[str, int]] = set()
        """Addresses from which the proxy itself has connected to this endpoint."""

    def __repr__(self) -> str:
        return f"<Doorkeeper port={self.port}>"

    def check(self, *, peer: tuple[str, int] | None, headers: list[tuple[bytes, bytes]]) -> Refusal | None:
        """Why not, or None. `headers` have lower-case names."""
        if peer is not None and (peer[0], peer[1]) in self.dialled:
            return Refusal(403, "through_the_proxy")
        if _only(headers, b"host").lower() not in self._hosts:
            return Refusal(403, "host_not_allowed")
        origins = [value for name, value in headers if name == b"origin"]
        if any(value.decode("latin-1").lower().removeprefix("http://") not in self._hosts for value in origins):
            return Refusal(403, "origin_not_allowed")
        scheme, _, given = _only(headers, b"authorization").partition(" ")
        known = scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        return None if known else Refusal(401, "unauthorized")


class Guard:
    """ASGI middleware around everything."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no web sockets, no lifespan
        peer = scope.get("client")
        refusal = self._doorkeeper.check(peer=tuple(peer[:2]) if peer else None, headers=scope["headers"])
        if refusal is not None:
            await refusal.response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _only(headers: list[tuple[bytes, bytes]], name: bytes) -> str:
    """The header's value; empty when it is missing or said twice."""
    found = [value for key, value in headers if key == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""
