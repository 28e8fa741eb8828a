"""A first configuration from the names of keys."""

from __future__ import annotations

import pytest
import yaml

from omniroute_addon.bringup.starter_config import find_keys, starter
from omniroute_addon.config import read_config
from omniroute_addon.packs import PackFolder, Packs, bundled_rules, load_packs
from omniroute_addon.secrets import Vault


@pytest.fixture(scope="module")
def packs() -> Packs:
    found, problems = load_packs([PackFolder(path=bundled_rules(), label="rules")])
    assert not problems
    return found


def keys(packs: Packs, environ: dict[str, str]) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    def identity(variable: str) -> str:
        if environ[variable] == "bad":
            raise ValueError("holds more than one line.")
        return environ[variable]

    found, left = find_keys(environ, packs.providers.values(), identity)
    return [(k.connection, k.provider, k.variable) for k in found], [(o.variable, o.why) for o in left]


def test_every_key_becomes_a_connection(packs: Packs) -> None:
    environ = {"OPENAI_API_KEY": "1", "ANTHROPIC_API_KEY": "2", "CLAUDE_CODE_OAUTH_TOKEN": "3", "HOME": "/root"}
    assert keys(packs, environ) == (
        [
            ("anthropic", "anthropic", "ANTHROPIC_API_KEY"),
            ("anthropic-2", "anthropic", "CLAUDE_CODE_OAUTH_TOKEN"),
            ("openai", "openai", "OPENAI_API_KEY"),
        ],
        [],
    )


def test_further_keys_of_a_provider_are_found_by_their_ending(packs: Packs) -> None:
    environ = {"OPENAI_API_KEY": "1", "OPENAI_API_KEY_2": "2", "OPENAI_API_KEY_WORK_EU": "3"}
    assert [row[0] for row in keys(packs, environ)[0]] == ["openai", "openai-2", "openai-work-eu"]


def test_what_is_no_key_is_not_taken_for_one(packs: Packs) -> None:
    environ = {"OPENAI_API_KEY_FILE": "/k", "OPENAI_API_KEY_PATH": "/k", "MY_OPENAI_API_KEY": "1", "GROQ_API_KEY": ""}
    assert keys(packs, environ) == ([], [])


def test_same_key_under_two_names_is_one_connection(packs: Packs) -> None:
    found, left = keys(packs, {"GEMINI_API_KEY": "1", "GOOGLE_API_KEY": "1"})
    assert [row[2] for row in found] == ["GEMINI_API_KEY"]
    assert left == [("GOOGLE_API_KEY", "holds the same key as GEMINI_API_KEY.")]


def test_value_that_is_no_credential_is_left_out_with_the_reason(packs: Packs) -> None:
    assert keys(packs, {"OPENAI_API_KEY": "bad"}) == ([], [("OPENAI_API_KEY", "holds more than one line.")])


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_file_is_a_right_configuration(packs: Packs, count: int) -> None:
    """With every variable that any pack knows, and with none."""
    names = [name for provider in packs.providers.values() for name in provider.key_env][:count]
    environ = {name: f"sk-{number}" for number, name in enumerate(names)}
    found, left = find_keys(environ, packs.providers.values(), lambda name: environ[name])
    text = starter(found, {})
    reading = read_config(text.encode(), file="omniroute.yaml", packs=packs, vault=Vault(environ=environ))
    assert (reading.problems, reading.warnings, left) == ((), (), [])
    assert reading.config and len(reading.config.connections) == len(names) == len(yaml.safe_load(text)["connections"])
    assert [value for value in environ.values() if value in text] == []


def test_second_key_of_a_provider_comes_after_the_first(packs: Packs) -> None:
    environ = {"OPENAI_API_KEY": "1", "OPENAI_API_KEY_2": "2", "GROQ_API_KEY": "3"}
    found, _ = find_keys(environ, packs.providers.values(), lambda name: environ[name])
    rows = {row["id"]: row.get("priority") for row in yaml.safe_load(starter(found, {}))["connections"]}
    assert rows == {"groq": None, "openai": 1, "openai-2": 2}
