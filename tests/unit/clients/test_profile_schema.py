"""What is wrong with a profile is told at once, each with its place and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from omniroute_addon.clients.profile_files import client_folder, read_profile, read_profile_file
from omniroute_addon.clients.profile_schema import profile_json_schema
from omniroute_addon.pack_files import PackFolder, bundled_rules

BUNDLED = sorted((bundled_rules() / "clients").glob("*.yaml"))


def problems(text: str) -> list[str]:
    found, told = read_profile(text.encode(), file="own/me.yaml")
    assert found is None
    return told


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "own/me.yaml:1:1: the file is empty. Write at least `id:`, or delete the file."),
        ("name: x", "own/me.yaml:1:1: 'id' is missing here. Add `id: …` (Stable name of the client, lower case)."),
        (
            "id: me\nkeep_alive: {openai-chat: coment}",
            "own/me.yaml:2:27: unknown keep_alive 'coment'. Did you mean 'comment'?\n"
            "  Known keep_alives: comment, none, ping",
        ),
        (
            "id: me\nbroken_stream: {openai: cut}",
            "own/me.yaml:2:17: unknown dialect 'openai'. Did you mean 'openai-chat'?\n"
            "  Known dialects: openai-chat, openai-responses, gemini, anthropic-messages",
        ),
        (
            "id: me\nwhen: {path: /v1/*}",
            "own/me.yaml:2:7: nothing here is about the client. Add `user_agent`, `headers` or `agent`.",
        ),
        (
            "id: me\nwhen: {user_agent: '*'}",
            "own/me.yaml:2:20: the pattern '*' fits everything. Write what the value begins with, `name/*`.",
        ),
        (
            "id: me\nexhausted: {near: {statuses: {'429': 401}}}",
            "own/me.yaml:2:38: a final answer must not be made a 401: agents take it for their own login. "
            "Use 400, 402, 429 or 5xx.",
        ),
        (
            "id: me\nsession: {body: [a..b]}",
            "own/me.yaml:2:18: the body path 'a..b' cannot be used. Write member names with dots, `metadata.id`.",
        ),
        ("id: me\nwaits: {head_s: -1}", "own/me.yaml:2:17: 'head_s' must be at least 0, not '-1'."),
        ("id: me\nwaits: {head_s: soon}", "own/me.yaml:2:17: 'head_s' must be a number, not 'soon'."),
        (
            "id: me\nretries: {retry_after: obey}",
            "own/me.yaml:2:24: unknown retry_after 'obey'. Did you mean 'obeys'?\n"
            "  Known retry_afters: obeys, ignores, at_least",
        ),
        (
            "id: me\nside_paths: [api]",
            "own/me.yaml:2:14: the path 'api' cannot be used. Begin it with '/', without query.",
        ),
    ],
)
def test_a_problem_says_where_what_and_what_to_do(text: str, problem: str) -> None:
    assert problems(text) == [problem]


def test_an_unknown_key_is_answered_with_the_nearest() -> None:
    (told,) = problems("id: me\nkeepalive: {}")
    assert told.startswith(
        "own/me.yaml:2:1: unknown key 'keepalive'. Did you mean 'keep_alive'?\n  Known keys: keep_alive,"
    )


def test_everything_is_told_at_once_in_the_order_of_the_file() -> None:
    told = problems("id: Me\nwhen: {agent: ''}\nwaits: {head_s: x}\nnope: 1\nexhausted: {reach_s: 1e9}")
    assert [text.split(":")[1] for text in told] == ["1", "2", "3", "4", "5"]


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "clients" / "x.yaml").mkdir(parents=True)
    folder = client_folder(PackFolder(path=tmp_path))
    found, (told,) = read_profile_file(folder, next(iter(folder.files())))
    assert found is None and told.startswith(f"{tmp_path}/clients/x.yaml:1:1: the file cannot be read (")


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_an_editor_accepts_every_bundled_profile(path: Path) -> None:
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    schema = profile_json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert [e.message for e in jsonschema.Draft202012Validator(schema).iter_errors(json.loads(json.dumps(data)))] == []
