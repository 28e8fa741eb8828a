"""Values for tests of plugins: everything has a default, name only what the test is about.

    assert plugin.exclude(call=make_call(model="gpt-5.4"), targets=[make_target("a"), make_target("b")], now=0.0) == []

Factories take the fields of the value as keyword arguments and pass them on unchanged.
"""

from __future__ import annotations

import hashlib
from typing import Any

from omniroute_addon.model import (
    Answer,
    Attempt,
    Auth,
    Connection,
    Endpoint,
    Exclusion,
    ModelCall,
    Provider,
    RuleRef,
    Secret,
    Story,
    Target,
    Verdict,
)


def make_secret(value: str = "sk-test") -> Secret:
    """A credential with its digest."""
    return Secret(value=value, digest=hashlib.sha256(value.encode()).hexdigest()[:12])


def make_provider(id: str = "openai", **fields: Any) -> Provider:
    """A provider with one door, OpenAI chat."""
    host = f"api.{id}.com"
    endpoint = Endpoint(dialect="openai-chat", url=f"https://{host}/v1/chat/completions")
    defaults: dict[str, Any] = {"name": id.title(), "hosts": (host,), "category": "api_key", "endpoints": (endpoint,)}
    return Provider(**{"id": id, "auth": Auth(), **defaults, **fields})


def make_connection(id: str = "a", **fields: Any) -> Connection:
    """A connection of provider `openai` whose credential is `sk-<id>`."""
    return Connection(**{"id": id, "provider": "openai", "secret": make_secret(f"sk-{id}"), **fields})


def make_call(**fields: Any) -> ModelCall:
    """A streamed OpenAI chat call for `gpt-5.4`."""
    return ModelCall(**{"provider": "openai", "dialect": "openai-chat", "model": "gpt-5.4", "stream": True, **fields})


def make_target(connection: Connection | str = "a", **fields: Any) -> Target:
    """A target; a string makes the connection of that id."""
    if isinstance(connection, str):
        connection = make_connection(connection)
    defaults = {
        "dialect": "openai-chat",
        "url": "https://api.openai.com/v1/chat/completions",
        "model": "gpt-5.4",
        "auth": Auth(),
    }
    return Target(**{"connection": connection, **defaults, **fields})


def make_attempt(target: Target | None = None, **fields: Any) -> Attempt:
    """The first attempt."""
    return Attempt(**{"number": 1, "target": target or make_target(), "tries": 1, "started_at": 0.0, **fields})


def make_answer(status: int = 429, body: bytes | str = b"", **fields: Any) -> Answer:
    """What an upstream said; text is encoded. Header names must be lower case, as the proxy gives them."""
    return Answer(**{"status": status, "body": body.encode() if isinstance(body, str) else body, **fields})


def make_verdict(kind: str = "rate_limit", **fields: Any) -> Verdict:
    """A verdict that sends the request elsewhere."""
    defaults = {
        "scope": "connection",
        "retry_other": True,
        "terminal": False,
        "breaker": False,
        "status": 429,
        "reason": kind,
        "rule": RuleRef(id="test"),
    }
    return Verdict(**{"kind": kind, **defaults, **fields})


def make_story(attempt: Attempt | None = None, **fields: Any) -> Story:
    """A failed first attempt."""
    defaults = {"answer": make_answer(), "verdict": make_verdict(), "ended_at": 1.0}
    return Story(**{"attempt": attempt or make_attempt(), **defaults, **fields})


def make_exclusion(target: Target | None = None, **fields: Any) -> Exclusion:
    """A target taken out for `connection_cooldown`."""
    return Exclusion(**{"target": target or make_target(), "label": "connection_cooldown", **fields})
