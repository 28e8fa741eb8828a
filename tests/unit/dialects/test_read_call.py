"""What a request asks for, in each dialect; and another model name in it."""

from __future__ import annotations

import json

import pytest

from omniroute_addon.dialects import CallFacts, dialect
from omniroute_addon.model import DIALECTS, DialectName

CASES: list[tuple[DialectName, str, dict[str, object], CallFacts]] = [
    ("openai-chat", "/v1/chat/completions", {}, CallFacts(model="", stream=False)),
    (
        "openai-chat",
        "/v1/chat/completions",
        {"model": "m", "stream": True, "tools": [1, 2], "messages": [1, 2, 3], "prompt_cache_key": "s", "user": "u"},
        CallFacts(model="m", stream=True, tools=2, history_items=3),
    ),
    (
        "openai-chat",
        "/v1/completions",
        {"model": "m", "prompt": "x", "functions": [1], "session_id": "s", "prompt_cache_key": "other"},
        CallFacts(model="m", stream=False, tools=1, history_items=1),
    ),
    ("openai-chat", "/x", {"model": "m", "user": "u", "stream": "yes"}, CallFacts(model="m", stream=False)),
    (
        "openai-responses",
        "/v1/responses",
        {"model": "m", "stream": True, "input": "x", "conversation": {"id": "c"}},
        CallFacts(model="m", stream=True, history_items=1),
    ),
    (
        "openai-responses",
        "/backend-api/codex/responses",
        {"model": "m", "input": [1, 2], "tools": [1], "conversation": None, "prompt_cache_key": "p"},
        CallFacts(model="m", stream=False, tools=1, history_items=2),
    ),
    (
        "anthropic-messages",
        "/v1/messages?beta=true",
        {
            "model": "m",
            "messages": [1],
            "tools": [1],
            "metadata": {"user_id": '{"device_id": "d", "session_id": "s-1"}'},
        },
        CallFacts(model="m", stream=False, tools=1, history_items=1),
    ),
    *[
        ("gemini", path, {"contents": [1]}, CallFacts(model=model, stream=stream, history_items=1))
        for path, model, stream in [
            ("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", False),
            ("/v1/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "gemini-2.5-pro", True),
            ("/v1beta/tunedModels/my-1:generateContent", "my-1", False),
            ("/v1/projects/p/locations/l/publishers/google/models/g:streamGenerateContent", "g", True),
            ("/v1/projects/p/locations/l/endpoints/123:generateContent?key=k", "123", False),
            ("/v1beta/models/a%3Ab:generateContent", "a:b", False),
            ("/v1beta/other", "", False),
        ]
    ],
    (
        "gemini",
        "/v1beta/models/g:generateContent",
        {
            "contents": {},
            "tools": [{"functionDeclarations": [1, 2]}, {"function_declarations": [1]}, {"googleSearch": {}}, 5],
        },
        CallFacts(model="g", stream=False, tools=4, history_items=1),
    ),
]


@pytest.mark.parametrize(("name", "path", "body", "facts"), CASES, ids=range(len(CASES)))
def test_a_call_is_understood(name: DialectName, path: str, body: dict[str, object], facts: CallFacts) -> None:
    assert dialect(name).read_call(path=path, body=json.dumps(body).encode()) == facts


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"a": NaN}', b'{"a": 1, "a": 2}', b'{"a":' + b"[" * 200_000])
def test_a_hostile_body_is_a_value_error(name: DialectName, body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the request body .*"):
        dialect(name).read_call(path="/v1/x", body=body)


@pytest.mark.parametrize("name", DIALECTS)
def test_the_bodys_members_are_handed_on(name: DialectName) -> None:
    body = {"model": "m", "metadata": {"user_id": "u"}, "tools": [1]}
    assert dialect(name).read_call(path="/x", body=json.dumps(body).encode()).body == body


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_a_model_in_the_body_is_renamed_in_place(name: DialectName) -> None:
    renamed = dialect(name).rename_model(path="/p?q", body=b'{ "model":"a",  "x": 1.0 }', model="b")
    assert renamed == ("/p?q", b'{ "model":"b",  "x": 1.0 }')


def test_a_model_in_the_path_is_renamed_there() -> None:
    path = "/v1/projects/p/publishers/google/models/old:streamGenerateContent?alt=sse"
    assert dialect("gemini").rename_model(path=path, body=b"x", model="n/e w") == (
        path.replace("old", "n%2Fe%20w"),
        b"x",
    )


def test_a_path_without_model_cannot_be_renamed() -> None:
    with pytest.raises(ValueError, match=r"^the request path names no model that could be replaced$"):
        dialect("gemini").rename_model(path="/v1beta/models", body=b"{}", model="x")
