"""Thoughts that are signed or encrypted for one account, taken out of a request's history (`clients.md` section 6).

What is left must still be a request that the API takes: no empty message, and no tool call that the API wants a thought in
front of while thinking is switched on. Each function changes the request in place and says whether there was anything.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_THOUGHTS = ("thinking", "redacted_thinking")


def from_anthropic(call: Json) -> bool:
    """Thinking blocks of earlier turns. Thinking goes off where a tool call would stand without its thought."""
    found, bare_call = False, False
    messages = []
    for message in _objects(call.get("messages")):
        blocks = message.get("content")
        kept = [b for b in blocks if not _is_thought(b)] if isinstance(blocks, list) else []
        if isinstance(blocks, list) and len(kept) < len(blocks):
            found, message["content"] = True, kept
            bare_call = any(isinstance(b, dict) and b.get("type") == "tool_use" for b in kept)
            if not kept:
                continue
        messages.append(message)
    if found:
        call["messages"] = messages
    if bare_call:
        call.pop("thinking", None)
    return found


def from_responses(call: Json) -> bool:
    """Reasoning items with encrypted content."""
    items = call.get("input")
    if not isinstance(items, list):
        return False
    kept = [
        i for i in items if not (isinstance(i, dict) and i.get("type") == "reasoning" and i.get("encrypted_content"))
    ]
    call["input"] = kept
    return len(kept) != len(items)


def from_chat(call: Json) -> bool:
    """`reasoning_details` of earlier answers, as gateways hand them out."""
    messages = [m for m in _objects(call.get("messages")) if m.pop("reasoning_details", None) is not None]
    return bool(messages)


def from_gemini(call: Json) -> bool:
    """Thought signatures on the parts of earlier answers."""
    parts = [p for content in _objects(call.get("contents")) for p in _objects(content.get("parts"))]
    signed = [part for part in parts if part.pop("thoughtSignature", part.pop("thought_signature", None)) is not None]
    return bool(signed)


def _is_thought(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in _THOUGHTS


def _objects(value: Any) -> list[Json]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
