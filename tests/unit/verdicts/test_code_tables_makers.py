"""The whole documented code tables of those who make models and serve them (issue 3, "To reach")."""

from __future__ import annotations

from typing import Any

import pytest
from code_tables import Judge, Row, message_shape, openai_shape, rows, typed_shape

# developers.openai.com/docs/guides/error-codes: the codes it names, and the sentences of its list
OPENAI = """
401 invalid_api_key                          auth_invalid
401 ip_not_authorized                        forbidden scope=egress_ip
403 unsupported_country_region_territory     forbidden scope=egress_ip terminal=no
404 model_not_found                          model_not_found
400 context_length_exceeded                  context_overflow
400 content_policy_violation                 content_policy
400 invalid_value,unknown_parameter          invalid_request
400 unsupported_parameter,unsupported_value  invalid_request
429 insufficient_quota                       credits_exhausted
429 credit_balance_exhausted                 credits_exhausted
429 billing_hard_limit_reached               credits_exhausted
429 organization_spend_limit_exceeded        quota_exhausted
429 project_spend_limit_exceeded             quota_exhausted
429 organization_usage_limit_exceeded        quota_exhausted
429 slow_down                                rate_limit
503 slow_down,server_is_overloaded           overloaded
"""
OPENAI_SENTENCES = """
400 - invalid_request | Invalid service_tier argument: The requested service tier is not allowed for this project.
401 - auth_invalid | Invalid Authentication
401 - auth_invalid | Incorrect API key provided
401 - forbidden | You must be a member of an organization to use the API
401 - forbidden scope=egress_ip | Your IP is not authorized
403 - forbidden scope=egress_ip terminal=no | Country, region, or territory not supported
429 - rate_limit | Rate limit reached for requests
429 - credits_exhausted | You exceeded your current quota, please check your plan and billing details
500 - server_error | The server had an error while processing your request
503 - overloaded | The engine is currently overloaded, please try again later
503 - overloaded | Slow Down
"""
# platform.claude.com/docs/en/api/errors; the types are the union of anthropic's SDK, and the one of the table beside it
ANTHROPIC = """
400 invalid_request_error   invalid_request
401 authentication_error    auth_invalid
402 billing_error           credits_exhausted
403 permission_error        forbidden
404 not_found_error         invalid_request
404 not_found_error         model_not_found | model: claude-opus-9
413 request_too_large       payload_too_large
429 rate_limit_error        rate_limit
500 api_error               server_error
504 timeout_error           timeout
529 overloaded_error        overloaded
"""
# docs.mistral.ai/resources/error-glossary: statuses; the numbers are from answers
MISTRAL = """
400 -         invalid_request
401 -         auth_invalid
402 -         credits_exhausted
402 -         quota_exhausted | You have reached your monthly spending limit.
403 -         forbidden | Workspace access forbidden
403 -         model_access_denied | This model is not available on your subscription tier
404 -         invalid_request
422 -         invalid_request
429 -         rate_limit
500 -         server_error
502 -         server_error
503 -         overloaded
504 -         timeout
"""
MISTRAL_CODES = """
429 1300      rate_limit
400 1500      model_not_found
400 3051      context_overflow
429 3505      overloaded scope=model
"""
# docs.x.ai/developers/debugging: statuses; `code` is a sentence
XAI = """
400 -  invalid_request     | The model expects a single `text` element per message.
400 -  auth_invalid        | Incorrect API key provided: x
401 -  auth_invalid        | No authorization header or an invalid authorization token is provided.
403 -  forbidden           | Access to the chat endpoint is denied.
403 -  account_banned      | Your API key is currently blocked, disabled or inactive
403 -  content_policy      | Content violates usage guidelines.
404 -  model_not_found     | The model x does not exist or your team does not have access to it.
404 -  invalid_request     | No handler found on route.
405 -  invalid_request     | Method not allowed
410 -  model_not_found     | The model grok-2 was deprecated.
415 -  invalid_request retry_other=yes | Expected request with `Content-Type: application/json`
422 -  invalid_request     | Failed to deserialize the JSON body into the target type
429 -  rate_limit scope=model | Too many requests for team x and model grok-4.
500 -  server_error        | Internal error
502 -  server_error        | Bad gateway
503 -  overloaded          | Service temporarily unavailable.
504 -  timeout             | Deadline expired
"""
# docs.cohere.com/reference/errors, and the statuses of Cohere's SDK that the page leaves out (403, 422)
COHERE = """
400 -  invalid_request    | invalid request: prompt must be at least 1 token long.
400 -  context_overflow   | too many tokens: total number of tokens in the prompt cannot exceed 4081
401 -  auth_invalid       | invalid api token
402 -  credits_exhausted  | Please add or update your payment method
403 -  forbidden          | forbidden
404 -  model_not_found    | model 'x' not found, make sure the correct model ID was used
404 -  invalid_request    | resource not found: dataset
422 -  invalid_request    | unprocessable entity
429 -  rate_limit         | trial token rate limit exceeded, limit is 100000 tokens per minute
429 -  quota_exhausted    | You are using a Trial key, which is limited to 1000 API calls / month.
498 -  content_policy     | blocked output: please try again or rephrase
499 -  timeout            | request cancelled
500 -  server_error       | internal server error
501 -  server_error       | not implemented
503 -  overloaded         | service unavailable
504 -  timeout            | upstream timed out
"""
# docs.perplexity.ai/guides/perplexity-sdk-error-handling: statuses; the types are from answers
PERPLEXITY = """
400 invalid_parameter,invalid_message,bad_request    invalid_request
400 invalid_model                                    model_not_found
401 invalid_api_key                                  auth_invalid
401 insufficient_quota                               credits_exhausted
429 request_rate_limit_exceeded                      rate_limit
"""
PERPLEXITY_STATUS = """
400 -  invalid_request
401 -  auth_invalid
403 -  forbidden | Forbidden
429 -  rate_limit
500 -  server_error
"""


def anthropic(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}, {}


def mistral(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"object": "error", "message": message, "type": None, "param": None, "code": code or None}, {}


def xai(_status: int, _code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"code": "x", "error": message}, {}


TABLES = [
    *rows("openai", openai_shape, OPENAI),
    *rows("openai", openai_shape, OPENAI_SENTENCES),
    *rows("anthropic", anthropic, ANTHROPIC, coded=False),
    *rows("mistral", mistral, MISTRAL),
    *rows("mistral", mistral, MISTRAL_CODES),
    *rows("xai", xai, XAI),
    *rows("cohere", message_shape, COHERE),
    *rows("perplexity", typed_shape, PERPLEXITY),
    *rows("perplexity", typed_shape, PERPLEXITY_STATUS),
]


@pytest.mark.parametrize("row", TABLES)
def test_every_documented_code_has_its_verdict(judge: Judge, row: Row) -> None:
    row.check(judge)
