"""Good answers in every dialect, as the official SDKs accept them, and errors in each dialect's own shape.

    upstream.script([error("openai-chat", 429, "slow down", headers={"retry-after": "2"}), openai_chat("Hello.")])

Streams carry one event per chunk, so `faults.cut(openai_chat("a b c"), after=2, ending=Reset())` cuts between events.
"""

from __future__ import annotations

from omniroute_addon.model import DialectName
from omniroute_addon.testing.script import Reply

from ._anthropic import anthropic, anthropic_error, anthropic_stream_error
from ._gemini import gemini, gemini_error, gemini_stream_error
from ._openai_chat import openai_chat, openai_error, openai_stream_error
from ._openai_responses import openai_responses, responses_stream_error
from ._parts import ToolCall, Usage, sse

__all__ = [
    "ToolCall",
    "Usage",
    "anthropic",
    "error",
    "error_in_stream",
    "gemini",
    "good",
    "openai_chat",
    "openai_responses",
    "sse",
]

_GOOD = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic-messages": anthropic,
    "gemini": gemini,
}
_ERROR = {
    "openai-chat": openai_error,
    "openai-responses": openai_error,
    "anthropic-messages": anthropic_error,
    "gemini": gemini_error,
}
_STREAM_ERROR = {
    "openai-chat": openai_stream_error,
    "openai-responses": responses_stream_error,
    "anthropic-messages": anthropic_stream_error,
    "gemini": gemini_stream_error,
}


def good(
    dialect: DialectName,
    text: str = "Hello there, friend.",
    *,
    stream: bool = True,
    model: str | None = None,
    reasoning: str = "",
    tool_call: ToolCall | None = None,
    usage: Usage | None = None,
) -> Reply:
    """A complete answer; the same arguments that the dialects' own functions take. `model` None is a usual name."""
    wanted = {} if model is None else {"model": model}
    return _GOOD[dialect](
        text, stream=stream, reasoning=reasoning, tool_call=tool_call, usage=usage or Usage(), **wanted
    )


def error(
    dialect: DialectName,
    status: int,
    message: str = "Something went wrong.",
    *,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """A whole error answer. `code` is the dialect's machine word (`insufficient_quota`, `overloaded_error`,
    `RESOURCE_EXHAUSTED`); None derives a usual one from the status.
    """
    return _ERROR[dialect](status, message, code, headers or {})


def error_in_stream(
    dialect: DialectName,
    message: str = "Rate limit is exceeded. Try again in 17 seconds.",
    *,
    code: str | None = None,
    after: int = 0,
    text: str = "Hello there, friend.",
) -> Reply:
    """A stream with status 200 that breaks with an error event, then ends.

    `after` words of `text` come first; 0 sends only what a provider sends before any output (`A12`).
    """
    return _STREAM_ERROR[dialect](message, code, after, text)
