"""A second, small mitmproxy addon: names the client that refused our certificate, and the variable that it needs (`A39`)."""

from __future__ import annotations

import base64
import binascii
import logging
from pathlib import Path

from mitmproxy import ctx
from mitmproxy.connection import Client
from mitmproxy.http import HTTPFlow
from mitmproxy.tls import TlsData

from .bringup.programs import Programs
from .bringup.refused_certificates import RefusedCertificates
from .clients.book import ClientBook
from .model import ClientProfile

log = logging.getLogger(__name__)


class CertificateHelp:
    """One per mitmproxy. Comes before the addon that hides what a client logged in with: it keeps the name only."""

    name = "omniroute_certificates"

    def __init__(self) -> None:
        self._refused = RefusedCertificates()

    def http_connect(self, flow: HTTPFlow) -> None:
        user = _user(flow)
        name = user or flow.request.headers.get("user-agent", "").partition(" ")[0].partition("/")[0]
        self._refused.connected(flow.client_conn.id, name=name, program=_program(flow, user))

    def client_disconnected(self, client: Client) -> None:
        self._refused.gone(client.id)

    def tls_failed_client(self, data: TlsData) -> None:
        host = data.conn.sni or (data.context.server.address or ("an unknown host",))[0]
        confdir = Path(ctx.options.confdir).expanduser()
        told = self._refused.refused(data.context.client.id, host=host, error=data.conn.error or "", confdir=confdir)
        if told and ctx.options.omniroute_enabled:
            log.warning("%s", told)


def _program(flow: HTTPFlow, user: str) -> ClientProfile | None:
    """By the name that `omniroute exec` gave it, else by the headers of its CONNECT."""
    ours = ctx.master.addons.get("omniroute")  # type: ignore[no-untyped-call]
    if ours is None or ours.engine is None:
        return None
    clients: ClientBook = ours.engine.core.clients
    named = Programs(clients.profiles.values()).by_id.get(user)
    if named is not None:
        return named
    fields = {name.lower(): value for name, value in flow.request.headers.fields}
    found = clients.recognise(fields, host=flow.request.host, agent=user or None)
    return found if found.start is not None else None


def _user(flow: HTTPFlow) -> str:
    """The name before the colon of the proxy login; the rest is never kept."""
    login = flow.metadata.get("proxyauth")
    if login:
        return str(login[0])
    scheme, _, coded = flow.request.headers.get("proxy-authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(coded, validate=True).decode("utf-8", "replace").partition(":")[0]
    except (binascii.Error, ValueError):
        return ""
