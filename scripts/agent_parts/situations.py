"""What the fake provider does: issue 5's situations, for each account and each request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from omniroute_addon.model import DialectName
from omniroute_addon.testing.answers import error, error_in_stream, good
from omniroute_addon.testing.faults import cut
from omniroute_addon.testing.script import Close, Received, Reply, Reset, json_reply

MARK: Final = "pineapple"
TEXT: Final = f"Hello there, dear friend, the secret word of this very long day is {MARK} and that is all."
BUSY_S: Final = 20
LONG_S: Final = 3600
FIRST: Final = ("sk-pool-a", "sk-agent-own")
"""The account that has the trouble: the first of the pool, and without the addon the agent's own."""
SIDE_HOSTS: Final = (
    "github.com", "api.github.com", "raw.githubusercontent.com", "chatgpt.com", "ab.chatgpt.com", "auth.openai.com",
    "play.googleapis.com", "oauth2.googleapis.com", "cloudcode-pa.googleapis.com", "models.opencode.ai", "models.dev",
    "opencode.ai", "registry.npmjs.org", "downloads.claude.ai", "storage.googleapis.com", "statsig.anthropic.com",
    "mcp-proxy.anthropic.com", "http-intake.logs.us5.datadoghq.com",
)  # fmt: skip
_QUOTA = "You exceeded your current quota, please check your plan and billing details."


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One column of the table."""

    id: str
    name: str
    wants_answer: bool = True
    """The agent should end with the right answer; else: quickly, and with the reason."""
    side_hosts: bool = True
    """Hosts beside the model's answer (404)."""


SITUATIONS: Final = {
    s.id: s
    for s in (
        Situation(id="0", name="all is well"),
        Situation(id="a", name="first account 429"),
        Situation(id="b", name="quota told as 403"),
        Situation(id="c", name="error event first in a 200"),
        Situation(id="d", name="stream cut after text"),
        Situation(id="e", name=f"all exhausted for {BUSY_S} s"),
        Situation(id="f", name="all exhausted for an hour", wants_answer=False),
        Situation(id="g", name="401 from a pool account"),
        Situation(id="h", name="side hosts unreachable", side_hosts=False),
    )
}


class Provider:
    """Answers as one dialect's provider in one situation. Asked by the fake upstream, on its event loop."""

    def __init__(
        self, situation: Situation, dialect: DialectName, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.situation, self.dialect = situation, dialect
        self.model_calls: list[dict[str, Any]] = []
        """Key, path, seconds since the first call, status."""
        self.side_calls: list[str] = []
        self._now = now
        self._began: float | None = None
        self._cut = False

    def __call__(self, request: Received) -> Reply:
        path = urlsplit(request.path).path
        if not _is_model_call(request.method, path):
            self.side_calls.append(f"{request.method} {request.authority}{path}")
            return self._beside(path)
        now = self._now()
        self._began = now if self._began is None else self._began
        reply = self._answer(request, now - self._began)
        entry = {"key": request.key, "path": path, "at": round(now - self._began, 2), "status": reply.status}
        self.model_calls.append(entry)
        return reply

    def _beside(self, path: str) -> Reply:
        if not self.situation.side_hosts:
            return Reply(before=(Close(),))
        if path.endswith("/count_tokens"):
            return json_reply({"input_tokens": 10})
        return json_reply({"error": {"type": "not_found_error", "message": "no such thing here"}}, status=404)

    def _answer(self, request: Received, seconds: float) -> Reply:
        stream, model = _wanted(request)
        fine = good(self.dialect, TEXT, stream=stream, model=model)
        first = request.key in FIRST
        match self.situation.id:
            case "a" if first:
                return error(
                    self.dialect, 429, "Rate limit reached. Please try again in 30s.", headers={"retry-after": "30"}
                )
            case "b" if first:
                return error(self.dialect, 403, _QUOTA, code="insufficient_quota")
            case "c" if first:
                return error_in_stream(self.dialect, "Rate limit is exceeded. Try again in 30 seconds.")
            case "d" if not self._cut and stream:
                self._cut = True
                return cut(fine, after=len(fine.steps) // 2, ending=Reset())
            case "e" if seconds < BUSY_S:
                return self._exhausted(BUSY_S - seconds)
            case "f":
                return self._exhausted(LONG_S)
            case "g" if first:
                return error(self.dialect, 401, "The API key was revoked.")
            case _:
                return fine

    def _exhausted(self, seconds: float) -> Reply:
        wait = max(1, round(seconds + 0.5))
        return error(
            self.dialect, 429, f"Rate limit reached. Please try again in {wait}s.", headers={"retry-after": str(wait)}
        )


def _is_model_call(method: str, path: str) -> bool:
    ours = path.endswith(("/messages", "/responses", "/chat/completions", ":streamGenerateContent", ":generateContent"))
    return method == "POST" and ours


def _wanted(request: Received) -> tuple[bool, str | None]:
    """Whether it is to be streamed, and the model's name, which the answer repeats."""
    path = urlsplit(request.path).path
    if ":" in path.rpartition("/")[2]:
        model, _, method = path.rpartition("/")[2].partition(":")
        return method.startswith("stream"), model
    try:
        body = json.loads(_plain(request))
    except ValueError:
        return True, None
    return bool(body.get("stream")), body.get("model")


def _plain(request: Received) -> bytes:
    if request.header("content-encoding") == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(request.body)
    return request.body
