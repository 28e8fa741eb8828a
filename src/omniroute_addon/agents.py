"""Who is calling: the proxy user and password that every client sends unasked name the agent (`clients.md`, 16).

`HTTPS_PROXY=http://NAME:TOKEN@host:port` is all that an agent needs. The name stands in logs and keeps its conversations
together; where the operator lists agents, the token proves it, and a peer from another machine may then use configured
credentials (`design.md` §7.1). Of a token only its SHA-256 is kept. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_NOBODYS = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who a client says it is."""

    name: str | None = None
    """None is anonymous."""
    proof: bytes | None = field(default=None, repr=False)
    """SHA-256 of the token that proved the name; None when nothing did."""

    def is_proved(self, agents: Mapping[str, bytes | None]) -> bool:
        """It still holds: the operator may have taken the agent or its token away since."""
        return self.proof is not None and self.name is not None and agents.get(self.name) == self.proof


ANONYMOUS = Caller()


class Refused(Exception):
    """This caller must not use the proxy; the text says why, without the token."""


def is_agent_name(name: str) -> bool:
    """May stand in a configuration, a log line and a URL."""
    return _NAME.fullmatch(name) is not None


def token_hash(token: str) -> bytes:
    """SHA-256 of a token, all that is kept of it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def parse_login(value: str) -> tuple[str, str] | None:
    """User and password of a `Proxy-Authorization: Basic …`; None for anything else."""
    scheme, _, coded = value.strip().partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        text = base64.b64decode(coded.strip(), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None
    name, colon, password = text.partition(":")
    return (name, password) if colon else None


def recognise(login: tuple[str, str] | None, agents: Mapping[str, bytes | None], *, required: bool) -> Caller:
    """The caller of this user and password. Raises `Refused`.

    A name that the operator listed needs its token, always; an unlisted name, or none, is fine unless agents are
    required. A listed agent whose token cannot be looked up (None) is refused: its name must not be free for all.
    """
    name, token = login or ("", "")
    known = agents.get(name)
    # Always one hash and one comparison in constant time: how long it takes says nothing about name or token.
    fits = hmac.compare_digest(token_hash(token), known or _NOBODYS)
    if known is not None and fits:
        return Caller(name=name, proof=known)
    if name in agents:
        raise Refused(f"wrong token for agent '{name}'")
    if required:
        raise Refused(f"unknown agent '{shown(name)}'" if name else "no agent named")
    return Caller(name=name) if is_agent_name(name) else ANONYMOUS


def shown(name: str) -> str:
    """A name from outside for the log: on one line and short."""
    return "".join(c if c.isprintable() else "?" for c in name[:64])


class Callers:
    """Who said what: by client connection what its CONNECT or SOCKS login named, by request what that named itself."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[object, Caller] = WeakKeyDictionary()

    def remember(self, place: object, caller: Caller) -> None:
        """`place`: a client connection that carries others' requests, or one request."""
        self._known[place] = caller

    def of(self, request: object, connection: object) -> Caller | None:
        """None when neither ever said anything."""
        return self._known.get(connection) or self._known.get(request)
