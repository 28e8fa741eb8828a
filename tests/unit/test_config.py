"""`omniroute.yaml` becomes a frozen value, or every problem with its place; never an exception, never a secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.agents import token_hash
from omniroute_addon.config import Config, ConfigReading, config_without_file, read_config
from omniroute_addon.model import Auth, Connection, ModelCall, Target
from omniroute_addon.pack_files import read_pack
from omniroute_addon.packs import Packs, build_packs
from omniroute_addon.secrets import Vault, secret_of
from omniroute_addon.settings import Settings
from omniroute_addon.targets import Route

PLANTED = "sk-planted-0123456789abcdef"


def _packs() -> Packs:
    texts = (
        "id: openai\nendpoints: {openai-chat: 'https://api.openai.com/v1/chat/completions'}",
        "id: gate\nendpoints: {openai-chat: 'https://{host}/v1/chat/completions'}",
        "id: bedrock\nhosts: ['*.amazonaws.com']\nendpoints: {}",
        "id: ollama\ncategory: local\nendpoints: {openai-chat: 'http://localhost:11434/v1/chat/completions'}",
    )
    sources = [read_pack(text.encode(), file="p.yaml", stem="p")[0] for text in texts]
    return build_packs([[source for source in sources if source]])[0]


PACKS = _packs()


def read(text: str, *, folder: Path = Path(), **environ: str) -> ConfigReading:
    return read_config(text.encode(), file="o.yaml", packs=PACKS, vault=Vault(environ=environ, folder=folder))


def problems(text: str) -> list[str]:
    found = read(text, KEY=PLANTED)
    assert found.config is None
    return [problem.removeprefix("o.yaml:") for problem in found.problems]


def config(text: str, **environ: str) -> Config:
    found = read(text, **environ)
    assert found.problems == ()
    assert found.config is not None
    return found.config


def test_an_empty_file_is_the_same_as_none() -> None:
    assert config("") == config_without_file({}).config
    assert config("").settings == Settings()
    assert config("").connections == ()


def test_a_connection_is_what_the_file_says() -> None:
    found = config(
        "connections:\n  - id: work\n    provider: openai\n    key: env:KEY\n    base_url: http://127.0.0.1:9/\n"
        "    models: {gpt-5: big, gpt-4*: ~}\n    priority: 2\n    weight: 3\n    max_concurrent: 4\n"
        "    via: http://proxy.example:1\n    headers: {X-A: b}\n    disable_cooling: true\n    allow_insecure: true\n",
        KEY=PLANTED,
    )
    assert found.connections == (
        Connection(
            id="work",
            provider="openai",
            secret=secret_of(PLANTED),
            base_url="http://127.0.0.1:9",
            models=("gpt-5", "gpt-4*"),
            rename={"gpt-5": "big"},
            priority=2,
            weight=3,
            max_concurrent=4,
            via="http://proxy.example:1",
            headers={"x-a": "b"},
            disable_cooling=True,
            allow_insecure=True,
        ),
    )
    assert PLANTED not in repr(found)


def test_a_local_server_and_a_gateway_of_ones_own_need_no_key() -> None:
    found = config(
        "connections:\n  - {id: a, provider: ollama}\n  - {id: b, provider: gate, base_url: 'https://gate.example'}"
    )
    assert [c.secret for c in found.connections] == [None, None]


def test_routes_rules_and_settings() -> None:
    found = config(
        "connections: [{id: a, provider: openai, key: env:KEY}]\n"
        "routes: [{provider: openai, model: gpt-*, connections: [a, client]}]\n"
        "settings: {idle_timeout_ms: 7}\n"
        "providerErrorRules: {openai: [{status: 429, match: slow, scope: model, cooldownMs: 5}]}\n",
        KEY=PLANTED,
        STREAM_ACTIVE_TIMEOUT_MS="8",
    )
    assert found.routes == (Route(provider="openai", model="gpt-*", connections=("a", "client")),)
    assert [(r.match, r.cooldown_ms) for r in found.operator_rules["openai"]] == [("slow", 5)]
    assert (found.settings.idle_timeout_ms, found.settings.attempt_deadline_ms) == (7, 8)
    assert str(found.sources["idle_timeout_ms"]) == "7 (o.yaml:3:29)"
    assert str(found.sources["attempt_deadline_ms"]) == "8 (environment STREAM_ACTIVE_TIMEOUT_MS)"


def test_targets_are_built_from_the_files_connections() -> None:
    found = config("connections: [{id: a, provider: openai, key: env:KEY}]\nsettings: {own_credential: first}", KEY="k")
    own = Target(
        connection=Connection(id="client", provider="openai", own=True),
        dialect="openai-chat",
        url="https://api.openai.com/v1/chat/completions",
        model="m",
        auth=Auth(),
    )
    call = ModelCall(provider="openai", dialect="openai-chat", model="m", stream=False)
    assert [t.connection.id for t in found.targets_for(call, own, PACKS)] == ["client", "a"]
    assert [t.connection.id for t in Config().targets_for(call, own, PACKS)] == ["client"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "connections: [{id: a, provider: opnai, key: env:KEY}]",
            [
                "1:33: unknown provider 'opnai'. "
                "Did you mean 'openai'?\n  Known providers: openai, ollama, gate, bedrock"
            ],
        ),
        (
            "connections:\n  - {id: a, provider: ollama}\n  - {id: a, provider: ollama}",
            ["3:10: connection id 'a' is used already in line 2. Rename one of them."],
        ),
        (
            "connections: [{id: a, provider: bedrock, key: env:KEY}]",
            [
                "1:33: provider 'bedrock' is only recognised, its pack has no endpoints to send to. "
                "Use another provider, or add `endpoints:` in a pack of your own with `id: bedrock`."
            ],
        ),
        (
            "connections: [{id: a, provider: gate, key: env:KEY}]",
            [
                "1:33: provider 'gate' has an address of its own for every customer. "
                "Add `base_url: https://…` to connection 'a'."
            ],
        ),
        (
            "connections: [{id: a, provider: openai}]",
            [
                "1:15: connection 'a' has no credential for provider 'openai'. "
                "Add `key: env:NAME`, `key: file:PATH` or `key: keyring:NAME`."
            ],
        ),
        (
            "connections: [{id: work, provider: ollama}]\nroutes: [{provider: olama, connections: [wrok, client]}]",
            [
                "2:21: unknown provider 'olama'. "
                "Did you mean 'ollama'?\n  Known providers: ollama, openai, gate, bedrock",
                "2:42: unknown connection 'wrok'. Did you mean 'work'?\n  Known connections: work, client",
            ],
        ),
        (
            "providerErrorRules: {opnai: []}",
            [
                "1:22: unknown provider 'opnai'. "
                "Did you mean 'openai'?\n  Known providers: openai, ollama, gate, bedrock"
            ],
        ),
        ("a: 1\na: 2", ["1:1: unknown key 'a'.", "2:1: key 'a' is written twice, first in line 1. Keep one of them."]),
        (
            "connections: [{id: a, provider: opnai, priority: high}, 5]\nroutes: [{connections: [b]}]",
            [
                "1:50: 'priority' must be a whole number, not 'high'.",
                "1:57: every entry of 'connections' must be a mapping, not '5'. Write `name: value` lines below it.",
                "1:33: unknown provider 'opnai'. "
                "Did you mean 'openai'?\n  Known providers: openai, ollama, gate, bedrock",
                "2:25: unknown connection 'b'.\n  Known connections: a, client",
            ],
        ),
        (
            "connections: [{id: a, provider: openai, base_url: 'https://[x'}]",
            ["1:51: the URL cannot be parsed. Write it as https://host/path."],
        ),
        (
            "agents:\n  - {name: ada, token: env:KEY}\n  - {name: ada, token: env:KEY}",
            ["3:12: agent 'ada' is named already in line 2. Rename one of them."],
        ),
        (
            "settings: {require_agent: true}",
            [
                "1:27: no agent is listed, so nobody could use the proxy. "
                "Add `agents:` with a name and a token, or remove `require_agent`."
            ],
        ),
        ("a: [", None),
        ("[]", ["1:1: the file must be a mapping, not a list. Write `name: value` lines below it."]),
    ],
)
def test_what_only_shows_when_everything_is_known(text: str, wanted: list[str] | None) -> None:
    found = problems(text)
    if wanted is None:
        assert found[0].startswith("1:5: not valid YAML:")
    else:
        assert sorted(p.partition("\n  Known keys")[0] for p in found) == sorted(wanted)


def test_a_credential_that_cannot_be_resolved_leaves_only_its_connection_out() -> None:
    found = read(
        "connections:\n  - {id: a, provider: openai, key: env:GONE}\n  - {id: b, provider: openai, key: env:KEY}\n"
        "routes: [{connections: [a, b]}]",
        KEY=PLANTED,
    )
    assert found.config is not None
    assert [c.id for c in found.config.connections] == ["b"]
    assert found.config.routes[0].connections == ("a", "b")
    assert found.config.provided == {"openai"} and found.problems == ()
    assert found.warnings == (
        "o.yaml:2:36: connection 'a' is left out: environment variable GONE is not set. "
        "Set it before the proxy starts.",
    )


def test_key_files_are_named_and_a_readable_one_gets_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(PLANTED)
    path.chmod(0o644)
    text = (
        "connections:\n  - {id: a, provider: openai, key: 'file:key'}\n  - {id: b, provider: openai, key: 'file:gone'}"
    )
    found = read(text, folder=tmp_path)
    assert found.files == (path, tmp_path / "gone")
    assert found.warnings[0] == f"o.yaml:2:36: the file {path} can be read by others. Run: chmod 600 {path}"
    assert "connection 'b' is left out" in found.warnings[1] and found.problems == ()


def test_a_bad_environment_variable_is_a_warning() -> None:
    wanted = (
        "environment variable STREAM_IDLE_TIMEOUT_MS: 'x' is not a number from 0 to 86400000. The default is used.",
    )
    assert read("", STREAM_IDLE_TIMEOUT_MS="x").warnings == wanted
    assert config_without_file({"STREAM_IDLE_TIMEOUT_MS": "x"}).warnings == wanted


KEYS = ["connections", "routes", "settings", "providerErrorRules", "id", "provider", "key", "base_url", "models"]
KEYS += ["headers", "via", "priority", "connection_cooldown", "oauth", "plugins", "openai", "status", "match", "scope"]
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["openai", "env:K"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_no_mapping_makes_it_raise(value: object) -> None:
    found = read(json.dumps(value))
    assert found.config is not None or found.problems


@given(st.binary(max_size=100))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    found = read_config(raw, file="o.yaml", packs=PACKS, vault=Vault(environ={}))
    assert found.config is not None or found.problems


@given(st.sampled_from(["key", "base_url", "via", "headers", "api_key", "models", "priority", "provider", "id"]))
def test_a_key_pasted_into_any_field_is_never_repeated(name: str) -> None:
    for value in (PLANTED, [PLANTED], {"x-a": [PLANTED]}, {"authorization": PLANTED}):
        fields = {"id": "a", "provider": "openai", name: value}
        found = read(json.dumps({"connections": [fields]}))
        assert PLANTED not in "\n".join(found.problems)


def test_of_an_agents_token_only_the_hash_is_kept(tmp_path: Path) -> None:
    """By reference or as its hash; a file is watched like a connection's."""
    (tmp_path / "t").write_text("file-token\n")
    (tmp_path / "t").chmod(0o600)
    text = (
        "agents:\n  - {name: ada, token: env:KEY}\n  - {name: bob, token: file:t}\n"
        f"  - {{name: cyd, token: 'sha256:{token_hash('x').hex().upper()}'}}\n"
    )
    found = read(text, folder=tmp_path, KEY=PLANTED)
    assert found.config is not None and found.files == (tmp_path / "t",)
    wanted = {"ada": token_hash(PLANTED), "bob": token_hash("file-token"), "cyd": token_hash("x")}
    assert found.config.agents == wanted
    assert PLANTED not in repr(found) and wanted["ada"].hex() not in repr(found)


def test_an_agent_whose_token_is_gone_cannot_log_in_and_is_told_of() -> None:
    found = read("agents: [{name: ada, token: env:GONE}]")
    assert found.config is not None and found.config.agents == {"ada": None}
    assert found.warnings == (
        "o.yaml:1:29: agent 'ada' cannot log in: environment variable GONE is not set. Set it before the proxy starts.",
    )


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        (
            "{name: ada, token: planted}",
            "1:29: a token is given by reference or as its hash, never written here. Write env:NAME, file:PATH or "
            "keyring:NAME, or sha256:HEX, and if what stood here is a real token, replace it.",
        ),
        (
            "{name: ada, token: 'sha256:12'}",
            "1:29: `sha256:` is followed by 64 hex digits. Make them: printf %s TOKEN | sha256sum",
        ),
        (
            "{name: a b, token: env:KEY}",
            "1:17: an agent's name is 1 to 64 letters, digits and . _ @ + -, and begins with a letter or digit.",
        ),
    ],
)
def test_an_agent_that_cannot_be_used_is_told_with_its_place(entry: str, wanted: str) -> None:
    assert problems(f"agents: [{entry}]") == [wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("connections: [{id: a, provider: openai, key: env:KEY, models: [gpt-*]}]", True),
        ("connections: [{id: a, provider: ollama}]", False),
        ("connections: [{id: a, provider: ollama}]\nroutes: [{connections: [a, client]}]", True),
        ("connections: [{id: a, provider: ollama}]\nroutes: [{provider: openai, connections: [a]}]", True),
        ("connections: [{id: a, provider: ollama}]\nroutes: [{provider: ollama, connections: [a]}]", False),
        ("routes: [{connections: [client]}]", False),
        ("", False),
    ],
)
def test_whether_a_door_has_alternatives_before_its_model_is_known(text: str, wanted: bool) -> None:
    call = ModelCall(provider="openai", dialect="openai-chat", model="", stream=True)
    assert config(text, KEY=PLANTED).has_alternatives(call, PACKS) is wanted


def test_a_connection_that_does_not_speak_the_doors_dialect_is_no_alternative() -> None:
    call = ModelCall(provider="openai", dialect="gemini", model="", stream=True)
    assert not config("connections: [{id: a, provider: openai, key: env:KEY}]", KEY=PLANTED).has_alternatives(
        call, PACKS
    )
