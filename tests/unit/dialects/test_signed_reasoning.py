"""What another account cannot read is taken out, and what is left is still a request (`A29`)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omniroute_addon.dialects import dialect
from omniroute_addon.model import DIALECTS, DialectName


def stripped(name: DialectName, call: dict[str, Any]) -> dict[str, Any] | None:
    body = dialect(name).without_signed_reasoning(json.dumps(call).encode())
    return None if body is None else json.loads(body)


def test_anthropic_thinking_blocks_go_and_text_stays() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    text = {"type": "text", "text": "hi"}
    call = {
        "thinking": {"type": "enabled"},
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [thought, {"type": "redacted_thinking", "data": "x"}, text]},
            {"role": "assistant", "content": [thought]},
            {"role": "user", "content": []},
        ],
    }
    assert stripped("anthropic-messages", call) == {
        "thinking": {"type": "enabled"},
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": [text]},
            {"role": "user", "content": []},
        ],
    }


def test_anthropic_thinking_goes_off_where_a_tool_call_would_stand_alone() -> None:
    tool = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    call = {
        "thinking": {"type": "enabled"},
        "messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, tool]}],
    }
    assert stripped("anthropic-messages", call) == {"messages": [{"role": "assistant", "content": [tool]}]}


def test_encrypted_reasoning_items_go() -> None:
    message = {"type": "message", "role": "user", "content": "q"}
    plain = {"type": "reasoning", "summary": []}
    call = {"input": [message, {"type": "reasoning", "encrypted_content": "gAAA"}, plain]}
    assert stripped("openai-responses", call) == {"input": [message, plain]}


def test_gemini_signatures_go_in_both_spellings() -> None:
    parts = [{"functionCall": {}, "thoughtSignature": "x"}, {"text": "t", "thought_signature": "y"}]
    assert stripped("gemini", {"contents": [{"parts": parts}]}) == {
        "contents": [{"parts": [{"functionCall": {}}, {"text": "t"}]}]
    }


def test_reasoning_details_of_gateways_go() -> None:
    call = {"messages": [{"role": "assistant", "content": "a", "reasoning_details": [{"signature": "x"}]}]}
    assert stripped("openai-chat", call) == {"messages": [{"role": "assistant", "content": "a"}]}


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("call", [{}, {"messages": 1, "input": "x", "contents": None}, {"messages": ["x"]}])
def test_nothing_to_take_out_is_none(name: DialectName, call: dict[str, Any]) -> None:
    assert stripped(name, call) is None


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_none(name: DialectName, body: bytes) -> None:
    assert dialect(name).without_signed_reasoning(body) is None
