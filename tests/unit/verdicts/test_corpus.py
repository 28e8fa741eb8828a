"""The corpus format: what a line may say, and how a bad one is told."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from omniroute_addon.errors import InputError
from omniroute_addon.verdicts.corpus import Case, load_corpus, parse_case, parse_corpus

EXPECT: dict[str, Any] = {
    "kind": "rate_limit",
    "scope": "connection",
    "retry_other": True,
    "terminal": False,
    "retry_after_s": 5,
    "retry_after_from": "header:retry-after",
    "breaker": False,
}


def line(expected: dict[str, Any] | None = None, **fields: Any) -> str:
    written: dict[str, Any] = {
        "id": "acme-1",
        "provider": "acme",
        "endpoint": "POST /v1/chat/completions",
        "status": 429,
        "headers": {"Retry-After": "5"},
        "body": "slow down",
        "stream": False,
        "expect": {**EXPECT, **(expected or {})},
        "debatable": False,
        "note": "",
        "source": "acme/x#1",
    } | fields
    return json.dumps({name: value for name, value in written.items() if value is not ...})


def wrong(text: str) -> list[str]:
    with pytest.raises(ValueError) as caught:
        parse_case(text)
    return [str(problem) for problem in caught.value.args]


def test_a_line_is_a_frozen_case() -> None:
    case = parse_case(line())
    assert (case.id, case.provider, case.path, case.status) == ("acme-1", "acme", "/v1/chat/completions", 429)
    assert case.headers == {"retry-after": "5"}
    assert case.body == b"slow down" and b"slow" not in repr(case).encode()
    assert not case.debatable and not case.lookalike
    with pytest.raises(AttributeError):
        case.id = "other"  # type: ignore[misc]


def test_the_true_bytes_come_from_body_b64() -> None:
    coded = base64.b64encode(b"L\xedmite").decode()
    assert parse_case(line(body_b64=coded)).body == b"L\xedmite"
    assert wrong(line(body_b64="%%%"))[0].startswith("'body_b64' is not Base64")


def test_debatable_pairs_are_alternatives_by_field() -> None:
    note = "[debatable: kind=forbidden, kind=auth_invalid, terminal=true, retry_after_s=8.24, retry_after_s=null] Why."
    case = parse_case(line(note=note))
    assert case.debatable
    assert case.accepts("kind") == ("rate_limit", "forbidden", "auth_invalid")
    assert case.accepts("terminal") == (False, True)
    assert case.accepts("retry_after_s") == (5, 8.24, None)
    assert case.accepts("scope") == ("connection",)


def test_a_note_in_the_middle_is_no_pair() -> None:
    assert not parse_case(line(note="Not [debatable: kind=ok] here")).debatable


@pytest.mark.parametrize(
    ("note", "kind", "lookalike"),
    [("LOOK-ALIKE: x", "invalid_request", True), ("", "ok", True), ("TRAP: x", "rate_limit", False)],
)
def test_every_success_is_a_look_alike(note: str, kind: str, lookalike: bool) -> None:
    assert parse_case(line({"kind": kind}, note=note)).lookalike is lookalike


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "this is not JSON"),
        ("[]", "a case is an object, not a list"),
        (line(id=...), "'id' is missing"),
        (line(id=5), "'id' must be text, not '5'"),
        (line(status="429"), "'status' must be 0 (no HTTP answer) or 100 to 599, not '429'"),
        (line(status=True), "'status' must be 0 (no HTTP answer) or 100 to 599, not 'true'"),
        (line(status=42), "'status' must be 0 (no HTTP answer) or 100 to 599, not '42'"),
        (line(stream="yes"), "'stream' must be true or false, not 'yes'"),
        (line(headers={"a": 1}), "'headers' must be an object of texts"),
        (line(expect=...), "'expect' is missing"),
        (line(colour="red"), "unknown field 'colour'"),
        (line(note="[debatable: kind]"), "cannot read 'kind' in the note; write [debatable: field=value, …]"),
        (
            line(note="[debatable: colour=red]"),
            "cannot read 'colour=red' in the note; write [debatable: field=value, …]",
        ),
        (line(note="[debatable: kind=red]"), "unknown kind 'red'"),
        (
            line(note="[debatable: retry_after_s=soon]"),
            "'retry_after_s' must be a number of seconds or null, not 'soon'",
        ),
        (line({"kind": "quota_exausted"}), "unknown kind 'quota_exausted'. Did you mean 'quota_exhausted'?"),
        (line({"scope": "acount"}), "unknown scope 'acount'"),
        (line({"terminal": 1}), "'terminal' must be true or false, not '1'"),
        (line({"retry_after_s": "5"}), "'retry_after_s' must be a number of seconds or null, not '5'"),
        (line({"retry_after_s": -5}), "'retry_after_s' must be a number of seconds or null, not '-5'"),
        (line({"retry_after_from": 5}), "'retry_after_from' must be 'header:NAME', 'body:PATH', 'text:QUOTE' or null"),
        (line({"colour": 1}), "unknown field of expect 'colour'"),
    ],
)
def test_a_bad_line_is_told_in_one_sentence(text: str, problem: str) -> None:
    assert wrong(text)[0].startswith(problem)


def test_expect_must_be_whole_and_an_object() -> None:
    assert wrong(line().replace('"breaker": false', '"x": 1'))[0] == "'expect.breaker' is missing"
    whole = json.loads(line())
    whole["expect"] = 5
    assert wrong(json.dumps(whole)) == ["'expect' must be an object, not '5'"]


def test_all_problems_of_a_file_are_told_with_their_line() -> None:
    lines = [line(), "", "{", line(id="acme-1"), line(id="b", status=1, stream=5)]
    with pytest.raises(InputError) as caught:
        parse_corpus(lines, file="c.jsonl")
    places = [problem.split(": ")[0] for problem in caught.value.problems]
    assert places == ["c.jsonl:3", "c.jsonl:4", "c.jsonl:5", "c.jsonl:5"]
    assert caught.value.problems[1] == "c.jsonl:4: the id 'acme-1' is already used in line 1"


def test_a_file_is_read_and_an_empty_or_missing_one_told(tmp_path: Path) -> None:
    good = tmp_path / "good.jsonl"
    good.write_text(line() + "\n\n" + line(id="b") + "\n", "utf-8")
    assert [case.id for case in load_corpus(good)] == ["acme-1", "b"]
    assert isinstance(load_corpus(good)[0], Case)
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(InputError, match="there is no case in this file"):
        load_corpus(tmp_path / "empty.jsonl", label="empty")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff")
    for name in ("missing.jsonl", "latin.jsonl"):
        with pytest.raises(InputError, match="cannot read the corpus"):
            load_corpus(tmp_path / name)
