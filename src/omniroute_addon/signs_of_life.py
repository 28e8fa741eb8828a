"""What a client is sent while nothing is decided, and an error for one that has its head already (`A34`). Pure."""

from __future__ import annotations

from .content_coding import decode_leniently
from .decisions import JUDGED_BYTES
from .dialects import ClientError
from .exchange import Exchange, Reply
from .settings import Settings
from .wire import Headers, as_mapping

_COMMENT = b": omniroute keeps trying\n\n"
_PING = b'event: ping\ndata: {"type": "ping"}\n\n'
HEAD: Headers = ((b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"))
"""Of the answer that is begun before anybody has given one. It has status 200."""


def sign_of_life(ex: Exchange, settings: Settings) -> bytes:
    """One whole frame that means nothing to this client; empty where nothing may be sent (`CW-38`, `ST-58`).

    The operator must want it, the call must be a stream, and the client must be known to bear it before the decision.
    """
    if not settings.cooldown_wait.keep_alive or not ex.call.stream or not ex.profile.early_keep_alive:
        return b""
    return {"comment": _COMMENT, "ping": _PING}.get(ex.profile.bears(ex.call.dialect), b"")


def error_inside(ex: Exchange, reply: Reply) -> bytes:
    """The frames that tell a final answer inside a stream, with its own words, in the call's dialect."""
    body = decode_leniently(reply.body, as_mapping(reply.headers).get("content-encoding", ""), limit=JUDGED_BYTES)
    problem = ex.dialect.judge_body(body)
    if problem is not None and problem.kind == "error":
        message, code = problem.fault.message, problem.fault.code
    else:
        message, code = body.decode("utf-8", "replace")[:500] or f"status {reply.status}", ""
    return ex.dialect.stream_error(ClientError(status=reply.status, message=message, code=code))
