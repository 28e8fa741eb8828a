"""Where a base_url puts a door: the table of its module text, by many examples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.base_url import door_url, filled_url, url_path
from omniroute_addon.model import DialectName, Endpoint

OPENAI = "https://api.openai.com/v1/chat/completions"
RESPONSES = "https://api.openai.com/v1/responses"
ANTHROPIC = "https://api.anthropic.com/v1/messages"
GEMINI = "https://generativelanguage.googleapis.com/v1beta/models/{model}:{method}"
GEMINI_AS_OPENAI = "https://generativelanguage.googleapis.com/v1beta/openai/chat/completions"
ZAI = "https://api.z.ai/api/paas/v4/chat/completions"
ZAI_ANTHROPIC = "https://api.z.ai/api/anthropic/v1/messages"
OPENROUTER = "https://openrouter.ai/api/v1/chat/completions"
CLOUDFLARE = "https://api.cloudflare.com/client/v4/accounts/{account}/ai/v1/chat/completions"
NEW_API = "https://{host}/v1/chat/completions"
AZURE = "https://{host}/openai/v1/chat/completions"
VERTEX = "https://aiplatform.googleapis.com/v1/publishers/google/models/{model}:{method}"
VERTEX_PROJECT = "/v1/projects/*/locations/*/publishers/google/models/{model}:{method}"


@pytest.mark.parametrize(
    ("dialect", "url", "base", "wanted"),
    [
        # without a path only scheme, host and port change
        ("openai-chat", OPENAI, "http://127.0.0.1:9000", "http://127.0.0.1:9000/v1/chat/completions"),
        ("openai-chat", OPENAI, "http://127.0.0.1:9000/", "http://127.0.0.1:9000/v1/chat/completions"),
        ("openai-chat", ZAI, "https://h", "https://h/api/paas/v4/chat/completions"),
        ("anthropic-messages", ANTHROPIC, "http://[::1]:9000", "http://[::1]:9000/v1/messages"),
        ("gemini", GEMINI, "http://localhost:9", "http://localhost:9/v1beta/models/{model}:{method}"),
        ("openai-chat", NEW_API, "https://gate.example", "https://gate.example/v1/chat/completions"),
        ("openai-chat", AZURE, "https://r.openai.azure.com", "https://r.openai.azure.com/openai/v1/chat/completions"),
        # a path that is a beginning of the door's own
        ("openai-chat", OPENAI, "https://h/v1", "https://h/v1/chat/completions"),
        ("openai-responses", RESPONSES, "https://h/v1", "https://h/v1/responses"),
        ("openai-chat", OPENROUTER, "https://h/api", "https://h/api/v1/chat/completions"),
        ("openai-chat", OPENROUTER, "https://h/api/v1", "https://h/api/v1/chat/completions"),
        ("openai-chat", AZURE, "https://r.azure.com/openai", "https://r.azure.com/openai/v1/chat/completions"),
        ("anthropic-messages", ZAI_ANTHROPIC, "https://h/api/anthropic", "https://h/api/anthropic/v1/messages"),
        ("openai-chat", GEMINI_AS_OPENAI, "https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
        (
            "openai-chat",
            CLOUDFLARE,
            "https://api.cloudflare.com/client/v4/accounts/abc/ai",
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1/chat/completions",
        ),
        (
            "openai-chat",
            CLOUDFLARE,
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1",
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1/chat/completions",
        ),
        # a path of another shape: only the dialect's own tail is kept
        ("openai-chat", OPENAI, "https://h/x/v1", "https://h/x/v1/chat/completions"),
        ("openai-chat", OPENAI, "https://h/x", "https://h/x/chat/completions"),
        ("openai-chat", ZAI, "https://h/v1", "https://h/v1/chat/completions"),
        ("openai-responses", RESPONSES, "https://h/x/v1", "https://h/x/v1/responses"),
        ("anthropic-messages", ANTHROPIC, "https://h/x/v1", "https://h/x/v1/messages"),
        ("anthropic-messages", ANTHROPIC, "https://h/anthropic", "https://h/anthropic/v1/messages"),
        ("gemini", GEMINI, "https://h/x/v1", "https://h/x/v1/models/{model}:{method}"),
        ("gemini", GEMINI, "https://h/x", "https://h/x/v1beta/models/{model}:{method}"),
        # the whole address
        ("openai-chat", OPENAI, "https://h/x/chat/completions", "https://h/x/chat/completions"),
        ("anthropic-messages", ANTHROPIC, "https://h/v1/messages/", "https://h/v1/messages"),
        # no base
        ("openai-chat", OPENAI, None, OPENAI),
        ("gemini", GEMINI, None, GEMINI),
        # what only a base can say
        ("openai-chat", NEW_API, None, None),
        ("openai-chat", CLOUDFLARE, None, None),
        ("openai-chat", CLOUDFLARE, "https://h", None),
        ("openai-chat", CLOUDFLARE, "https://h/client/v4", None),
    ],
)
def test_a_base_url_replaces_scheme_host_port_and_leading_path(
    dialect: DialectName, url: str, base: str | None, wanted: str | None
) -> None:
    assert door_url(Endpoint(dialect=dialect, url=url), base) == wanted


def test_a_base_may_be_a_beginning_of_an_alias() -> None:
    endpoint = Endpoint(dialect="gemini", url=VERTEX, aliases=("/**", VERTEX_PROJECT))
    base = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p-1/locations/europe-west1"
    assert door_url(endpoint, base) == f"{base}/publishers/google/models/{{model}}:{{method}}"
    assert door_url(endpoint, "https://h/v1") == "https://h/v1/publishers/google/models/{model}:{method}"


def test_an_alias_never_leaves_a_star_in_the_address() -> None:
    endpoint = Endpoint(dialect="openai-chat", url=OPENAI, aliases=("/x/*/chat",))
    assert door_url(endpoint, "https://h/x") == "https://h/x/chat/completions"


@given(st.from_regex(r"https://h(/[a-z0-9]{1,5}){0,4}", fullmatch=True))
def test_the_host_is_always_that_of_the_base_and_the_tail_that_of_the_dialect(base: str) -> None:
    url = door_url(Endpoint(dialect="openai-chat", url=OPENAI), base)
    assert url is not None
    assert url.startswith(base)
    assert url.endswith("/chat/completions")


@pytest.mark.parametrize(
    ("model", "stream", "wanted"),
    [
        ("gemini-2.5-pro", False, "https://h/models/gemini-2.5-pro:generateContent"),
        ("gemini-2.5-pro", True, "https://h/models/gemini-2.5-pro:streamGenerateContent"),
        ("../../x?y#z", False, "https://h/models/..%2F..%2Fx%3Fy%23z:generateContent"),
        ("a:b/c", True, "https://h/models/a%3Ab%2Fc:streamGenerateContent"),
        ("{method}", False, "https://h/models/%7Bmethod%7D:generateContent"),
    ],
)
def test_a_model_name_never_leaves_its_place_in_the_path(model: str, stream: bool, wanted: str) -> None:
    assert filled_url("https://h/models/{model}:{method}", model=model, stream=stream) == wanted


def test_an_address_without_placeholders_stays() -> None:
    assert filled_url(OPENAI, model="x", stream=True) == OPENAI


def test_the_path_of_an_address_with_placeholders() -> None:
    assert [url_path(u) for u in (OPENAI, NEW_API, "https://h")] == [
        "/v1/chat/completions",
        "/v1/chat/completions",
        "/",
    ]
