"""spec/06: a status that lies is corrected before anything else looks at it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from verdict_answers import NOW, answer

from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.verdicts.judge import INSIDE_SUCCESS

QUOTA = "用户额度不足"
DENIED = "无权访问模型"


def bodies(words: str) -> list[Any]:
    escaped = words.encode("ascii", "backslashreplace").decode()
    return [words, {"error": {"message": words}}, f'{{"error":{{"message":"{escaped}"}}}}']


@pytest.mark.parametrize("status", [400, 403])
@pytest.mark.parametrize("body", bodies(QUOTA))
@pytest.mark.parametrize("provider", ["agentrouter", "AgentRouter"])
def test_a_misstated_quota_becomes_a_429(book: RuleBook, status: int, body: Any, provider: str) -> None:
    """Edge cases 1 and 4; SR-2, SR-17, SR-18, SR-22."""
    restated = book.restate(answer(status, body), provider=provider, dialect=None)
    assert restated is not None
    assert (restated.from_status, restated.status, restated.retry_after_s) == (status, 429, 60)
    assert restated.rule.id == "agentrouter-quota-misstatus"
    assert restated.rule.line > 0


@pytest.mark.parametrize("body", [*bodies(DENIED), *bodies(DENIED + " " + QUOTA)])
def test_a_veto_keeps_the_status_and_the_model_rule_decides(book: RuleBook, body: Any) -> None:
    """Edge case 2; SR-12, SR-29 to SR-31."""
    verdict = book.judge(answer(403, body), provider="agentrouter", dialect=None, now=NOW)
    assert (verdict.restatement, verdict.status, verdict.rule.id) == (None, 403, "agentrouter-model-access-denied")


@pytest.mark.parametrize(
    ("status", "body", "provider"),
    [
        (401, QUOTA, "agentrouter"),  # edge case 3: not one of its statuses
        (404, QUOTA, "agentrouter"),
        (500, QUOTA, "agentrouter"),
        (403, "forbidden", "agentrouter"),  # no marker
        (403, QUOTA, "unknown"),  # SR-4
        (403, QUOTA, None),  # SR-5
        (403, QUOTA, "deepseek"),  # edge case 5
        (403, "", "agentrouter"),  # SR-6, edge case 13
        (413, "Request Entity Too Large", "groq"),  # edge case 9
        (200, {"choices": [{"message": {"content": QUOTA}}]}, "agentrouter"),  # SR-3
    ],
)
def test_everything_else_passes_through(book: RuleBook, status: int, body: Any, provider: str | None) -> None:
    assert book.restate(answer(status, body), provider=provider, dialect=None) is None


def test_groq_says_413_and_means_a_minute(book: RuleBook) -> None:
    """Edge case 9."""
    body = {"error": {"message": "on tokens per minute (TPM): Limit 6000"}}
    restated = book.restate(answer(413, body), provider="groq", dialect=None)
    assert restated is not None and (restated.status, restated.retry_after_s) == (429, 60)


def test_the_upstreams_own_wait_is_used_and_stays_a_hint(book: RuleBook) -> None:
    """Edge case 6; SR-22, SR-25."""
    verdict = book.judge(
        answer(403, QUOTA, headers={"retry-after": "25"}), provider="agentrouter", dialect=None, now=NOW
    )
    assert verdict.restatement is not None and verdict.restatement.retry_after_s == 25
    assert verdict.retry_after is not None and verdict.retry_after.seconds == 25


@pytest.mark.parametrize("headers", [{}, {"retry-after": "0"}, {"retry-after": "-5"}])
def test_sr_24_a_rules_default_is_told_and_never_a_hint(book: RuleBook, headers: dict[str, str]) -> None:
    verdict = book.judge(answer(403, QUOTA, headers=headers), provider="agentrouter", dialect=None, now=NOW)
    assert verdict.restatement is not None and verdict.restatement.retry_after_s == 60
    assert verdict.retry_after is None


def test_edge_8_the_restated_429_is_no_ban_and_no_breaker_vote(book: RuleBook) -> None:
    """SR-28, SR-33, SR-35."""
    verdict = book.judge(answer(403, QUOTA), provider="agentrouter", dialect=None, now=NOW)
    assert (verdict.kind, verdict.scope, verdict.reason) == ("quota_exhausted", "connection", "quota_exhausted")
    assert (verdict.terminal, verdict.breaker, verdict.status) == (False, False, 429)


def test_edge_10_an_echoed_prompt_is_not_restated(book: RuleBook) -> None:
    """Ours reads the error's own words only ("Beyond the reference")."""
    body = {"error": {"message": "field required"}, "input": {"messages": [{"content": QUOTA}]}}
    assert book.restate(answer(400, body), provider="agentrouter", dialect=None) is None


@pytest.mark.parametrize("body", [b"\xff\xfe" * 100, b"x" * 10_000_000])
def test_edge_14_odd_bodies_pass_through(book: RuleBook, body: bytes) -> None:
    assert book.restate(answer(403, body), provider="agentrouter", dialect=None) is None


@pytest.mark.parametrize(
    ("body", "stream", "status", "kind"),
    [
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, False, 402, "credits_exhausted"),
        ({"error": {"message": "Internal Server Error", "code": 500}}, False, 500, "server_error"),
        ({"error": {"message": "Model busy", "code": 429}}, False, 429, "overloaded"),
        ({"error": {"message": "something"}}, False, 502, "server_error"),
        (
            'data: {"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}\n\n',
            True,
            429,
            "rate_limit",
        ),
        (
            'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
            True,
            529,
            "overloaded",
        ),
    ],
)
def test_an_error_inside_a_success_is_restated_to_its_true_status(
    book: RuleBook, body: Any, stream: bool, status: int, kind: str
) -> None:
    """Issue 3 point 4; A10."""
    verdict = book.judge(answer(200, body, stream=stream), provider="minimax", dialect=None, now=NOW)
    assert verdict.restatement is not None and verdict.restatement.rule == INSIDE_SUCCESS
    assert (verdict.kind, verdict.status, verdict.restatement.from_status) == (kind, status, 200)
    assert not verdict.breaker


def test_a11_the_wait_in_a_streams_error_text_is_read(book: RuleBook) -> None:
    text = 'event: error\ndata: {"type":"error","error":{"code":"rate_limit_exceeded","message":"Try again in 17 seconds."}}\n\n'
    verdict = book.judge(answer(200, text, stream=True), provider=None, dialect=None, now=NOW)
    assert verdict.retry_after is not None and verdict.retry_after.seconds == 17
    assert verdict.restatement is not None and verdict.restatement.retry_after_s == 17


GATEWAY = """
id: acme
hosts: [acme.example]
category: api_key
endpoints: {openai-chat: https://acme.example/v1/chat/completions}
restate:
  - id: acme-first
    when: {status: [403], text: [MONTHLY Cap]}
    unless: {text: [Closed]}
    status: 429
    retry_after: 90s
  - id: acme-second
    when: {status: [403], text: [cap]}
    status: 503
"""


def test_sr_14_a_gateway_is_added_by_a_file_alone(tmp_path: Path) -> None:
    """SR-8, SR-13, SR-14, SR-16, SR-19, SR-39, SR-40, SR-41: it needs no classification, and brings no verdict of its own"""
    (tmp_path / "acme.yaml").write_text(GATEWAY, encoding="utf-8")
    packs, problems = load_packs(
        [PackFolder(path=tmp_path, label="mine"), PackFolder(path=bundled_rules(), label="rules")]
    )
    assert problems == []
    book = RuleBook.build(packs.rules)

    def judged(words: str, provider: str = "acme") -> tuple[int, str, int]:
        verdict = book.judge(answer(403, words), provider=provider, dialect=None, now=NOW)
        return verdict.restatement.status if verdict.restatement else 0, verdict.rule.id, verdict.status

    assert judged("the monthly CAP is reached") == (429, "throttled", 429)
    assert judged("monthly cap, account closed") == (503, "unavailable", 503), "vetoed, and the search goes on"
    assert judged("monthly cap", provider="deepseek") == (0, "forbidden", 403)


def test_sr_30_both_a_marker_and_a_veto_keep_the_status(book: RuleBook) -> None:
    """SR-29, SR-30"""
    verdict = book.judge(answer(403, QUOTA + DENIED), provider="agentrouter", dialect=None, now=NOW)
    assert (verdict.status, verdict.scope, verdict.terminal) == (403, "model", False)
