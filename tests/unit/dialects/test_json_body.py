"""Request bodies come from anywhere: usable, or one sentence that says why not."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.dialects import json_body

NESTED = b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the request body is not a JSON object: Expecting '{' (character 0)"),
        (b"nonsense", "the request body is not a JSON object: Expecting '{' (character 0)"),
        (b"[]", "the request body is not a JSON object: Expecting '{' (character 0)"),
        (b'{"a" 1}', "the request body is not a JSON object: Expecting ':' (character 5)"),
        (b'{"a": }', "the request body is not a JSON object: Expecting value (character 6)"),
        (b'{"a": 1', "the request body is not a JSON object: Expecting '}' (character 7)"),
        (b'{"a": 1,}', "the request body is not a JSON object: Expecting '\"' (character 8)"),
        (b"{} {}", "the request body is not a JSON object: Extra data (character 3)"),
        (b'{"a": NaN}', "the request body contains NaN, which is not JSON"),
        (b'{"a": -Infinity}', "the request body contains -Infinity, which is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "the request body contains a number of 5000 digits"),
        (b'{"model": "a", "model": "b"}', "the request body names 'model' twice"),
        (b'{"a": "\xff"}', "the request body is not UTF-8 (byte 7)"),
        (NESTED, "the request body is nested too deeply"),
    ],
)
def test_a_hostile_body_gets_one_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        json_body.read_object(body)
    assert str(raised.value) == sentence


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0 \\ntrue', max_size=40).map(str.encode))
def test_any_bytes_are_read_as_json_does_or_refused(body: bytes) -> None:
    try:
        members = json_body.read_object(body)
    except ValueError:
        return
    assert {name: member.value for name, member in members.items()} == json.loads(body)


json_objects = st.dictionaries(st.text(max_size=5), st.none() | st.booleans() | st.integers() | st.text(max_size=5))


@settings(deadline=None, max_examples=60)
@given(json_objects, st.text(max_size=10), st.sampled_from([None, 2, "\t"]), st.booleans(), st.booleans())
def test_only_the_model_changes(
    value: dict[str, object], new: str, indent: int | str | None, asc: bool, bom: bool
) -> None:
    value = value | {"model": "OLD-é", "z": "é"}
    text = ("\ufeff" if bom else "") + json.dumps(value, indent=indent, ensure_ascii=asc)
    old = json.dumps("OLD-é", ensure_ascii=asc)
    assert json_body.replace_model(text.encode(), new) == text.replace(old, json.dumps(new)).encode()


def test_a_nested_model_is_not_touched() -> None:
    body = b'{"tool": {"model": "x"}, "model" :\n"x" }'
    assert json_body.replace_model(body, "y") == b'{"tool": {"model": "x"}, "model" :\n"y" }'


def test_a_body_without_model_is_given_one() -> None:
    """Azure's older door names the model in the path only."""
    assert json_body.replace_model(b'{"messages":[]}', "m") == b'{"model":"m","messages":[]}'


def test_members_are_read_by_type() -> None:
    members = json_body.read_object(b'{"s": "x", "n": null, "l": [1, 2], "o": {}, "t": true, "one": 1}')
    assert [json_body.string(members, name) for name in ("s", "n", "missing")] == ["x", "", ""]
    assert [json_body.size(members, name) for name in ("l", "o", "n", "missing")] == [2, 1, 0, 0]
    assert [json_body.flag(members, name) for name in ("t", "one", "missing")] == [True, False, False]


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("5", "`model` must be a string, not a number"),
        ("1.5", "`model` must be a string, not a number"),
        ("[]", "`model` must be a string, not an array"),
        ("{}", "`model` must be a string, not an object"),
        ("true", "`model` must be a string, not a boolean"),
        (r'"\ud800"', "`model` contains half of a surrogate pair"),
    ],
)
def test_a_model_that_is_no_text_is_refused(value: str, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        json_body.string(json_body.read_object(f'{{"model": {value}}}'.encode()), "model")
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (b'{"a": 1}', False),
        (b'{"a": "}', True),
        (b'{"a": {"b": 1}', True),
        (b'{"a": "}]\\""}', False),
        (b'{"a": "\\', True),
        (b"[1, 2", True),
        (b"", False),
        (b"}", False),
    ],
)
def test_a_cut_value_is_told_from_a_complete_one(text: bytes, cut: bool) -> None:
    assert json_body.is_cut(text) is cut


def test_a_cut_value_full_of_quotes_is_judged_in_linear_time() -> None:
    started = time.perf_counter()
    assert json_body.is_cut(b'{"a": "' + b'\\"' * 1_000_000)
    assert time.perf_counter() - started < 5
