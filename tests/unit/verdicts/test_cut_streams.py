"""The same error means the same wherever the network cuts the stream that carries it (issue 3, "Proof")."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from verdict_answers import NOW

from omniroute_addon.deadlines import Deadlines
from omniroute_addon.decisions import Decision, Fail
from omniroute_addon.dialects import dialect as dialect_of
from omniroute_addon.model import DialectName, ModelCall, Verdict
from omniroute_addon.settings import Settings
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.watch import Watch

HEAD = ((b"content-type", b"text/event-stream"),)


def event(data: Any, *, name: str = "") -> bytes:
    said = json.dumps(data, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {said}\n\n".encode()


FAILED = {
    "type": "response.failed",
    "response": {"status": "failed", "error": {"code": "rate_limit_exceeded", "message": "Try again in 14.036s."}},
}
STREAMS: list[tuple[DialectName, bytes, str]] = [
    ("openai-chat", b": PROCESSING\n\n" + event({"error": {"message": "余额不足 é", "code": 402}}), "credits_exhausted"),
    ("openai-responses", event({"type": "response.created"}) + event(FAILED, name="response.failed"), "rate_limit"),
    (
        "anthropic-messages",
        event({"type": "ping"}, name="ping")
        + event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, name="error"),
        "overloaded",
    ),
    ("gemini", event({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}), "overloaded"),
    ("gemini", b'{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED"}}', "quota_exhausted"),
]  # fmt: skip


def judged(book: RuleBook, dialect: DialectName, pieces: Sequence[bytes]) -> Verdict | None:
    """As the proxy does: every piece goes to the watch of the attempt; None for an answer that went to the client."""
    call = ModelCall(provider="", dialect=dialect, model="", stream=True)
    deadlines = Deadlines(call=call, settings=Settings(), started_at=0.0, call_deadline_at=0.0, alternatives=True)
    watch = Watch(dialect=dialect_of(dialect), deadlines=deadlines, trusted=True)
    decision: Decision = watch.head(200, HEAD, 0.0)
    for piece in pieces:
        decision = watch.data(piece, 0.0)
        if decision is not None:
            break
    if decision is None:
        decision = watch.end()
    if not isinstance(decision, Fail):
        return None
    return book.judge(decision.answer, provider=None, dialect=dialect, now=NOW)


@pytest.mark.parametrize(("dialect", "stream", "kind"), STREAMS, ids=[f"{s[0]} {s[2]}" for s in STREAMS])
def test_the_verdict_is_the_same_wherever_the_bytes_are_cut(
    book: RuleBook, dialect: DialectName, stream: bytes, kind: str
) -> None:
    whole = judged(book, dialect, [stream])
    assert whole is not None and whole.kind == kind
    for at in range(1, len(stream)):
        assert judged(book, dialect, [stream[:at], stream[at:]]) == whole, stream[:at]
    assert judged(book, dialect, [stream[i : i + 1] for i in range(len(stream))]) == whole


@pytest.mark.parametrize(("dialect", "stream", "kind"), STREAMS[:4], ids=[s[0] for s in STREAMS[:4]])
def test_line_ends_change_nothing(book: RuleBook, dialect: DialectName, stream: bytes, kind: str) -> None:
    whole = judged(book, dialect, [stream])
    assert judged(book, dialect, [stream.replace(b"\n", b"\r\n")]) == whole
    assert judged(book, dialect, [stream.rstrip(b"\n")]) == whole, "the last blank line never came"
