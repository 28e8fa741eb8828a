"""Between mitmproxy's requests and answers and ours: what is shown, what goes on the wire, what the client gets."""

from __future__ import annotations

from base64 import b64encode

from mitmproxy import http
from mitmproxy.options import Options
from mitmproxy.proxy.mode_specs import ReverseMode

from ..exchange import Reply
from ..model import Target
from ..wire import Incoming, Outgoing, shown_headers, shown_path


def meant_host(seen: http.HTTPFlow) -> str:
    """The name that the client meant.

    In transparent mode the address stands for the `Host` that came with it; in reverse mode the operator named the host,
    whatever `keep_host_header` lets through.
    """
    host = seen.request.host
    if not host[-1:].isdigit() and ":" not in host:
        return host  # a name: nothing that came with it knows better
    return host if isinstance(seen.client_conn.proxy_mode, ReverseMode) else seen.request.pretty_host


def incoming_of(request: http.Request) -> Incoming:
    """The client's request as a value, credential included."""
    return Incoming(
        method=request.method,
        scheme=request.scheme,
        host=request.host,
        port=request.port,
        path=request.path,
        headers=tuple(request.headers.fields),
        body=request.raw_content or b"",
    )


def hide_credentials(request: http.Request) -> None:
    """From here on the flow shows marks where the client's credentials were (`design.md` §7.2)."""
    request.headers.fields = shown_headers(request.headers.fields)
    if "?" in request.path:
        request.path = shown_path(request.path)


def show_target(request: http.Request, out: Outgoing, target: Target, *, own_body: bytes) -> None:
    """Let `flow.request` show where the attempt goes and for which model, without its credential."""
    if target.connection.own:
        return
    request.data.host, request.data.port, request.scheme = out.host, out.port, out.scheme
    request.path = shown_path(out.path)
    if request.authority:
        request.authority = out.authority
    if "host" in request.headers:
        request.headers["host"] = out.authority
    if out.body is not own_body:
        request.headers.pop("content-encoding", None)
        request.raw_content = out.body


def wire_request(shown: http.Request, out: Outgoing) -> http.Request:
    """The copy that carries the credential. Built anew: `Request.copy` takes the long way through a serialised state."""
    headers, authority = out.headers, shown.authority
    if shown.is_http2 or shown.is_http3:
        headers = tuple((name, value) for name, value in headers if name.lower() != b"host")
        authority = authority or out.authority
    fields = http.Headers()
    fields.fields = headers
    return http.Request(
        host=out.host,
        port=out.port,
        method=shown.data.method,
        scheme=out.scheme.encode(),
        authority=authority.encode("idna" if not authority.isascii() else "ascii"),
        path=out.path.encode("utf-8", "surrogateescape"),
        http_version=shown.data.http_version,
        headers=fields,
        content=out.body,
        trailers=None,
        timestamp_start=shown.timestamp_start,
        timestamp_end=shown.timestamp_end,
    )


def proxy_login(options: Options) -> str:
    """What mitmproxy's `upstream_auth` says to the upstream proxy of a plain request; in a CONNECT it says it itself."""
    login = str(options.upstream_auth or "")
    return f"Basic {b64encode(login.encode()).decode()}" if login else ""


def response_of(reply: Reply) -> http.Response:
    """The engine's last answer as mitmproxy's: the body as it is, because `make` would code a coded one once more."""
    response = http.Response.make(reply.status)
    response.headers = http.Headers(reply.headers)  # not given to `make`, which would set the length of no body
    response.raw_content = reply.body
    return response


def frame_stream(request: http.Request, response: http.Response) -> None:
    """The client must see the difference between an end and a cut, and an error behind what was announced.

    So a stream's length is never told, and an HTTP/1.1 client gets it in chunks.
    """
    response.headers.pop("content-length", None)
    if request.http_version == "HTTP/1.1":
        response.headers["transfer-encoding"] = "chunked"
