"""Laws of judging, for any bytes and any headers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from verdict_answers import NOW, answer

from omniroute_addon.model import KINDS, SCOPES, Answer, Verdict
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.verdicts import RuleBook

BOOK = RuleBook.build(load_packs([PackFolder(path=bundled_rules(), label="rules")])[0].rules)

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "status", "details", "choices", "base_resp", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODIES = st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode())
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "content-type", "x-amzn-errortype", "date", "x"]), st.text(max_size=30)
)
ERRORS: list[tuple[int, dict[str, Any]]] = [
    (429, {"error": {"message": "Rate limit reached for x", "type": "tokens", "code": "rate_limit_exceeded"}}),
    (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}),
    (400, {"error": {"message": "messages: field required", "type": "invalid_request_error"}}),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    (403, {"error": {"code": 403, "message": "denied", "status": "PERMISSION_DENIED"}}),
    (402, {"error": {"message": "Insufficient credits"}}),
]
QUOTES = [
    "insufficient_quota",
    "Your account has been deactivated",
    "rate limit exceeded, try again in 20s",
    "invalid api key",
]


def judged(given: Answer, provider: str | None = None, dialect: str | None = None) -> Verdict:
    return BOOK.judge(given, provider=provider, dialect=dialect, now=NOW)


@settings(max_examples=300, deadline=None)
@given(
    status=st.sampled_from([0, 200, 204, 302, 400, 401, 403, 404, 413, 429, 500, 503, 529, 599]),
    body=BODIES,
    headers=HEADERS,
    stream=st.booleans(),
    provider=st.sampled_from([None, "openai", "minimax", "_generic", "", "nobody"]),
    dialect=st.sampled_from([None, "gemini", "openai-chat", "strange"]),
)
def test_any_bytes_and_any_headers_give_a_verdict(
    status: int, body: bytes, headers: dict[str, str], stream: bool, provider: str | None, dialect: str | None
) -> None:
    verdict = judged(Answer(status=status, headers=headers, body=body, stream=stream), provider, dialect)
    assert verdict.kind in KINDS and verdict.scope in SCOPES
    assert 200 <= verdict.status <= 599
    assert verdict.rule.id != "no-rule"
    assert len(verdict.message) <= 200
    assert not (verdict.kind == "ok" and (verdict.retry_other or verdict.terminal or verdict.breaker))


@pytest.mark.parametrize(("status", "body"), ERRORS)
@settings(max_examples=25, deadline=None)
@given(
    name=st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=8).map(lambda n: "zz" + n),
    value=st.sampled_from(QUOTES) | JSON,
)
def test_an_unrelated_field_or_header_changes_nothing(status: int, body: dict[str, Any], name: str, value: Any) -> None:
    plain = judged(answer(status, body))
    assert judged(answer(status, {name: value, **body})) == plain
    assert judged(answer(status, {**body, "error": {**body["error"], name: value}})) == plain
    assert judged(answer(status, body, headers={"x-" + name: str(value).encode("ascii", "ignore").decode()})) == plain


def test_the_same_error_event_cut_anywhere_behind_its_type_gives_the_same_verdict() -> None:
    """Issue 3, proof: a stream may end at any byte."""
    event = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    begun = 'event: message_start\ndata: {"type":"message_start"}\n\n'
    whole = judged(answer(200, begun + event, stream=True))
    assert (whole.kind, whole.status) == ("overloaded", 529)
    for end in range(event.index('","message"') + 1, len(event)):
        cut = judged(answer(200, begun + event[:end], stream=True))
        assert (cut.kind, cut.scope, cut.status, cut.retry_other) == ("overloaded", whole.scope, 529, True)


@pytest.mark.parametrize("quote", QUOTES)
def test_quoting_an_error_in_a_prompt_or_an_answer_changes_nothing(quote: str) -> None:
    said = judged(answer(200, {"choices": [{"message": {"content": quote}, "finish_reason": "stop"}]}))
    assert (said.kind, said.retry_after) == ("ok", None)
    streamed = (
        f"data: {json.dumps({'choices': [{'delta': {'content': quote}, 'finish_reason': 'stop'}]})}\n\ndata: [DONE]\n\n"
    )
    assert judged(answer(200, streamed, stream=True)).kind == "ok"
    for body in (
        {"error": {"message": "field required", "type": "invalid_request_error"}, "input": quote},
        {"error": {"message": f'Invalid value: \'x\'. Got {{"content": "{quote}"}}', "code": "invalid_value"}},
        {"detail": [{"msg": "Field required", "type": "missing", "input": {"content": quote}}]},
    ):
        verdict = judged(answer(400, body))
        assert (verdict.kind, verdict.terminal, verdict.retry_other) == ("invalid_request", False, False)


@pytest.mark.parametrize(
    "body",
    [
        b"model " * 100_000,
        b"model\n" * 100_000,
        b"x" * 10_000_000,
        b'{"error":{"message":"' + b"model " * 1_700_000 + b'"}}',
        b"[" * 10_000_000,
        b'{"a":' * 2_000_000,
        "访问 model 不 limit quota exceed \n".encode() * 200_000,
        b"'" * 10_000_000,
        b"<html><script " * 700_000,
        b'"code":"' * 1_000_000,
        b"data: \n" * 1_400_000,
        b"sk-" * 3_000_000,
    ],
    ids=lambda body: body[:14].decode("utf-8", "replace"),
)
@pytest.mark.parametrize("status", [200, 400, 429, 503])
def test_a_pathological_body_is_judged_within_50_ms(body: bytes, status: int) -> None:
    """Edge case 22; issue 3 point 1: no rule can hang the proxy."""
    given = Answer(status=status, body=body, stream=status == 200)
    judged(given)
    best = min(_cpu(lambda: judged(given)) for _ in range(3))
    assert best < 0.05


def _cpu(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin
