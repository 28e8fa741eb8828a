"""What a pack may say; every refusal with its whole text."""

from __future__ import annotations

import jsonschema
import pytest

from omniroute_addon.model import Auth, Endpoint
from omniroute_addon.pack_files import read_pack
from omniroute_addon.pack_schema import TRAITS, PackFile, pack_json_schema
from omniroute_addon.yaml_source import read_yaml

FULL = """\
id: acme
name: Acme
hosts: [API.Acme.example, "*.acme.example", "localhost:11434", "[::1]:80"]
category: oauth
endpoints:
  openai-chat: https://api.acme.example/v1/chat/completions
  anthropic-messages:
    url: http://localhost:11434/v1/messages
    aliases: ["/anthropic/**"]
    auth: {header: X-Api-Key}
auth: {query: key}
headers: {X-Version: "1"}
traits: [full_text]
quota_families: {big: ["m-*"]}
source: https://docs.acme.example
checked: 2026-11-30
restate: []
classify: []
"""


def pack(text: str) -> PackFile:
    source, problems = read_pack(text.encode(), file="p.yaml", stem="p")
    assert problems == []
    assert source is not None
    assert isinstance(source.lists, PackFile)
    return source.lists


def problem(text: str) -> str:
    source, problems = read_pack(f"id: acme\n{text}".encode(), file="p.yaml", stem="p")
    assert source is None
    assert len(problems) == 1
    return problems[0].removeprefix("p.yaml:")


def test_a_full_pack_is_read_as_written() -> None:
    found = pack(FULL)
    assert found.hosts == ["api.acme.example", "*.acme.example", "localhost:11434", "[::1]:80"]
    assert found.headers == {"x-version": "1"}
    assert found.source == ["https://docs.acme.example"]
    assert found.endpoints is not None
    assert found.endpoints["anthropic-messages"].endpoint("anthropic-messages") == Endpoint(
        dialect="anthropic-messages",
        url="http://localhost:11434/v1/messages",
        aliases=("/anthropic/**",),
        auth=Auth(header="x-api-key", scheme=""),
    )


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("{}", Auth(header="authorization", scheme="Bearer")),
        ("{header: Authorization}", Auth(header="authorization", scheme="Bearer")),
        ("{header: authorization, scheme: Token}", Auth(header="authorization", scheme="Token")),
        ("{header: x-api-key}", Auth(header="x-api-key", scheme="")),
        ('{header: x-api-key, scheme: ""}', Auth(header="x-api-key", scheme="")),
        ("{query: key}", Auth(header="", scheme="", query="key")),
    ],
)
def test_bearer_belongs_to_the_standard_header_only(written: str, wanted: Auth) -> None:
    auth = pack(f"id: a\nauth: {written}").auth
    assert auth is not None
    assert auth.auth() == wanted


def test_only_the_id_must_be_written() -> None:
    assert pack("id: acme").model_fields_set == {"id"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "hosts: [https://x.example]",
            "2:9: the host 'https://x.example' cannot be used. Write a name such as api.example.com, *.example.com or "
            "localhost:11434, without scheme or path.",
        ),
        (
            "hosts: [x:99999]",
            "2:9: the host 'x:99999' cannot be used. Write a name such as api.example.com, *.example.com or "
            "localhost:11434, without scheme or path.",
        ),
        (
            "category: apikey",
            "2:11: unknown category 'apikey'. Did you mean 'api_key'?\n  Known categories: api_key, local, oauth",
        ),
        (
            "traits: [per_model_qouta]",
            "2:10: unknown trait 'per_model_qouta'. Did you mean 'per_model_quota'?\n  Known traits: per_model_quota, "
            "passthrough_models, no_compressed_body, full_text, identify_only, honor_scope",
        ),
        (
            "endpoints: {openai: https://x/y}",
            "2:13: unknown dialect 'openai'. Did you mean 'openai-chat'?\n"
            "  Known dialects: openai-chat, openai-responses, gemini, anthropic-messages",
        ),
        (
            "endpoints: {gemini: 5}",
            "2:21: an endpoint must be a URL or `{url: …, aliases: …, auth: …}`, not '5'.",
        ),
        (
            "endpoints: {gemini: {}}",
            "2:13: 'url' is missing here. Add `url: …` (Absolute URL; `{model}` and `{method}` are filled in, other "
            "`{names}` come from a `base_url`).",
        ),
        (
            "endpoints: {gemini: /v1/x}",
            "2:21: the URL '/v1/x' cannot be used. Write an absolute one, https://host/path.",
        ),
        (
            "endpoints: {gemini: 'https://[x/y'}",
            "2:21: the URL cannot be parsed. Write it as https://host/path.",
        ),
        (
            "endpoints: {gemini: http://x.example/y}",
            "2:21: the URL 'http://x.example/y' would send credentials in the clear. Use https://.",
        ),
        (
            "endpoints: {gemini: http://127.0.0.1.evil.example/y}",
            "2:21: the URL 'http://127.0.0.1.evil.example/y' would send credentials in the clear. Use https://.",
        ),
        (
            "endpoints: {gemini: https://me:secret@x.example/y}",
            "2:21: a URL must not contain a user or password. Use `key:` and `headers:` for credentials.",
        ),
        (
            "endpoints: {gemini: https://x.example/y?key=1}",
            "2:21: a URL must have no query and no fragment here. Remove what follows '?' or '#'.",
        ),
        (
            "endpoints: {gemini: {url: https://x.example/y, aliases: [v1/x]}}",
            "2:58: the path 'v1/x' cannot be used. Begin it with '/', without query.",
        ),
        ("headers: {a b: x}", "2:11: the header name 'a b' cannot be used. Use letters, digits and '-'."),
        ('headers: {a: "x\\ny"}', "2:14: a header value must be one line of Latin-1 text."),
        (
            "auth: {query: k, header: x}",
            "2:7: `query` stands alone: remove `header` and `scheme`, or remove `query`.",
        ),
        ("auth: {query: a&b}", "2:7: the query parameter 'a&b' cannot be used. Use letters, digits and '-'."),
        ("checked: 2026-13", "2:10: the date '2026-13' cannot be read. Write it as 2026-01-31."),
        ("checked: today", "2:10: the date 'today' cannot be read. Write it as 2026-01-31."),
    ],
)
def test_a_wrong_fact_gets_its_sentence(text: str, wanted: str) -> None:
    assert problem(text) == wanted


@pytest.mark.parametrize("id_", ["Acme", "a b", "-a", "a-", "", "ä", "a b " * 17])
def test_an_id_is_safe_in_file_names_headers_and_logs(id_: str) -> None:
    _, problems = read_pack(f"id: '{id_}'".encode(), file="p.yaml", stem="p")
    shown = id_ if len(id_) < 61 else f"{id_[:60]}…"
    assert problems == [
        f"p.yaml:1:5: the id '{shown}' cannot be used. Use 1 to 64 lower-case letters, digits, '.', '_' or '-', "
        "with a letter or digit first and last."
    ]


def test_an_id_that_looks_like_a_credential_is_refused_without_being_repeated() -> None:
    assert read_pack(b"id: sk-planted-0123456789abcdef", file="p.yaml", stem="p")[1] == [
        "p.yaml:1:5: the id looks like a credential. Choose a name that may be shown."
    ]


def test_rules_are_checked_with_the_facts() -> None:
    assert problem("classify:\n  - id: r\n    when: {status: 429}\n    kind: quota_exausted\n").startswith(
        "5:11: unknown kind 'quota_exausted'. Did you mean 'quota_exhausted'?\n  Known kinds: quota_exhausted, "
    )


def test_a_month_is_date_enough() -> None:
    assert pack("id: a\nchecked: 2026-11").checked == "2026-11"


def test_every_trait_is_explained() -> None:
    assert all(meaning for meaning in TRAITS.values())
    assert pack(f"id: a\ntraits: [{', '.join(TRAITS)}]").traits == list(TRAITS)


def test_the_json_schema_accepts_what_we_accept_and_names_the_rest() -> None:
    schema = pack_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    assert list(check.iter_errors(read_yaml(FULL.encode(), file="p").data)) == []
    assert [e.validator for e in check.iter_errors({"id": "a", "bogus": 1})] == ["additionalProperties"]
    assert list(check.iter_errors({"id": "a", "endpoints": {"openai": "https://x/y"}}))
    assert all("description" in schema["properties"][name] for name in ("id", "hosts", "endpoints", "auth"))
