"""Answers in every dialect: what `tests/clients` shows the SDKs to accept, checked here for shape and borders."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omniroute_addon.model import DIALECTS
from omniroute_addon.testing.answers import ToolCall, Usage, error, error_in_stream, good, sse
from omniroute_addon.testing.script import Reply

TEXT = "Grüße, all of you."
OPENAI = ["openai-chat", "openai-responses"]


def events(reply: Reply) -> list[Any]:
    """The data of each event; one event per chunk, each complete."""
    found = []
    for chunk in reply.steps:
        assert isinstance(chunk, bytes)
        assert chunk.endswith(b"\n\n") and chunk.count(b"\n\n") == 1
        data = chunk.decode().rstrip("\n").rpartition("data: ")[2]
        found.append(data if data == "[DONE]" else json.loads(data))
    return found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_says_the_text_word_by_word_and_ends_as_the_dialect_does(dialect):
    reply = good(dialect, TEXT, usage=Usage(input=3, output=5))
    assert (reply.status, dict(reply.headers)["content-type"]) == (200, "text/event-stream; charset=utf-8")
    spoken = events(reply)
    match dialect:
        case "openai-chat":
            said = [c["delta"].get("content", "") for event in spoken[:-1] for c in event["choices"]]
            assert (spoken[-1], spoken[-2]["usage"]["total_tokens"]) == ("[DONE]", 8)
        case "openai-responses":
            said = [e["delta"] for e in spoken if e["type"] == "response.output_text.delta"]
            assert [e["sequence_number"] for e in spoken] == list(range(len(spoken)))
            assert (spoken[-1]["type"], spoken[-1]["response"]["usage"]["total_tokens"]) == ("response.completed", 8)
        case "anthropic-messages":
            said = [e["delta"]["text"] for e in spoken if e["type"] == "content_block_delta"]
            assert (spoken[-1]["type"], spoken[-2]["usage"]["output_tokens"]) == ("message_stop", 5)
        case "gemini":
            said = [part["text"] for e in spoken for part in e["candidates"][0]["content"]["parts"]]
            assert spoken[-1]["candidates"][0]["finishReason"] == "STOP"
            assert spoken[-1]["usageMetadata"]["totalTokenCount"] == 8
    assert "".join(said) == TEXT
    assert len([word for word in said if word]) == 4


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_reasoning_tool_call_and_model_are_in_both_forms(dialect, stream):
    call = ToolCall(name="find", arguments={"q": "Zürich"})
    reply = good(dialect, "", stream=stream, model="m-1", reasoning="hm, well", tool_call=call)
    body = b"".join(step for step in reply.steps if isinstance(step, bytes)).decode()
    assert '"find"' in body
    assert "m-1" in body
    assert "well" in body
    if not stream:
        assert "Zürich" in body
        json.loads(body)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 429, 500, 503, 529])
def test_an_error_has_the_dialects_shape(dialect, status):
    reply = error(dialect, status, "nein", headers={"retry-after": "7"})
    inner = json.loads(reply.body)["error"]
    assert (reply.status, inner["message"], dict(reply.headers)["retry-after"]) == (status, "nein", "7")
    assert (json.loads(reply.body).get("type") == "error") == (dialect == "anthropic-messages")
    assert (inner.get("code") == status) == (dialect == "gemini")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_machine_word_of_an_error_can_be_chosen(dialect):
    assert "my_code" in error(dialect, 429, code="my_code").body.decode()
    assert any("my_code" in json.dumps(event) for event in events(error_in_stream(dialect, code="my_code")))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_a_stream_comes_after_as_many_words_as_wanted(dialect):
    silent = b"".join(step for step in error_in_stream(dialect, "kaputt").steps if isinstance(step, bytes))
    spoken = b"".join(step for step in error_in_stream(dialect, "kaputt", after=2).steps if isinstance(step, bytes))
    assert (b"kaputt" in silent, b"Hello" in silent) == (True, False)
    assert (b"kaputt" in spoken, b"Hello" in spoken, b"friend" in spoken) == (True, True, False)
    assert error_in_stream(dialect).status == 200


def test_sse_writes_text_as_it_stands_and_values_as_json():
    assert sse("[DONE]") == b"data: [DONE]\n\n"
    assert sse({"a": "ü"}, event="x") == 'event: x\ndata: {"a":"ü"}\n\n'.encode()
