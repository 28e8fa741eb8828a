"""One question through each SDK, as a program asks it. Every function returns the text of the answer or raises."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from omniroute_addon.model import DialectName

KEY = "sk-client"
MESSAGES: list[Any] = [{"role": "user", "content": "Say hello."}]
Ask = Callable[[bool, int], str]
"""(stream, retries of the SDK's own) -> text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """A client library and one of the APIs that it speaks."""

    dialect: DialectName
    ask: Ask
    retries: bool
    """It tries again by itself when its program lets it."""
    streams: bool = True


def _openai_chat(stream: bool, retries: int) -> str:
    from openai import OpenAI

    with OpenAI(api_key=KEY, max_retries=retries) as client:
        if not stream:
            return client.chat.completions.create(model="gpt-5.4", messages=MESSAGES).choices[0].message.content or ""
        chunks = client.chat.completions.create(model="gpt-5.4", messages=MESSAGES, stream=True)
        return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def _openai_responses(stream: bool, retries: int) -> str:
    from openai import OpenAI

    with OpenAI(api_key=KEY, max_retries=retries) as client:
        if not stream:
            return client.responses.create(model="gpt-5.4", input="Say hello.").output_text
        events = client.responses.create(model="gpt-5.4", input="Say hello.", stream=True)
        return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def _anthropic(stream: bool, retries: int) -> str:
    from anthropic import Anthropic

    ask: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": MESSAGES}
    with Anthropic(api_key=KEY, max_retries=retries) as client:
        if not stream:
            return "".join(block.text for block in client.messages.create(**ask).content if block.type == "text")
        with client.messages.stream(**ask) as events:
            return "".join(events.text_stream)


def _google(stream: bool, retries: int) -> str:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(retry_options=types.HttpRetryOptions(initial_delay=0.1)) if retries else None
    client = genai.Client(api_key=KEY, http_options=options)
    ask: dict[str, Any] = {"model": "gemini-2.5-flash", "contents": "Say hello."}
    answers = client.models.generate_content_stream(**ask) if stream else [client.models.generate_content(**ask)]
    return "".join(answer.text or "" for answer in answers)


def _litellm(model: str) -> Ask:
    def ask(stream: bool, retries: int) -> str:
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        import litellm

        litellm.suppress_debug_info = True
        # It keeps its HTTP clients, and with them the proxy of the test before.
        litellm.in_memory_llm_clients_cache.flush_cache()
        litellm.module_level_client = litellm.HTTPHandler(timeout=litellm.request_timeout)
        answer: Any = litellm.completion(model, MESSAGES, stream=stream, api_key=KEY, max_retries=retries)
        if not stream:
            return str(answer.choices[0].message.content)
        return "".join(choice.delta.content or "" for chunk in answer for choice in chunk.choices)

    return ask


def _llm(stream: bool, retries: int) -> str:
    import llm

    model = llm.get_model("gpt-4o-mini")
    model.key = KEY
    return str(model.prompt("Say hello.", stream=stream).text())


SDKS: Mapping[str, Sdk] = {
    "openai chat": Sdk(dialect="openai-chat", ask=_openai_chat, retries=True),
    "openai responses": Sdk(dialect="openai-responses", ask=_openai_responses, retries=True),
    "anthropic": Sdk(dialect="anthropic-messages", ask=_anthropic, retries=True),
    "google-genai": Sdk(dialect="gemini", ask=_google, retries=False),
    "litellm openai": Sdk(dialect="openai-chat", ask=_litellm("openai/gpt-5.4"), retries=True),
    "litellm anthropic": Sdk(dialect="anthropic-messages", ask=_litellm("anthropic/claude-sonnet-4-5"), retries=False),
    "litellm gemini": Sdk(dialect="gemini", ask=_litellm("gemini/gemini-2.5-flash"), retries=False),
    "llm": Sdk(dialect="openai-chat", ask=_llm, retries=True),
}
