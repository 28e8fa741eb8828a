"""From the client's request to the copy that goes on the wire: address, credential, headers, body.

The credential of a connection exists in the copy only. What the flow shows is `shown_headers`: the same request with
every credential replaced by a mark, so that no dump, log or mitmweb ever holds one (`design.md` §7.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from .content_coding import decode
from .model import Auth, Secret, Target
from .secrets import secret_of

Headers = tuple[tuple[bytes, bytes], ...]

CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key"})
"""Headers that carry a credential for a provider, whichever provider (`clients.md`, 1)."""
_OWN_SECRETS = CREDENTIAL_HEADERS | {b"cookie"}
"""What only the client's own connection is sent."""
SECRET_HEADERS = _OWN_SECRETS | {b"proxy-authorization"}
"""What no plugin, flow or log may see."""
CREDENTIAL_QUERY = frozenset({"key", "api_key", "api-key", "access_token"})
_BOUND_TO_ACCOUNT = frozenset(
    {
        b"chatgpt-account-id",
        b"x-openai-account-routing-override",
        b"openai-organization",
        b"openai-project",
        b"x-goog-user-project",
    }
)
"""Headers that name the client's account: wrong, or a secret, at any other (`clients.md`, 11)."""
_HANDED_OUT = frozenset({b"x-codex-turn-state"})
"""Headers that repeat what the last answer gave the client: they mean something to the account that gave it, only."""
_HOP_BY_HOP = frozenset(
    {b"connection", b"proxy-connection", b"keep-alive", b"te", b"transfer-encoding", b"upgrade", b"trailer", b"expect"}
    | {b"proxy-authorization", b"proxy-authenticate"}
)
_CONTROL = frozenset({b"x-session-id", b"x-codex-session-id"})
"""Besides `x-omniroute-*`: session headers that are meant for us and never go upstream (`SA-55`)."""
MAX_BODY_BYTES = 256 * 1024 * 1024
"""A decoded request body above this is not read: the request passes as it is."""
_MARK = b"[omniroute: "
HIDDEN = "[omniroute: hidden]"
"""Stands where a secret was."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Incoming:
    """The client's request as it came, with its credential."""

    method: str
    scheme: str
    host: str
    """Where the client wanted to go; an IP address in transparent mode."""
    port: int
    path: str
    """Origin form, with query."""
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        return (
            f"<Incoming {self.method} {self.scheme}://{self.host}:{self.port}{_bare(self.path)} bytes={len(self.body)}>"
        )

    def header(self, name: bytes) -> str:
        """First value, or the empty string."""
        return next((v.decode("utf-8", "replace") for k, v in self.headers if k.lower() == name), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What of a request belongs to one account."""

    headers: frozenset[bytes] = frozenset()
    """Names, lower case, of headers that belong to the client's own account; from its profile."""
    to: str | None = None
    """Id of the connection that gave the conversation its last answer; None: unknown, so it may be the client's own."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Outgoing:
    """The copy for one attempt."""

    scheme: str
    host: str
    port: int
    path: str
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        return f"<Outgoing {self.scheme}://{self.authority}{_bare(self.path)} bytes={len(self.body)}>"

    @property
    def authority(self) -> str:
        """As in `Host`: without the port where it is the scheme's own."""
        default = self.port == (443 if self.scheme == "https" else 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if default else f"{host}:{self.port}"


def decoded_body(incoming: Incoming) -> bytes:
    """The body without its content coding. ValueError when it cannot be read."""
    return decode(incoming.body, incoming.header(b"content-encoding"), limit=MAX_BODY_BYTES)


def client_secret(incoming: Incoming) -> Secret | None:
    """The credential that the client sent, from wherever it put it; None when it sent none (or only our mark)."""
    for name, value in incoming.headers:
        if name.lower() in CREDENTIAL_HEADERS and value and _MARK not in value:
            text = value.decode("utf-8", "surrogateescape")
            return secret_of(text.split(" ", 1)[1].strip() if " " in text.strip() else text.strip())
    for parameter, text in _query(incoming.path):
        if parameter in CREDENTIAL_QUERY and text:
            return secret_of(text)
    return None


def shown_headers(headers: Headers) -> Headers:
    """The headers with every credential replaced by a mark that names its digest."""

    def mark(name: bytes, value: bytes) -> bytes:
        lower = name.lower()
        if lower in CREDENTIAL_HEADERS and _MARK not in value:
            scheme, _, rest = value.rpartition(b" ")
            shown = _MARK + f"client credential {secret_of(rest.decode('utf-8', 'surrogateescape')).digest}]".encode()
            return scheme + b" " + shown if scheme else shown
        if lower in SECRET_HEADERS and _MARK not in value:
            return HIDDEN.encode()
        return value

    return tuple((name, mark(name, value)) for name, value in headers)


def shown_path(path: str) -> str:
    """The path without credentials in its query."""
    head, mark, query = path.partition("?")
    if not mark:
        return path
    kept = "&".join(p for p in query.split("&") if p.partition("=")[0].lower() not in CREDENTIAL_QUERY)
    return f"{head}?{kept}" if kept else head


def outgoing(
    incoming: Incoming,
    *,
    target: Target,
    body: bytes,
    stream: bool,
    changes: Mapping[str, str | None] | None = None,
    bound: Bound = Bound(),
) -> Outgoing:
    """The request for one attempt.

    It goes to `target.url`, with the client's query; the client's own connection keeps the client's address. `body` is
    the client's own bytes object while nothing had to change, else the decoded and edited bytes. `changes` are what
    plugins set (text) or deleted (None), by lower-case name.
    """
    own = target.connection.own
    seen = visible_headers(incoming, target=target, bound=bound)
    headers = [(k, v) for k, v in seen if not changes or _lower(k) not in changes]
    headers += [(k.encode("latin-1"), v.encode("utf-8")) for k, v in (changes or {}).items() if v is not None]
    if body is incoming.body and (coding := incoming.header(b"content-encoding")):
        headers.append((b"content-encoding", coding.encode("latin-1")))
    if stream:
        # A compressed stream cannot be watched frame by frame nor mended at its end (clients.md, section 6).
        headers = [(k, v) for k, v in headers if k.lower() != b"accept-encoding"] + [(b"accept-encoding", b"identity")]
    headers.append((b"content-length", str(len(body)).encode()))
    if own:
        headers += [(k, v) for k, v in incoming.headers if k.lower() in _OWN_SECRETS and _MARK not in v]
        host = [(k, v) for k, v in incoming.headers if k.lower() == b"host"]
        return Outgoing(
            scheme=incoming.scheme,
            host=incoming.host,
            port=incoming.port,
            path=incoming.path,
            headers=(*host, *headers),
            body=body,
        )
    parts = urlsplit(target.url)
    query = _merged_query(parts.query, incoming.path)
    if target.connection.secret is not None:
        query, headers = _with_credential(target.auth, target.connection.secret, query, headers)
    out = Outgoing(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or (443 if parts.scheme == "https" else 80),
        path=(parts.path or "/") + query,
        headers=(),
        body=body,
    )
    return replace(out, headers=((b"host", out.authority.encode("idna")), *headers))


def repeats_an_answer(incoming: Incoming) -> bool:
    """Whether it matters which connection gave the client its last answer."""
    return any(name.lower() in _HANDED_OUT for name, _ in incoming.headers)


def visible_headers(incoming: Incoming, *, target: Target, bound: Bound = Bound()) -> Headers:
    """The client's headers as far as they may travel to the target.

    No credential, no control or hop-by-hop header, and nothing that belongs to another account than the target's.
    """
    own = target.connection.own
    named = {t.strip().lower().encode() for t in incoming.header(b"connection").split(",")}
    gone = _HOP_BY_HOP | _CONTROL | SECRET_HEADERS | named | {b"host", b"content-length", b"content-encoding"}
    if not own:
        gone |= _BOUND_TO_ACCOUNT | (bound.headers - _HANDED_OUT)
    if bound.to != target.connection.id and not (own and bound.to is None):
        gone |= _HANDED_OUT
    kept = [
        (name, value)
        for name, value in incoming.headers
        if (lower := name.lower()) not in gone and not lower.startswith(b"x-omniroute-")
    ]
    kept = _relisted(kept, target)
    present = {_lower(name) for name, _ in kept}
    kept += [
        (name.encode("latin-1"), value.encode("utf-8"))
        for name, value in target.headers.items()
        if name.lower() not in present
    ]
    return tuple(kept)


def _relisted(headers: list[tuple[bytes, bytes]], target: Target) -> list[tuple[bytes, bytes]]:
    """List headers with what the target's login needs on them, and without what belongs to another login."""
    touched = {*target.listed, *target.unlisted}
    if not touched:
        return headers
    kept = [(name, value) for name, value in headers if _lower(name) not in touched]
    for header in sorted(touched):
        said = (v.decode("latin-1") for k, v in headers if _lower(k) == header)
        items = [item.strip() for value in said for item in value.split(",")]
        items = [item for item in items if item and item not in target.unlisted.get(header, ())]
        needed = target.listed.get(header)
        if needed and needed not in items:
            items.append(needed)
        if items:
            kept.append((header.encode("latin-1"), ",".join(items).encode("latin-1")))
    return kept


def as_mapping(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Header fields as `Answer.headers` and plugins want them: lower-case names, repeated ones joined."""
    out: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1").lower(), value.decode("utf-8", "replace")
        out[key] = f"{out[key]}, {text}" if key in out else text
    return out


def _with_credential(
    auth: Auth, secret: Secret, query: str, headers: list[tuple[bytes, bytes]]
) -> tuple[str, list[tuple[bytes, bytes]]]:
    if auth.query:
        return f"{query}{'&' if query else '?'}{auth.query}={secret.value}", headers
    value = f"{auth.scheme} {secret.value}" if auth.scheme else secret.value
    return query, [*headers, (auth.header.lower().encode("latin-1"), value.encode("utf-8", "surrogateescape"))]


def _bare(path: str) -> str:
    return path.partition("?")[0]


def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


def _query(path: str) -> list[tuple[str, str]]:
    return [(n.lower(), v) for p in path.partition("?")[2].split("&") if p for n, _, v in [p.partition("=")]]


def _merged_query(ours: str, client_path: str) -> str:
    """The client's query after the endpoint's own, without credentials: they belong to the client's own connection."""
    fixed = {p.partition("=")[0] for p in ours.split("&")}
    kept = [
        p
        for p in client_path.partition("?")[2].split("&")
        if p and p.partition("=")[0].lower() not in CREDENTIAL_QUERY and p.partition("=")[0] not in fixed
    ]
    merged = "&".join([p for p in ours.split("&") if p] + kept)
    return f"?{merged}" if merged else ""
