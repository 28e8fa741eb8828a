"""The whole documented code tables of the clouds (issue 3, "To reach"): nobody can lose a code unseen."""

from __future__ import annotations

from typing import Any

import pytest
from code_tables import Judge, Row, message_shape, openai_shape, rows

# The exceptions of bedrock-runtime in botocore's service-2.json, then docs.aws.amazon.com/bedrock/latest/userguide/
# troubleshooting-api-error-codes.html, then the common errors of every AWS service.
BEDROCK = """
403 AccessDeniedException                          forbidden
403 AccessDeniedException                          model_access_denied | You don't have access to the model
400 ConflictException                              invalid_request
500 InternalServerException                        server_error
424 ModelErrorException,ModelStreamErrorException  server_error
429 ModelNotReadyException                         overloaded scope=model
408 ModelTimeoutException                          timeout
404 ResourceNotFoundException                      model_not_found
400 ServiceQuotaExceededException                  quota_exhausted
503 ServiceUnavailableException                    overloaded
429 ThrottlingException                            rate_limit
429 ThrottlingException                            quota_exhausted | Too many tokens per day, please wait before trying again.
400 ValidationException                            invalid_request
400 ValidationException                            context_overflow | Input is too long for requested model.

403 BadCScoreException,OptInRequired               model_access_denied
404 FTUFormNotFilled                               model_access_denied
403 MPAgreementBeingCreated                        model_access_denied
400 IncompleteSignature                            auth_invalid
403 InvalidClientTokenId                           auth_invalid
500 InternalFailure                                server_error
400 InvalidAction,ValidationError                  invalid_request
400 NotAuthorized                                  forbidden
400 RequestExpired                                 auth_expired
404 ResourceNotFound                               model_not_found
503 ServiceUnavailable                             overloaded

403 ExpiredTokenException                          auth_expired
400 MalformedHttpRequestException                  invalid_request
404 UnknownOperationException                      invalid_request
413 RequestEntityTooLargeException                 payload_too_large
408 RequestTimeoutException                        timeout
400 RequestAbortedException                        network
403 UnrecognizedClientException                    auth_invalid
"""
# google/rpc/code.proto, as HTTP
GOOGLE_STATUS = """
499 CANCELLED             server_error
500 UNKNOWN,INTERNAL      server_error
500 DATA_LOSS             server_error
409 ABORTED               server_error
400 INVALID_ARGUMENT      invalid_request
400 OUT_OF_RANGE          invalid_request
400 FAILED_PRECONDITION   invalid_request
409 ALREADY_EXISTS        invalid_request
501 UNIMPLEMENTED         invalid_request retry_other=yes
404 NOT_FOUND             invalid_request
404 NOT_FOUND             model_not_found | models/x is not found for API version v1beta
504 DEADLINE_EXCEEDED     timeout
403 PERMISSION_DENIED     forbidden
401 UNAUTHENTICATED       auth_invalid
429 RESOURCE_EXHAUSTED    rate_limit | Resource has been exhausted (e.g. check quota).
503 UNAVAILABLE           overloaded
"""
# google/api/error_reason.proto, then the reasons of Cloud Code
GOOGLE_REASON = """
403 SERVICE_DISABLED,API_KEY_SERVICE_BLOCKED,SERVICE_NOT_VISIBLE          forbidden
403 BILLING_DISABLED                                                      credits_exhausted
400 API_KEY_INVALID                                                       auth_invalid
403 API_KEY_HTTP_REFERRER_BLOCKED,API_KEY_ANDROID_APP_BLOCKED             forbidden
403 API_KEY_IOS_APP_BLOCKED,CREDENTIAL_ANDROID_APP_INVALID                forbidden
403 API_KEY_IP_ADDRESS_BLOCKED,SECURITY_POLICY_VIOLATED                   forbidden scope=egress_ip
429 RATE_LIMIT_EXCEEDED                                                   rate_limit
429 RESOURCE_QUOTA_EXCEEDED,EMULATOR_QUOTA_EXCEEDED                       quota_exhausted
403 LOCATION_TAX_POLICY_VIOLATED,LOCATION_POLICY_VIOLATED                 forbidden
403 LOCATION_ORG_POLICY_VIOLATED,RESOURCE_USAGE_RESTRICTION_VIOLATED      forbidden
403 ENDPOINT_USAGE_RESTRICTION_VIOLATED,ORG_RESTRICTION_VIOLATION         forbidden
403 TLS_ORG_POLICY_VIOLATED,TLS_CIPHER_RESTRICTION_VIOLATED               forbidden
403 USER_PROJECT_DENIED,CONSUMER_INVALID,USER_BLOCKED_BY_ADMIN            forbidden
403 ACCESS_TOKEN_SCOPE_INSUFFICIENT,IAM_PERMISSION_DENIED                 forbidden
403 MCP_SERVER_DISABLED                                                   forbidden
400 RESOURCE_PROJECT_INVALID                                              forbidden
403 CONSUMER_SUSPENDED,GCP_SUSPENDED                                      account_banned
401 ACCESS_TOKEN_EXPIRED                                                  auth_expired
401 ACCOUNT_STATE_INVALID,ACCESS_TOKEN_TYPE_UNSUPPORTED                   auth_invalid
401 CREDENTIALS_MISSING,SESSION_COOKIE_INVALID,JWT_TOKEN_INVALID          auth_invalid
401 CREDENTIAL_TYPE_UNSUPPORTED,ACCOUNT_TYPE_UNSUPPORTED                  auth_invalid
400 SYSTEM_PARAMETER_UNSUPPORTED,ORG_RESTRICTION_HEADER_INVALID           invalid_request
400 MISSING_ORIGIN,OVERLOADED_CREDENTIALS                                 invalid_request

429 MODEL_CAPACITY_EXHAUSTED                                              overloaded scope=model
429 QUOTA_EXHAUSTED                                                       quota_exhausted scope=model
403 VALIDATION_REQUIRED                                                   account_banned
"""
# ai.google.dev/gemini-api/docs/api-errors: the Interactions API
GEMINI_INTERACTIONS = """
400 invalid_request,parameter_unknown,out_of_range   invalid_request
400 failed_precondition                              forbidden | Billing is disabled for this project.
401 authentication                                   auth_invalid
402 payment_required                                 credits_exhausted
403 permission_denied                                forbidden
404 model_not_found                                  model_not_found
404 not_found                                        invalid_request
429 rate_limit_exceeded                              rate_limit scope=model
429 quota_exceeded                                   quota_exhausted scope=model
"""
# learn.microsoft.com/azure/foundry/openai/how-to/troubleshoot-errors; the codes are those of its answers
AZURE = """
400 content_filter                          content_policy
400 context_length_exceeded                 context_overflow
400 OperationNotSupported                   model_not_found
401 PermissionDenied                        forbidden
404 DeploymentNotFound                      model_not_found
429 NoCapacity,EngineOverloaded             overloaded scope=model
"""
AZURE_STATUS = """
400 400  invalid_request | Unrecognized request argument supplied: x
401 401  auth_invalid    | Access denied due to invalid subscription key or wrong API endpoint.
401 401  auth_expired    | Unauthorized. Access token is missing, invalid, audience is incorrect, or have expired.
403 403  forbidden scope=egress_ip | Access denied due to Virtual Network/Firewall rules.
403 403  account_banned  | Your resource has been temporarily blocked because we detected behavior that may violate our policy.
404 404  invalid_request | Resource not found
429 429  rate_limit      | Rate limit is exceeded. Try again in 30 seconds.
429 429  rate_limit scope=model | Requests to the X Operation have exceeded token rate limit of your tier.
500 500  server_error
503 503  overloaded
"""
# developers.cloudflare.com/workers-ai/platform/errors; 4006 was seen in answers
CLOUDFLARE = """
400 5007                   model_not_found
400 5004,3039,3003         invalid_request
403 5018,3041,5016         model_access_denied
403 3023                   account_banned
405 5019                   request_rejected
405 5005                   invalid_request retry_other=yes
404 3042                   model_not_found
413 3006                   payload_too_large
408 3007,3008              timeout
429 3036,4006              quota_exhausted
429 3040                   overloaded scope=model
"""


def bedrock_header(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"message": message}, {"x-amzn-errortype": f"{code}:http://internal.amazon.com/coral/com.amazon.bedrock/"}


def bedrock_body(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"__type": f"com.amazon.coral.service#{code}", "message": message}, {}


def google_status(status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"error": {"code": status, "message": message, "status": code}}, {}


GOOGLE_WORD = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}


def google_reason(status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "googleapis.com"}
    error = {"code": status, "message": message, "status": GOOGLE_WORD[status], "details": [detail]}
    return {"error": error}, {}


def cloudflare(_status: int, code: str, message: str) -> tuple[Any, dict[str, str]]:
    return {"result": None, "success": False, "errors": [{"code": int(code), "message": message}], "messages": []}, {}


TABLES = [
    *rows("bedrock", bedrock_header, BEDROCK),
    *rows("bedrock", bedrock_body, BEDROCK, door="-body"),
    *(row for provider in ("gemini", "vertex") for row in rows(provider, google_status, GOOGLE_STATUS)),
    *(row for provider in ("gemini", "vertex") for row in rows(provider, google_reason, GOOGLE_REASON)),
    *rows("gemini", openai_shape, GEMINI_INTERACTIONS),
    *rows("azure-openai", openai_shape, AZURE),
    *rows("azure-openai", openai_shape, AZURE_STATUS, coded=False),
    *rows("azure-openai", message_shape, AZURE_STATUS, coded=False, door="-management"),
    *rows("cloudflare-workers-ai", cloudflare, CLOUDFLARE),
]


@pytest.mark.parametrize("row", TABLES)
def test_every_documented_code_has_its_verdict(judge: Judge, row: Row) -> None:
    row.check(judge)
