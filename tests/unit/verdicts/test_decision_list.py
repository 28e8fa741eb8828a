"""The ordered decision list of spec/05, row by row; each body would also match a later row.

Rows without a meaning here, because they are about the bookkeeping of the reference or about later stages:

* FC-4, FC-5, FC-9 to FC-11, FC-71 to FC-92: state, breaker and persistence; the plugins' matter, not the verdict's.
* FC-16 (a rotation hook of the operator): the hook `classify` of `hookspecs.py`.
* FC-40, FC-46, FC-54 to FC-57 (quota words by class, allowlists): our phrases are searched in the provider's own words
  only and no throttle's sentence is among them, so no allowlist stands between a rule and its text.
* FC-41 to FC-43 (the instant of a daily reset): `retry_after.py` and the cooldown.
* Error types 14, 15, 17: what a class of login does with a verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from omniroute_addon.model import Verdict
from omniroute_addon.verdicts import RuleBook

Judge = Callable[..., Verdict]


def error(message: str = "", **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


CHALLENGE = "<html><script src='/cdn-cgi/challenge-platform/x'></script>access denied, too many requests</html>"
PER_MINUTE = error(
    "You exceeded your current quota, please check your plan and billing details",
    status="RESOURCE_EXHAUSTED",
    details=[{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}],
)
PER_DAY = error(
    "You exceeded your current quota, please check your plan and billing details",
    status="RESOURCE_EXHAUSTED",
    details=[{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}],
)

ROWS: list[tuple[str, int, Any, dict[str, Any], dict[str, Any]]] = [
    # row, status, body, how it is asked, what is wanted
    (
        "FC-7",
        404,
        error("input file x was not found, model not available"),
        {},
        {"kind": "invalid_request", "retry_other": False},
    ),
    (
        "FC-8",
        404,
        error("file-abc does not exist", code="model_not_found"),
        {},
        {"kind": "invalid_request", "retry_other": False},
    ),
    (
        "FC-13",
        500,
        error("rate limit", code="executor_contract_violation"),
        {},
        {"reason": "executor_contract_violation", "retry_other": False, "breaker": False},
    ),
    (
        "FC-14 code",
        400,
        error("quota exceeded", code="invalid_previous_response_binding"),
        {},
        {"reason": "invalid_previous_response_binding", "retry_other": False},
    ),
    (
        "FC-14 text",
        409,
        error("previous_response_id does not belong to you"),
        {},
        {"reason": "invalid_previous_response_binding", "retry_other": False},
    ),
    (
        "FC-15",
        503,
        "overloaded",
        {"headers": {"x-omni-fallback-hint": "connection_cooldown"}},
        {"reason": "service_not_running", "breaker": False, "retry_other": True},
    ),
    (
        "FC-17",
        500,
        error("Your account has been deactivated. Rate limit."),
        {},
        {"kind": "account_banned", "terminal": True},
    ),
    (
        "FC-18",
        404,
        error("The model x is no longer supported; quota exceeded"),
        {},
        {"kind": "model_not_found", "reason": "not_found"},
    ),
    ("FC-18 410", 410, error("model y has been retired"), {}, {"kind": "model_not_found"}),
    ("FC-19", 400, error("This endpoint has moved, too many requests"), {}, {"reason": "not_found"}),
    (
        "FC-20",
        403,
        error("Suspended because of an unpaid invoice; too many requests"),
        {},
        {"kind": "credits_exhausted", "terminal": True},
    ),
    (
        "FC-21 minute",
        429,
        PER_MINUTE,
        {"provider": "gemini"},
        {"kind": "rate_limit", "scope": "model", "reason": "rate_limit_exceeded", "terminal": False},
    ),
    (
        "FC-21 day",
        429,
        PER_DAY,
        {"provider": "gemini"},
        {"kind": "quota_exhausted", "scope": "model", "terminal": False},
    ),
    ("FC-22", 400, error("Insufficient balance, daily quota"), {}, {"kind": "credits_exhausted", "terminal": True}),
    ("FC-22 429", 429, error("You exceeded your current quota; too many requests"), {}, {"kind": "credits_exhausted"}),
    (
        "FC-23",
        429,
        error("today's quota is used up, limit reached: too many requests"),
        {},
        {"kind": "quota_exhausted", "terminal": False},
    ),
    (
        "FC-24",
        429,
        error("You have reached your usage limit. Too many requests."),
        {},
        {"kind": "quota_exhausted", "terminal": False},
    ),
    ("FC-25", 429, error("You have reached your weekly usage limit, rate limit"), {}, {"kind": "quota_exhausted"}),
    ("FC-26", 429, error("session limit reached, too many requests"), {}, {"kind": "quota_exhausted"}),
    ("FC-27", 429, error("quota will reset after 3h, too many requests"), {}, {"kind": "quota_exhausted"}),
    (
        "FC-28",
        429,
        error("Too many concurrent requests, rate limit"),
        {},
        {"kind": "concurrency_limited", "breaker": False},
    ),
    ("FC-28 CC-44", 429, error("Too many concurrent requests; usage limit reached"), {}, {"kind": "quota_exhausted"}),
    (
        "FC-29",
        403,
        error("Key is not authorized for this route, unauthorized"),
        {},
        {"retry_other": False, "terminal": False, "reason": "unknown"},
    ),
    (
        "FC-30",
        403,
        error("无权访问模型, quota exceeded"),
        {"provider": "agentrouter"},
        {"kind": "model_access_denied", "scope": "model", "reason": "auth_error"},
    ),
    (
        "FC-31",
        429,
        error("endpoint is unavailable, too many requests"),
        {"provider": "opencode-zen"},
        {"scope": "model", "reason": "model_capacity"},
    ),
    ("FC-32", 403, error("you may not"), {}, {"kind": "forbidden", "reason": "auth_error", "retry_other": True}),
    ("FC-33/4", 400, error("Rate limit hit, invalid value"), {}, {"kind": "rate_limit"}),
    ("FC-33/7", 403, error("quota has been exceeded"), {}, {"kind": "quota_exhausted"}),
    ("FC-33/13", 503, error("no capacity"), {}, {"kind": "overloaded", "reason": "model_capacity"}),
    ("FC-33/16", 401, error("no"), {}, {"kind": "auth_invalid", "reason": "auth_error"}),
    ("FC-33/17", 402, "", {}, {"kind": "credits_exhausted", "reason": "quota_exhausted"}),
    ("FC-33/19", 404, error("no such model"), {}, {"kind": "model_not_found", "scope": "model"}),
    ("FC-33/22", 429, "slow down", {}, {"kind": "rate_limit", "reason": "rate_limit_exceeded"}),
    ("FC-34", 413, "too large", {}, {"kind": "payload_too_large", "reason": "model_capacity", "retry_other": True}),
    ("FC-35 406", 406, "", {}, {"retry_other": True, "breaker": False}),
    ("FC-35 408", 408, "", {}, {"kind": "timeout", "reason": "server_error", "breaker": True}),
    ("FC-35 500", 500, "", {}, {"kind": "server_error", "reason": "server_error", "breaker": True}),
    ("FC-35 502", 502, "", {}, {"reason": "server_error", "breaker": True}),
    ("FC-35 503", 503, "", {}, {"retry_other": True, "breaker": True}),
    ("FC-35 504", 504, "", {}, {"reason": "server_error", "breaker": True}),
    ("FC-36", 432, error("plan"), {}, {"kind": "quota_exhausted"}),
    (
        "FC-62 overflow",
        400,
        error("The prompt is too long; malformed"),
        {},
        {"kind": "context_overflow", "reason": "model_capacity"},
    ),
    (
        "FC-62 degraded",
        400,
        error("Function x: DEGRADED function cannot be invoked"),
        {},
        {"kind": "overloaded", "scope": "model"},
    ),
    (
        "FC-63",
        400,
        error("invalid api key for model X", code="model_not_found"),
        {},
        {"kind": "model_not_found", "retry_other": True},
    ),
    ("FC-64 no", 400, error("organization disabled", type="permission_error"), {}, {"kind": "account_banned"}),
    (
        "FC-64 yes",
        400,
        error("no permission to use model X", type="permission_error"),
        {},
        {"kind": "model_access_denied", "retry_other": True},
    ),
    ("FC-65", 400, error("invalid api key for model X"), {}, {"kind": "invalid_request", "retry_other": False}),
    ("FC-66", 400, error("请求频繁"), {}, {"kind": "rate_limit", "scope": "connection"}),
    (
        "FC-67 400",
        400,
        error("messages: field required"),
        {},
        {"kind": "invalid_request", "retry_other": False, "reason": "unknown"},
    ),
    (
        "FC-67 422",
        422,
        {"detail": [{"msg": "field required", "type": "missing"}]},
        {},
        {"kind": "invalid_request", "retry_other": False},
    ),
    ("FC-38", 529, "", {}, {"kind": "overloaded", "reason": "model_capacity", "breaker": False}),
    ("FC-39", 418, "teapot", {}, {"terminal": False, "breaker": False}),
    ("FC-6", 0, "socket hang up", {}, {"status": 502, "breaker": True}),
    ("FC-6 start", 0, "", {"fault": "timeout:head"}, {"status": 504, "kind": "timeout"}),
    (
        "FC-68",
        400,
        error("Upstream request failed: Model is unavailable."),
        {"provider": "opencode-go"},
        {"scope": "model", "reason": "model_capacity"},
    ),
    # error types (stage 3)
    ("ET-1", 401, error("Your credit balance is too low, unauthorized"), {}, {"kind": "credits_exhausted"}),
    ("ET-1 S", 403, error("you have reached your usage limit"), {}, {"kind": "quota_exhausted"}),
    ("ET-5", 401, error("Expected OAuth 2 access token"), {}, {"kind": "auth_expired", "terminal": False}),
    (
        "ET-6",
        401,
        error("Model grok-4.6 is not supported for format oa-compat"),
        {},
        {"kind": "model_not_found", "terminal": False},
    ),
    ("ET-7", 401, error("this account is deactivated, unauthorized"), {}, {"kind": "account_banned"}),
    ("ET-8", 401, {"detail": "Unauthorized"}, {}, {"kind": "auth_invalid", "terminal": True}),
    (
        "ET-10 400",
        400,
        error("User location is not supported for the API use."),
        {"provider": "gemini"},
        {"kind": "forbidden", "scope": "egress_ip", "terminal": False},
    ),
    (
        "ET-10 403",
        403,
        error("region is not supported"),
        {},
        {"kind": "forbidden", "scope": "egress_ip", "terminal": False},
    ),
    ("ET-11 page", 403, CHALLENGE, {}, {"kind": "forbidden", "scope": "egress_ip", "terminal": False}),
    (
        "ET-11 1010",
        403,
        {"error_code": 1010, "message": "browser_signature_banned"},
        {},
        {"kind": "forbidden", "terminal": False},
    ),
    ("ET-12", 403, error("your account has been suspended"), {}, {"kind": "account_banned"}),
    (
        "ET-13",
        403,
        error("API has not been used in project x before or it is disabled", status="PERMISSION_DENIED"),
        {},
        {"kind": "forbidden"},
    ),
    ("ET-18", 403, "forbidden: access denied", {}, {"kind": "forbidden", "terminal": True}),
    ("ET-20", 422, error("gcp_project_required"), {}, {"kind": "forbidden"}),
    ("ET-21", 400, error("context window exceeded"), {}, {"kind": "context_overflow", "retry_other": False}),
    ("ET-22", 400, error("The model x is not supported"), {}, {"kind": "model_not_found"}),
    # edge cases at the end of spec/05
    ("edge 3", 429, "too many requests", {"provider": "together"}, {"kind": "rate_limit"}),
    (
        "edge 5",
        429,
        error("Monthly usage limit reached. Resets in 13 days"),
        {"provider": "opencode-zen"},
        {"kind": "quota_exhausted"},
    ),
    (
        "edge 8",
        400,
        error("you do not have access to the model"),
        {},
        {"kind": "model_access_denied", "retry_other": True},
    ),
    (
        "edge 9",
        403,
        error("无权访问模型"),
        {"provider": "deepseek"},
        {"kind": "model_access_denied", "terminal": False},
    ),
    ("edge 15", 403, error("model foo-1010 is not supported"), {}, {"kind": "model_access_denied", "scope": "model"}),
    ("edge 19", 429, error("concurrency limit"), {"headers": {"retry-after": "7"}}, {"kind": "concurrency_limited"}),
    # the corpus beats edge case 20 ("counts by its status"): a 5xx that only wraps a limit opens no breaker
    ("edge 20", 500, error("too many requests"), {}, {"reason": "rate_limit_exceeded", "breaker": False}),
    (
        "cloudflare-ai",
        429,
        error("you have used up your daily free allocation"),
        {"provider": "cloudflare-workers-ai"},
        {"kind": "quota_exhausted", "scope": "connection"},
    ),
    (
        "minimax header",
        429,
        error("limit"),
        {"provider": "minimax", "headers": {"x-model-quota-remaining": "a=1,b=0"}},
        {"kind": "quota_exhausted", "scope": "model"},
    ),
    (
        "openrouter 402",
        402,
        error("?"),
        {"provider": "openrouter"},
        {"reason": "quota_exhausted", "scope": "connection"},
    ),
    ("Q must not", 429, error("请求过于频繁，请稍后重试"), {}, {"kind": "rate_limit"}),
]


@pytest.mark.parametrize(("row", "status", "body", "asked", "wanted"), ROWS, ids=[row[0] for row in ROWS])
def test_row(judge: Judge, row: str, status: int, body: Any, asked: dict[str, Any], wanted: dict[str, Any]) -> None:
    verdict = judge(status, body, **asked)
    assert {name: getattr(verdict, name) for name in wanted} == wanted, verdict.rule


def test_edge_19_the_hint_of_a_concurrency_limit_is_kept(judge: Judge) -> None:
    wait = judge(429, error("concurrency limit"), headers={"retry-after": "7"}).retry_after
    assert wait is not None and wait.seconds == 7


def test_fc_51_the_deciding_rule_names_its_own_pause(book: RuleBook, judge: Judge) -> None:
    assert book.cooldown_s(judge(403, error("无权访问模型"), provider="agentrouter").rule) == 6 * 3600
    assert book.cooldown_s(judge(429, "slow down").rule) is None


@pytest.mark.parametrize(
    "body",
    [b"x" * 10_000_000, b"\xff\xfe\x00", b"\x1f\x8b\x08\x00\x00", b"[]", b"null", b"{}", b"[[[[", b'{"a":' * 9999],
)
@pytest.mark.parametrize("status", [200, 400, 429, 503])
def test_edge_21_odd_bodies_are_judged_by_their_status(judge: Judge, status: int, body: bytes) -> None:
    verdict = judge(status, body)
    assert not verdict.terminal
    assert (
        verdict.kind
        in {200: ("ok", "network"), 400: ("invalid_request",), 429: ("rate_limit",), 503: ("overloaded",)}[status]
    )


def test_a22_an_overflow_wrapped_in_a_500_is_an_overflow(judge: Judge) -> None:
    verdict = judge(500, error("provider error: This model's maximum context length is 8192 tokens"))
    assert (verdict.kind, verdict.retry_other, verdict.breaker) == ("context_overflow", False, False)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a21_a_bad_request_touches_nobody(judge: Judge, status: int) -> None:
    verdict = judge(status, error("messages: field required"))
    assert (verdict.scope, verdict.terminal, verdict.breaker, verdict.status) == ("request", False, False, status)
