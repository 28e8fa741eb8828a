"""A conversation that moves to another account, in every dialect (`A29`, `clients.md` 6 and 11), through a real proxy."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from omniroute_addon.testing.answers import error, error_in_stream, good
from omniroute_addon.testing.client import Client
from omniroute_addon.testing.questions import Question, question
from omniroute_addon.testing.script import Reply
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
CONFIG = {"settings": {"own_credential": "never", "retry_pause_ms": 1}}

HISTORY: dict[Any, tuple[str, dict[str, Any], dict[str, Any], str, str]] = {
    "anthropic-messages": (
        "anthropic",
        {
            "messages": [
                {"role": "user", "content": "q"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "t", "signature": "OF-A"},
                        {"type": "redacted_thinking", "data": "OF-A"},
                        {"type": "text", "text": "a"},
                    ],
                },
                {"role": "user", "content": "q2"},
            ]
        },
        {
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
                {"role": "user", "content": "q2"},
            ]
        },
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "invalid_request_error",
    ),
    "openai-responses": (
        "openai",
        {
            "input": [
                {"role": "user", "content": "q"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "OF-A"},
                {"role": "assistant", "content": "a"},
                {"role": "user", "content": "q2"},
            ],
            "store": False,
            "include": ["reasoning.encrypted_content"],
        },
        {
            "input": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": "a"},
                {"role": "user", "content": "q2"},
            ]
        },
        "The encrypted content for item rs_1 could not be verified.",
        "invalid_encrypted_content",
    ),
    "gemini": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [{"text": "a", "thoughtSignature": "OF-A"}]},
                {"role": "user", "parts": [{"text": "q2"}]},
            ]
        },
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [{"text": "a"}]},
                {"role": "user", "parts": [{"text": "q2"}]},
            ]
        },
        "Corrupted thought signature.",
        "INVALID_ARGUMENT",
    ),
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", HISTORY)
async def test_a29_what_only_the_old_account_can_read_is_taken_out_once(
    dialect: Any, stream: bool, open_stage: OpenStage
) -> None:
    """A cools, B refuses A's thoughts: one repair, one more try at B, 200. Nothing else of the request changes."""
    provider, history, repaired, words, code = HISTORY[dialect]
    s = await open_stage("a", "b", provider=provider, config=CONFIG)
    s.upstream.script(error(dialect, 429, "slow down", headers={"retry-after": "900"}), key="sk-a")
    s.upstream.script([error(dialect, 400, words, code=code), good(dialect, "fine", stream=stream)], key="sk-b")
    q = question(dialect, stream=stream, more=history)
    seen = await s.ask(q)
    assert (seen.status, seen.end, s.upstream.keys) == (200, "complete", ["sk-a", "sk-b", "sk-b"])
    first, second, third = (json.loads(r.body) for r in s.upstream.requests)
    assert first == second == json.loads(q.body)
    assert third == json.loads(q.body) | repaired
    assert "OF-A" not in repr(third)


@pytest.mark.parametrize("dialect", HISTORY)
async def test_a29_when_it_fails_again_the_error_keeps_its_own_words(dialect: Any, open_stage: OpenStage) -> None:
    provider, history, _, words, code = HISTORY[dialect]
    s = await open_stage("a", "b", provider=provider, config=CONFIG)
    refused = error(dialect, 400, words, code=code)
    s.upstream.script(refused)
    seen = await s.ask(question(dialect, more=history))
    assert (seen.status, seen.body, s.upstream.keys) == (400, refused.body, ["sk-a", "sk-a"])


async def test_a29_an_encrypted_item_that_is_refused_inside_a_stream_is_repaired_too(open_stage: OpenStage) -> None:
    provider, history, _, words, code = HISTORY["openai-responses"]
    s = await open_stage("a", provider=provider, config=CONFIG)
    refused = error_in_stream("openai-responses", words, code=code)
    s.upstream.script([refused, good("openai-responses", "fine", stream=True)])
    seen = await s.ask(question("openai-responses", more=history))
    assert (seen.status, seen.end, s.upstream.keys) == (200, "complete", ["sk-a", "sk-a"])
    assert b"OF-A" not in s.upstream.requests[1].body


async def test_a_response_that_another_account_keeps_is_not_silently_forgotten(open_stage: OpenStage) -> None:
    """Without `previous_response_id` the model would not know what was said: the client is told, in the error's words."""
    s = await open_stage("a", "b", config=CONFIG)
    words = "Previous response with id 'resp_1' not found."
    refused = error("openai-responses", 400, words, code="previous_response_not_found")
    s.upstream.script(refused)
    seen = await s.ask(question("openai-responses", more={"previous_response_id": "resp_1"}))
    assert (seen.status, seen.body, s.upstream.keys) == (400, refused.body, ["sk-a"])


# ------------------------------------------------------------ headers


CODEX = {
    "user-agent": "codex_exec/0.171.0",
    "session-id": "conv-1",
    "chatgpt-account-id": "clients-own",
    "x-codex-turn-state": "handed-out",
    "x-openai-account-routing-override": "r",
}
FINE = good("openai-responses", "fine", stream=True)


async def turn(s: Stage, **more: str) -> None:
    q: Question = question("openai-responses")
    q = replace(q, host="chatgpt.com", path="/backend-api/codex/responses", headers={**q.headers, **CODEX, **more})
    async with Client(q.origin, proxy=s.proxy.url, ca_file=s.proxy.ca_file) as client:
        assert (await client.request(q.method, q.path, headers=q.headers, body=q.body)).status == 200


def sent(s: Stage, name: str) -> list[str | None]:
    return [r.header(name) for r in s.upstream.requests]


async def test_what_an_account_handed_out_goes_back_to_it_and_to_no_other(open_stage: OpenStage) -> None:
    """`x-codex-turn-state`: unknown at first, then kept while the conversation stays, left behind when it moves."""
    pool = [
        {"id": "a", "headers": {"chatgpt-account-id": "of-a"}},
        {"id": "b", "headers": {"chatgpt-account-id": "of-b"}},
    ]
    s = await open_stage(*pool, provider="codex", config=CONFIG)
    limited: Reply = error("openai-responses", 429, "slow down", headers={"retry-after": "900"})
    s.upstream.script([FINE, FINE, limited], key="sk-a")
    s.upstream.script(FINE, key="sk-b")
    await turn(s)
    await turn(s)
    await turn(s)
    await turn(s)
    assert s.upstream.keys == ["sk-a", "sk-a", "sk-a", "sk-b", "sk-b"]
    assert sent(s, "x-codex-turn-state") == [None, "handed-out", "handed-out", None, "handed-out"]
    assert sent(s, "chatgpt-account-id") == ["of-a", "of-a", "of-a", "of-b", "of-b"]
    assert sent(s, "x-openai-account-routing-override") == [None] * 5


async def test_another_conversation_does_not_count(open_stage: OpenStage) -> None:
    s = await open_stage("a", provider="codex", config=CONFIG)
    s.upstream.script(FINE)
    await turn(s)
    await turn(s, **{"session-id": "conv-2"})
    assert sent(s, "x-codex-turn-state") == [None, None]


async def test_the_clients_own_account_does_not_get_what_a_pools_account_handed_out(open_stage: OpenStage) -> None:
    """Nor does it lose what is its own: `chatgpt-account-id` names it."""
    s = await open_stage("a", provider="codex", config={"settings": {"retry_pause_ms": 1}})
    limited: Reply = error("openai-responses", 429, "slow down", headers={"retry-after": "900"})
    s.upstream.script([FINE, limited], key="sk-a")
    s.upstream.script(FINE, key="sk-client")
    await turn(s)
    await turn(s)
    await turn(s)
    assert s.upstream.keys == ["sk-a", "sk-a", "sk-client", "sk-client"]
    assert sent(s, "x-codex-turn-state") == [None, "handed-out", None, "handed-out"]
    assert sent(s, "chatgpt-account-id") == [None, None, "clients-own", "clients-own"]


async def test_without_a_pool_nothing_is_taken_away(open_stage: OpenStage) -> None:
    s = await open_stage()
    s.upstream.script(FINE)
    await turn(s)
    assert {name: s.upstream.requests[0].header(name) for name in CODEX} == CODEX
