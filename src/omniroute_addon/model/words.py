"""The words that values are made of: what may stand in a field."""

from __future__ import annotations

from typing import Literal, get_args

DialectName = Literal["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
DIALECTS: tuple[DialectName, ...] = get_args(DialectName)

Category = Literal["oauth", "api_key", "local"]
"""How a provider's connections log in; picks the default figures (`CC-12`, `CC-13`)."""

Kind = Literal[
    "rate_limit",
    "quota_exhausted",
    "concurrency_limited",
    "credits_exhausted",
    "auth_invalid",
    "auth_expired",
    "forbidden",
    "account_banned",
    "request_rejected",
    "model_not_found",
    "model_access_denied",
    "context_overflow",
    "invalid_request",
    "content_policy",
    "payload_too_large",
    "overloaded",
    "server_error",
    "timeout",
    "network",
    "ok",
]
"""What an answer means: the twenty kinds of `corpus/README.md`."""
KINDS: tuple[Kind, ...] = get_args(Kind)

Scope = Literal["request", "model", "connection", "provider", "egress_ip"]
"""Whom an answer says something about."""
SCOPES: tuple[Scope, ...] = get_args(Scope)

Repair = Literal["signed_reasoning"]
"""Parts of a request that belong to the account that made them: `signed_reasoning` are signed or encrypted thoughts."""

Phase = Literal["connect", "head", "body", "stream"]
"""How far an attempt had come: no answer yet, error head, whole body, or inside an event stream."""
