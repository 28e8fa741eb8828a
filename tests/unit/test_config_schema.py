"""What `omniroute.yaml` may say; every refusal with its whole text."""

from __future__ import annotations

import jsonschema
import pytest

from omniroute_addon.config_schema import ConfigFile, config_json_schema
from omniroute_addon.input_problems import validate
from omniroute_addon.yaml_source import read_yaml

PLANTED = "sk-planted-0123456789abcdef"
FULL = """\
connections:
  - id: work
    provider: openai
    key: env:KEY
    base_url: http://127.0.0.1:9000/
    models: {gpt-5: big, gpt-4*: ~}
    priority: -1
    weight: 2
    max_concurrent: 3
    via: http://proxy.example:3128
    headers: {X-Team: a}
    disable_cooling: true
    allow_insecure: false
  - {id: home, provider: openai, key: "keyring:home", models: [gpt-*, o3]}
  - {id: far, provider: openai, key: "env:K", models: o3, base_url: "http://h.example", allow_insecure: true}
routes:
  - {provider: openai, model: "gpt-5*", connections: [work, home, client]}
  - {connections: [work]}
settings:
  idle_timeout_ms: 5
providerErrorRules:
  openai:
    - {status: 429, match: slow, scope: model, reason: model_capacity, cooldownMs: 5}
    - {status: 400, match: fast, scope: connection, cooldown_ms: 6}
"""


def problem(text: str) -> str:
    value, problems = validate(ConfigFile, read_yaml(text.encode(), file="o.yaml"))
    assert value is None
    assert len(problems) == 1
    assert PLANTED not in problems[0]
    return problems[0].removeprefix("o.yaml:")


def test_a_full_file_is_read_as_written() -> None:
    found, problems = validate(ConfigFile, read_yaml(FULL.encode(), file="o.yaml"))
    assert problems == []
    assert found is not None
    work, home, far = found.connections
    assert (work.base_url, work.via, work.headers) == (
        "http://127.0.0.1:9000",
        "http://proxy.example:3128",
        {"x-team": "a"},
    )
    assert work.models == {"gpt-5": "big", "gpt-4*": None}
    assert home.models == {"gpt-*": None, "o3": None}
    assert far.base_url == "http://h.example"
    assert (found.routes[1].provider, found.routes[1].model) == ("*", "*")
    rules = found.provider_error_rules["openai"]
    assert [(r.reason, r.cooldown_ms) for r in rules] == [("model_capacity", 5), ("quota_exhausted", 6)]


def test_everything_may_be_left_out() -> None:
    assert validate(ConfigFile, read_yaml(b"connections:\nroutes:\nsettings:\n", file="o"))[0] == ConfigFile()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            f"key: {PLANTED}",
            "1:40: a credential is given by reference, never written here. Write env:NAME, file:PATH or keyring:NAME, "
            "and if what stood here is a real key, replace it.",
        ),
        (f"key: {{{PLANTED}: 1}}", "1:40: 'key' must be text. Put it in quotes."),
        (
            f"key: env:{PLANTED}",
            "1:40: the name after 'env:' cannot be used. Write env:NAME, file:PATH or keyring:NAME.",
        ),
        (
            "base_url: http://h.example",
            "1:15: `base_url` would send the credential in the clear to another machine. Use https://, or write "
            "`allow_insecure: true` if you accept that.",
        ),
        (
            f"base_url: 'https://me:{PLANTED}@h.example'",
            "1:45: a URL must not contain a user or password. Use `key:` and `headers:` for credentials.",
        ),
        (
            "base_url: 'https://h.example/{x}'",
            "1:45: a base_url must not contain braces. Fill in the real address.",
        ),
        ("base_url: [https://h.example]", "1:45: 'base_url' must be text. Put it in quotes."),
        (
            "via: http://proxy.example",
            "1:40: `via` is an upstream proxy. Write it as http://host:port or https://host:port.",
        ),
        (
            f"via: 'http://me:{PLANTED}@proxy.example:1'",
            "1:40: a URL must not contain a user or password. Use `key:` and `headers:` for credentials.",
        ),
        (
            f"headers: {{Authorization: Bearer {PLANTED}}}",
            "1:44: the header 'authorization' carries a credential. Give it by reference instead: "
            "`key: env:NAME, file:PATH or keyring:NAME`.",
        ),
        (f"headers: {{X-A: [{PLANTED}]}}", "1:50: 'X-A' must be text. Put it in quotes."),
        ("headers: {Host: x}", "1:44: the header 'host' is set by the proxy itself. Remove it."),
        ("headers: {X-Omniroute-Y: x}", "1:44: the header 'x-omniroute-y' is set by the proxy itself. Remove it."),
        ("models: [a, 1]", "1:43: every entry of 'models' must be text. Write a model's name or a glob, in quotes."),
        ("models: 5", "1:43: 'models' must be a mapping, not '5'. Write `name: value` lines below it."),
        ("max_concurrent: 0", "1:51: 'max_concurrent' must be at least 1, not '0'."),
        (f"api_key: {PLANTED}", "1:35: unknown key 'api_key'. Did you mean 'key'?"),
        (f"keys: {PLANTED}", "1:35: unknown key 'keys'. Did you mean 'key'?"),
    ],
)
def test_a_wrong_connection_gets_its_sentence(line: str, wanted: str) -> None:
    found = problem(f"connections: [{{id: a, provider: o,{line}}}]")
    assert found.partition("\n  Known")[0] == wanted


@pytest.mark.parametrize("id_", ["client", "client:abc"])
def test_the_name_of_the_clients_own_credential_is_taken(id_: str) -> None:
    assert "id" in problem(f"connections: [{{id: '{id_}', provider: openai}}]")


def test_a_route_names_a_connection_once() -> None:
    assert problem("routes: [{connections: [a, b, a]}]") == (
        "1:24: connection 'a' stands in the route twice. Keep one of them."
    )
    assert problem("routes: [{connections: []}]") == "1:24: 'connections' must have at least 1 entries."


def test_operator_rules_are_bounded_over_all_providers() -> None:
    """FC-60"""
    rule = "{status: 429, match: x, scope: model}"
    rules = ", ".join([rule] * 26)
    assert problem(f"providerErrorRules:\n  a: [{rules}]\n  b: [{rules}]\n") == (
        "2:3: there are 52 operator rules, over all providers at most 50 are allowed (FC-60). "
        "Put rules into a pack of your own instead."
    )
    assert problem("providerErrorRules: {a: [{status: 429, match: x, scope: modl}]}") == (
        "1:57: unknown scope 'modl'. Did you mean 'model'?\n  Known scopes: model, provider, connection"
    )


def test_the_json_schema_accepts_what_we_accept_and_names_the_rest() -> None:
    schema = config_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    data = read_yaml(FULL.replace("cooldownMs", "cooldown_ms").encode(), file="o").data
    assert list(check.iter_errors(data)) == []
    assert [e.validator for e in check.iter_errors({"bogus": 1})] == ["additionalProperties"]
    assert list(check.iter_errors({"settings": {"idle_timeout_ms": -1}}))
