"""A client that wants a WebSocket at a model's door: what it is told. Pure.

Nothing can be sent again inside a WebSocket, so a connection that fails there takes its agent along. Codex, which opens
one first, goes over to HTTP with an event stream at once when the upgrade is answered with 426 (`clients.md`, 9).
"""

from __future__ import annotations

from .core import Core
from .dialects import ClientError, dialect
from .exchange import Reply
from .final_answer import CODES
from .model import ModelCall
from .plugin_host import PluginHost
from .wire import Headers

_CODE = "websocket_not_offered"


def is_websocket(method: str, upgrade: str) -> bool:
    """Method and `Upgrade` header of a request that opens a WebSocket over HTTP/1.1."""
    return method == "GET" and "websocket" in (word.strip().lower() for word in upgrade.split(","))


def upgrade_reply(
    core: Core,
    plugins: PluginHost,
    *,
    host: str,
    port: int,
    path: str,
    headers: Headers,
    peer: str | None,
    agent: str | None,
    trusted: bool,
) -> Reply | None:
    """The refusal of a WebSocket at this address; None where it passes: no model's door, or nobody wants it refused."""
    found = core.packs.match_call(host, port, path)
    if found is None or not plugins.listens("upgrade"):
        return None
    provider, endpoint = found
    fields = {name.lower(): value for name, value in headers}
    profile = core.clients.recognise(fields, host=host, path=path, agent=agent)
    call = ModelCall(
        provider=provider.id,
        dialect=endpoint.dialect,
        model="",
        stream=True,
        client=peer,
        client_profile=profile.id,
        agent=agent,
        trusted=trusted,
    )
    alternatives = trusted and core.config.has_alternatives(call, core.packs)
    if not plugins.first("upgrade", call=call, alternatives=alternatives):
        return None
    speech, status = dialect(endpoint.dialect), profile.websocket_refusal or 426
    body = speech.error_body(ClientError(status=status, code=_CODE, type="invalid_request_error", message=CODES[_CODE]))
    said: Headers = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    if status == 426:  # RFC 9110 15.5.22: it names what would be taken
        said = (*said, (b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade"))
    return Reply(status=status, headers=said, body=body)
