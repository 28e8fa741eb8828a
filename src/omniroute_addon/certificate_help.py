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

from .bringup.refused_certificates import RefusedCertificates

log = logging.getLogger(__name__)


class CertificateHelp:
    """One per mitmproxy. Comes before the addon that hides what a client logged in with: it keeps the name only."""

    name = "omniroute_certificates"

    def __init__(self) -> None:
        self._refused = RefusedCertificates()

    def http_connect(self, flow: HTTPFlow) -> None:
        user_agent = flow.request.headers.get("user-agent", "")
        self._refused.connected(flow.client_conn.id, user_agent=user_agent, user=_user(flow))

    def client_disconnected(self, client: Client) -> None:
        self._refused.gone(client.id)

    def tls_failed_client(self, data: TlsData) -> None:
        host = data.conn.sni or (data.context.server.address or ("an unknown host",))[0]
        confdir = Path(ctx.options.confdir).expanduser()
        told = self._refused.refused(data.context.client.id, host=host, error=data.conn.error or "", confdir=confdir)
        if told and ctx.options.omniroute_enabled:
            log.warning("%s", told)


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
