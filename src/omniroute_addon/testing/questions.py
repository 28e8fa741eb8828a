"""Model calls as clients send them, in every dialect."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from omniroute_addon.model import DialectName

from .script import Received

_HOSTS: dict[DialectName, str] = {
    "openai-chat": "api.openai.com",
    "openai-responses": "api.openai.com",
    "anthropic-messages": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
}
_MODELS: dict[DialectName, str] = {
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.4",
    "anthropic-messages": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-flash",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request for a model: `client.request(q.method, q.path, headers=q.headers, body=q.body)`."""

    dialect: DialectName
    host: str
    path: str
    headers: dict[str, str]
    body: bytes
    method: str = "POST"

    @property
    def origin(self) -> str:
        """`https://host`, for `Client`."""
        return f"https://{self.host}"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.path}"


def question(
    dialect: DialectName = "openai-chat",
    text: str = "Say hello.",
    *,
    stream: bool = True,
    model: str | None = None,
    key: str | None = "sk-client",
    more: dict[str, Any] | None = None,
) -> Question:
    """A model call. `key` is the client's own credential, None sends none; `more` is merged into the JSON body."""
    name = model or _MODELS[dialect]
    body: dict[str, Any]
    headers = {"content-type": "application/json"}
    match dialect:
        case "openai-chat":
            path, body = "/v1/chat/completions", {"model": name, "messages": [{"role": "user", "content": text}]}
        case "openai-responses":
            path, body = "/v1/responses", {"model": name, "input": text}
        case "anthropic-messages":
            path = "/v1/messages"
            body = {"model": name, "max_tokens": 1024, "messages": [{"role": "user", "content": text}]}
            headers["anthropic-version"] = "2023-06-01"
        case "gemini":
            method = "streamGenerateContent?alt=sse" if stream else "generateContent"
            path, body = f"/v1beta/models/{name}:{method}", {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    if dialect != "gemini":
        body["stream"] = stream
    if key is not None:
        headers |= _credential(dialect, key)
    encoded = json.dumps(body | (more or {}), ensure_ascii=False).encode()
    return Question(dialect=dialect, host=_HOSTS[dialect], path=path, headers=headers, body=encoded)


def _credential(dialect: DialectName, key: str) -> dict[str, str]:
    if dialect == "anthropic-messages":
        return {"x-api-key": key}
    if dialect == "gemini":
        return {"x-goog-api-key": key}
    return {"authorization": f"Bearer {key}"}


def asked_model(request: Received) -> str:
    """The model name in a request as the upstream got it, in whichever dialect."""
    _, models, rest = request.path.partition("/models/")
    if models:
        return rest.partition(":")[0]
    return str(request.json()["model"])
