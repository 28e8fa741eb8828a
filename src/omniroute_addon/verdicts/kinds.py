"""What follows from a kind, unless a rule says otherwise.

A table in code and not in YAML: it is the meaning of the word `Kind` itself, checked by the type checker to be
complete, and no pack may redefine it. A rule overrides single fields for its own answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from omniroute_addon.model import Kind, Scope

from .schema_values import Reason


@dataclass(frozen=True, slots=True)
class Row:
    """The default decision of one kind."""

    scope: Scope
    retry_other: bool
    terminal: bool
    retry_same: bool
    reason: Reason
    status: int
    """What a client is told where the upstream named no status of its own (an error inside a 200, no answer)."""
    upstream_fault: bool = False
    """A failure of the provider as such: counts for the breaker when its status is one of `BREAKER_STATUSES`."""


BY_KIND: Final[dict[Kind, Row]] = {
    #                          scope        other  terminal same   reason                 status
    "rate_limit": Row("connection", True, False, False, "rate_limit_exceeded", 429),
    "quota_exhausted": Row("connection", True, False, False, "quota_exhausted", 429),
    "concurrency_limited": Row("connection", True, False, False, "concurrency_limited", 429),
    "credits_exhausted": Row("connection", True, True, False, "quota_exhausted", 402),
    "auth_invalid": Row("connection", True, True, False, "auth_error", 401),
    "auth_expired": Row("connection", True, False, False, "auth_error", 401),
    "forbidden": Row("connection", True, True, False, "auth_error", 403),
    "account_banned": Row("connection", True, True, False, "auth_error", 403),
    "request_rejected": Row("request", True, False, False, "unknown", 403),
    "model_not_found": Row("model", True, False, False, "not_found", 404),
    "model_access_denied": Row("model", True, False, False, "auth_error", 403),
    "context_overflow": Row("request", False, False, False, "model_capacity", 400),
    "invalid_request": Row("request", False, False, False, "unknown", 400),
    "content_policy": Row("request", False, False, False, "unknown", 400),
    "payload_too_large": Row("request", True, False, False, "model_capacity", 413),
    "overloaded": Row("provider", True, False, True, "model_capacity", 503, upstream_fault=True),
    "server_error": Row("provider", True, False, True, "server_error", 502, upstream_fault=True),
    "timeout": Row("provider", True, False, False, "server_error", 504, upstream_fault=True),
    "network": Row("provider", True, False, True, "server_error", 502, upstream_fault=True),
    "ok": Row("request", False, False, False, "unknown", 200),
}

BREAKER_STATUSES: Final = frozenset({0, 408, 500, 502, 503, 504, *range(520, 528), 530})
"""`CB-11`, and Cloudflare's own for a dead origin; 529 is a busy provider, not a broken one."""

BY_REASON: Final[dict[Reason, Kind]] = {
    "quota_exhausted": "quota_exhausted",
    "rate_limit_exceeded": "rate_limit",
    "model_capacity": "overloaded",
    "server_error": "server_error",
    "auth_error": "auth_invalid",
    "unknown": "invalid_request",
    "not_found": "model_not_found",
    "concurrency_limited": "concurrency_limited",
    "service_not_running": "network",
    "provider_model_unsupported": "model_not_found",
    "invalid_previous_response_binding": "invalid_request",
    "executor_contract_violation": "invalid_request",
}
"""The kind that a rule means which only gives the reference's reason (`FC-59`)."""
