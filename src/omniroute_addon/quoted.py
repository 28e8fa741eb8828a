"""Upstreams that repeat the credential in their errors: our own is taken out before anybody reads, logs or stores it.

Gateways answer `invalid key sk-…` in body or header. What the client sent itself it may see again; a configured
credential is shown to nobody (`design.md` §7.2).
"""

from __future__ import annotations

from dataclasses import replace

from .exchange import RawAnswer
from .model import Answer, Connection
from .wire import HIDDEN


def unquoted(connection: Connection, answer: Answer, raw: RawAnswer | None) -> tuple[Answer, RawAnswer | None]:
    """Both without the connection's credential; the same objects when it does not occur, or is the client's own."""
    if connection.own or connection.secret is None:
        return answer, raw
    secret, mark = connection.secret.value.encode("utf-8", "surrogateescape"), HIDDEN.encode()
    if secret in answer.body or any(connection.secret.value in value for value in answer.headers.values()):
        headers = {k: v.replace(connection.secret.value, HIDDEN) for k, v in answer.headers.items()}
        body = answer.body.replace(secret, mark)
        if raw is not None and secret in answer.body and secret not in raw.body:  # it stood in a coded body
            kept = tuple((k, v) for k, v in raw.headers if k.lower() != b"content-encoding")
            raw = replace(raw, body=body, headers=kept)
        answer = replace(answer, body=body, headers=headers)
    if raw is not None and (secret in raw.body or any(secret in value for _, value in raw.headers)):
        marked = tuple((k, v.replace(secret, mark)) for k, v in raw.headers)
        raw = replace(raw, body=raw.body.replace(secret, mark), headers=marked)
    return answer, raw
