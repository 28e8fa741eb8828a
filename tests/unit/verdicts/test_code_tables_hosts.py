"""The whole documented code tables of those who host or route models of others (issue 3, "To reach")."""

from __future__ import annotations

from typing import Any

import pytest
from code_tables import Judge, Row, message_shape, openai_shape, rows

# APIErrorType of OpenRouter's own SDK: its canonical words, the same in all its dialects
OPENROUTER = """
400 context_length_exceeded                         context_overflow
400 max_tokens_exceeded,invalid_request             invalid_request
400 invalid_prompt,string_too_long                  invalid_request
400 invalid_image,image_too_small                   invalid_request
400 unsupported_image_format,image_not_found        invalid_request
400 image_download_failed                           invalid_request
400 image_too_large,token_limit_exceeded            payload_too_large
402 weight_exceeds_budget                           payload_too_large
400 content_policy_violation,refusal                content_policy
401 authentication                                  auth_invalid
402 payment_required                                credits_exhausted
403 permission_denied                               forbidden
404 not_found                                       model_not_found
412 precondition_failed                             invalid_request
413 payload_too_large                               payload_too_large
422 unprocessable                                   invalid_request
429 rate_limit_exceeded                             rate_limit
500 server                                          server_error
502 provider_unavailable                            server_error scope=model
503 provider_overloaded                             overloaded scope=model
408 timeout                                         timeout
"""
# openrouter.ai/docs/api/reference/errors-and-debugging, and what stands in `metadata` beside the status
OPENROUTER_STATUS = """
400 -  invalid_request
401 -  auth_invalid
402 -  credits_exhausted
403 -  forbidden
404 -  model_not_found | No endpoints found for x/y.
408 -  timeout
413 -  payload_too_large
422 -  invalid_request
429 -  rate_limit
500 -  server_error
500 unmapped  server_error
400 unmapped  invalid_request
502 -  server_error
503 -  overloaded
524 -  timeout
529 -  overloaded scope=model
"""
OPENROUTER_BUDGET = """
402 openrouter_credits             credits_exhausted
402 openrouter_in_flight_budget    concurrency_limited
402 openrouter_key_limit           quota_exhausted
402 openrouter_workspace_budget    quota_exhausted
403 openrouter_key_limit           quota_exhausted
"""
# console.groq.com/docs/errors: statuses; the codes are from its pages and answers
GROQ = """
400 -  invalid_request
401 -  auth_invalid
403 -  forbidden | Forbidden
404 -  invalid_request
413 -  payload_too_large
422 -  invalid_request retry_other=yes
424 -  invalid_request
429 -  rate_limit
498 -  overloaded scope=model | Flex tier capacity exceeded.
499 -  timeout
500 -  server_error
502 -  server_error
503 -  overloaded
"""
GROQ_CODES = """
400 tool_use_failed,json_validate_failed                               invalid_request retry_other=yes
400 model_decommissioned,model_not_active                              model_not_found
400 organization_restricted                                            account_banned
400 blocked_api_access                                                 quota_exhausted
400 context_length_exceeded                                            context_overflow
401 invalid_api_key,expired_api_key                                    auth_invalid
403 model_permission_blocked_project,model_permission_blocked_org      model_access_denied
400 model_terms_required                                               model_access_denied
404 model_not_found                                                    model_not_found
498 capacity_exceeded                                                  overloaded scope=model
"""
# docs.together.ai/docs/error-codes
TOGETHER = """
400 -  invalid_request    | Misconfigured request
401 -  auth_invalid       | Missing or invalid API key
402 -  quota_exhausted    | The account has reached its maximum allowed monthly spending limit.
403 -  context_overflow   | Input token count + max_tokens must be less than the context length of the model being queried.
404 -  model_not_found    | Invalid model name
404 -  invalid_request    | Invalid endpoint URL
413 -  payload_too_large  | Request payload too large
429 -  rate_limit         | Too many requests have been sent in a short period of time.
500 -  server_error       | Internal server error
503 -  overloaded         | Engine overloaded
504 -  timeout            | Timeout error
524 -  timeout            | Cloudflare timeout
529 -  overloaded         | Server error
"""
# docs.fireworks.ai/guides/inference-error-codes
FIREWORKS = """
400 -  invalid_request    | bad request
401 -  auth_invalid       | unauthorized
402 -  credits_exhausted  | payment required
403 -  forbidden          | forbidden
403 -  auth_invalid       | The API key you provided is invalid.
404 -  model_not_found    | Model not found, inaccessible, and/or not deployed
405 -  invalid_request    | method not allowed
408 -  timeout            | request timeout
412 -  credits_exhausted  | Account x is suspended
412 -  model_not_found    | LoRA addon failed to load
413 -  payload_too_large  | payload too large
422 -  invalid_request    | unprocessable entity
429 -  rate_limit         | too many requests
500 -  server_error       | internal server error
502 -  server_error       | bad gateway
503 -  overloaded         | service unavailable
504 -  timeout            | gateway timeout
520 -  network            | unknown error
"""
# inference-docs.cerebras.ai/support/error: the error stands at the root
CEREBRAS = """
400 context_length_exceeded                         context_overflow
400 tool_use_failed,incomplete_generation           invalid_request retry_other=yes
401 wrong_api_key                                   auth_invalid
402 payment_required                                credits_exhausted
404 model_not_found                                 model_not_found
429 request_quota_exceeded,token_quota_exceeded     rate_limit scope=model
429 request_quota_exceeded                          quota_exhausted scope=model | Requests per day limit exceeded
429 queue_exceeded                                  overloaded scope=model
"""
CEREBRAS_STATUS = """
400 -  invalid_request
401 -  auth_invalid
403 -  forbidden | Forbidden
408 -  timeout
409 -  invalid_request
422 -  invalid_request
429 -  rate_limit
500 -  server_error
503 -  overloaded
"""


def openrouter_typed(status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"error": {"code": status, "message": message, "metadata": {"error_type": code}}}, {}


def openrouter(status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    metadata = {"metadata": {"error_type": code}} if code else {}
    return {"error": {"code": status, "message": message, **metadata}, "user_id": "user_1"}, {}


def openrouter_budget(status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"error": {"code": status, "message": message, "metadata": {"limit_source": code}}}, {}


def at_root(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"message": message, "type": None, "param": None, "code": code or None}, {}


TABLES = [
    *rows("openrouter", openrouter_typed, OPENROUTER),
    *rows("openrouter", openrouter, OPENROUTER_STATUS, coded=False),
    *rows("openrouter", openrouter_budget, OPENROUTER_BUDGET, door="-budget"),
    *rows("groq", openai_shape, GROQ),
    *rows("groq", openai_shape, GROQ_CODES),
    *rows("together", openai_shape, TOGETHER),
    *rows("fireworks", openai_shape, FIREWORKS),
    *rows("fireworks", message_shape, FIREWORKS, door="-plain"),
    *rows("cerebras", at_root, CEREBRAS),
    *rows("cerebras", at_root, CEREBRAS_STATUS),
]


@pytest.mark.parametrize("row", TABLES)
def test_every_documented_code_has_its_verdict(judge: Judge, row: Row) -> None:
    row.check(judge)
