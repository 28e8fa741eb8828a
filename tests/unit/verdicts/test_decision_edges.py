"""The edge cases at the end of `spec/05`, as far as they are about what an answer means.

1 is the two tables; 5, 9, 11, 14, 16 to 19, 23 and 24 are in `plugins/test_answers_to_timers.py`; 12, 13 and 25 in
`test_rule_book.py`.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from verdict_rows import error

from omniroute_addon.model import Verdict
from omniroute_addon.verdicts.from_wire import answer_from_wire

Judge = Callable[..., Verdict]
QUOTA = "You exceeded your current quota, please check your plan and billing details"


def test_edge_2_googles_quota_sentence_means_a_minute_when_the_metric_does(judge: Judge) -> None:
    """FC-21"""
    violations = [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]
    body = error(QUOTA, status="RESOURCE_EXHAUSTED", details=[{"violations": violations}])
    verdict = judge(429, body, provider="gemini")
    assert (verdict.kind, verdict.reason, verdict.terminal) == ("rate_limit", "rate_limit_exceeded", False)


def test_edge_3_the_same_words_from_a_key_mean_money_and_a_bare_throttle_does_not(judge: Judge) -> None:
    """FC-22, FC-40"""
    assert judge(429, error(QUOTA), provider="together").kind == "credits_exhausted"
    throttle = judge(429, "too many requests", provider="together")
    assert (throttle.kind, throttle.cooldown_s) == ("rate_limit", None)


def test_edge_4_a_weeks_limit_rests_a_day_or_until_the_time_that_it_names(judge: Judge) -> None:
    """FC-25"""
    words = "You have reached your weekly usage limit"
    for provider in ("together", None):
        verdict = judge(429, error(words), provider=provider)
        assert (verdict.kind, verdict.cooldown_s, verdict.retry_after) == ("quota_exhausted", 86_400, None)
    named = judge(429, error(words + ". Your limit will reset at 2026-09-12 21:01:21"), provider="together")
    assert named.retry_after is not None and named.retry_after.absolute
    assert named.retry_after.seconds == 1_789_246_881 - 1_789_000_000


@pytest.mark.parametrize(("code", "again"), [(None, False), ("model_not_found", True)])
def test_edge_6_a_structured_code_says_more_than_a_bad_key_in_the_text(
    judge: Judge, code: str | None, again: bool
) -> None:
    """FC-63, FC-65"""
    assert judge(400, error("invalid api key for model X", code=code)).retry_other is again


def test_edge_7_permission_error_alone_is_no_matter_of_a_model(judge: Judge) -> None:
    """FC-64. The corpus beats "no fail-over" for the first: a disabled organisation is out, and others may serve."""
    assert judge(400, error("organization disabled", type="permission_error")).kind == "account_banned"
    denied = judge(400, error("no permission to use model X", type="permission_error"))
    assert (denied.kind, denied.retry_other) == ("model_access_denied", True)


def test_edge_8_a_model_that_is_not_served_and_one_that_is_not_allowed(judge: Judge) -> None:
    """FC-12, FC-62, FC-63. The corpus rotates in both cases; neither touches the account."""
    for words in ("model is not supported", "you do not have access to the model"):
        verdict = judge(400, error(words))
        assert (verdict.scope, verdict.terminal, verdict.retry_other) == ("model", False, True)


def test_edge_10_words_of_one_provider_mean_nothing_at_another(judge: Judge) -> None:
    """FC-54 to FC-57. Where the reference keeps text from a rule, ours keeps a rule to its provider's answers."""
    body = error("you have used up your daily free allocation of neurons")
    assert judge(429, body, provider="cloudflare-workers-ai").rule.id == "cloudflare-ai-daily-neuron-allocation"
    assert judge(429, body, provider="openai").rule.id != "cloudflare-ai-daily-neuron-allocation"


def test_edge_15_a_model_whose_name_holds_1010_is_no_firewall(judge: Judge) -> None:
    """FC-45"""
    verdict = judge(403, error("model foo-1010 is not supported"))
    assert (verdict.kind, verdict.scope) == ("model_access_denied", "model")


def test_edge_20_a_500_that_wraps_a_throttle(judge: Judge) -> None:
    """The corpus beats "still counts for the breaker": a 5xx that only wraps a limit opens none."""
    verdict = judge(500, error("too many requests"))
    assert (verdict.reason, verdict.breaker) == ("rate_limit_exceeded", False)


ODD = [
    b"x" * 10_000_000, b"\xff\xfe\x00", b"\x1f\x8b\x08\x00\x00", b"[]", b"null", b"{}", b"[[[[", b'{"a":' * 9999,
    b'"', b"\x00", b"[null]", b'{"error":null}', b'{"error":[]}', b"\xef\xbb\xbf{}",
]  # fmt: skip


@pytest.mark.parametrize("body", ODD, ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("status", [200, 400, 429, 503])
def test_edge_21_odd_bodies_are_judged_by_their_status(judge: Judge, status: int, body: bytes) -> None:
    verdict = judge(status, body)
    wanted = {200: ("ok", "network"), 400: ("invalid_request",), 429: ("rate_limit",), 503: ("overloaded",)}
    assert not verdict.terminal and verdict.kind in wanted[status]


def test_edge_21_a_compressed_body_is_read(judge: Judge) -> None:
    said = gzip.compress(json.dumps(error("Your account has been suspended")).encode())
    headers = {"content-encoding": "gzip", "content-type": "application/json"}
    heard = answer_from_wire(status=403, headers=headers, body=said, stream=False, dialect="openai-chat")
    assert judge(403, heard.answer.body, headers=dict(heard.answer.headers)).kind == "account_banned"


def test_edge_22_the_gap_patterns_are_linear(judge: Judge) -> None:
    """The figure, 50 ms, is kept by `test_verdict_laws.py`; here: the body means what its status means."""
    assert judge(400, b"model " * 100_000).kind == "invalid_request"


def test_a22_an_overflow_wrapped_in_a_500_is_an_overflow(judge: Judge) -> None:
    verdict = judge(500, error("provider error: This model's maximum context length is 8192 tokens"))
    assert (verdict.kind, verdict.retry_other, verdict.breaker) == ("context_overflow", False, False)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a21_a_bad_request_touches_nobody(judge: Judge, status: int) -> None:
    verdict = judge(status, error("messages: field required"))
    assert (verdict.scope, verdict.terminal, verdict.breaker, verdict.status) == ("request", False, False, status)


OPENED = b'data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'


@pytest.mark.parametrize(
    ("rest", "counts"),
    [(b"", True), (b'data: {"error":{"message":"Overloaded","type":"overloaded_error","code":529}}\n\n', False)],
)
def test_fc_72_a_failure_after_output_counts_as_it_would_before(judge: Judge, rest: bytes, counts: bool) -> None:
    """FC-71, FC-72: a stream cut off is the provider's failure, an overload in it is not (corpus); nothing is replayed"""
    head = {"content-type": "text/event-stream"}
    heard = answer_from_wire(status=200, headers=head, body=OPENED + rest, stream=True, dialect="openai-chat")
    verdict = judge(
        heard.answer.status, heard.answer.body, stream=True, phase=heard.answer.phase, fault=heard.answer.fault
    )
    assert (heard.committed, heard.failed, verdict.breaker) == (True, True, counts)
