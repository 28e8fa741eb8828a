"""YAML text becomes data with places; whatever is wrong is told in one sentence, and nothing is ever raised."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon import yaml_source
from omniroute_addon.yaml_source import MAX_BYTES, MAX_DEPTH, Document, read_yaml


def read(text: str) -> Document:
    return read_yaml(text.encode(), file="f.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("010", "010"),
        ("0o17", "0o17"),
        ("0x1f", "0x1f"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2026-01-31", "2026-01-31"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1e999", "1e999"),
        ("9" * 600, "9" * 600),
        ("'7'", "7"),
        ('"true"', "true"),
        ("|\n 7\n", "7\n"),
    ],
)
def test_plain_scalars_mean_what_the_core_schema_says_without_its_surprises(text: str, value: Any) -> None:
    data = read(f"a: {text}").data["a"]
    assert data == value
    assert type(data) is type(value)


def test_keys_are_always_text() -> None:
    assert read("{429: a, true: b, on: c, ~: d}").data == {"429": "a", "true": "b", "on": "c", "~": "d"}


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"# only a comment\n", b"---\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_fine(raw: bytes) -> None:
    document = read_yaml(raw, file="f.yaml")
    assert (document.data, document.problems, document.readable) == (None, (), True)


def test_every_key_and_value_has_its_place() -> None:
    document = read("a:\n  - é: x\n    b: [1, 2]\n")
    assert document.place(("a", 0, "b")) == "f.yaml:3:8"
    assert document.place(("a", 0, "b"), key=True) == "f.yaml:3:5"
    assert document.place(("a", 0, "b", 1)) == "f.yaml:3:12"
    assert document.place(("a", 0, "é")) == "f.yaml:2:8"
    assert document.line(("a",)) == 1


def test_the_place_of_what_is_not_written_is_that_of_what_encloses_it() -> None:
    document = read("a:\n  b: 1\n")
    assert document.place(("a", "missing", "deep")) == "f.yaml:2:3"
    assert document.place(("nothing",)) == "f.yaml:1:1"
    assert Document(file="f.yaml").place(("x",)) == "f.yaml:1:1"


def test_a_byte_order_mark_does_not_move_the_places() -> None:
    assert read_yaml(b"\xef\xbb\xbfa: 1\n", file="f.yaml").place(("a",)) == "f.yaml:1:4"


def test_all_problems_are_told_at_once_and_the_rest_is_read() -> None:
    document = read("a: 1\nb: !!int 2\na: 3\n[x]: 4\nc: !mine {d: 5}\n")
    assert document.problems == (
        "f.yaml:2:4: tags such as !name are not used here. Remove the tag.",
        "f.yaml:3:1: key 'a' is written twice, first in line 1. Keep one of them.",
        "f.yaml:4:1: a key must be text, not a list or mapping. Write `key: value`.",
        "f.yaml:5:4: tags such as !name are not used here. Remove the tag.",
    )
    assert document.data == {"a": 1, "b": "2", "c": {"d": 5}}
    assert document.readable


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"\xff\xfea\x00", "1:1: the file is UTF-16. Save it as UTF-8."),
        (b"a: 1\nb: \xff", "2:4: byte 0xff is not UTF-8. Save the file as UTF-8."),
        (b"a:\n\tb: 1", "2:1: a tab cannot indent YAML. Use spaces."),
        (b"a: 1\n---\nb: 2", "2:1: a second document begins here. Write one document per file."),
        (b"a: 1\nb: \x00", "2:4: not valid YAML: control characters are not allowed. Remove the character."),
        (
            b"a: b: c",
            "1:5: not valid YAML: mapping values are not allowed in this context. "
            "Put text that contains ': ' in quotes.",
        ),
        (
            b"a: @x",
            "1:4: not valid YAML: found character that cannot start any token. "
            "Put text that begins with a special character in quotes.",
        ),
        (
            b"a: *x",
            "1:4: not valid YAML: found undefined alias. "
            "Define the anchor (`&name`) above its use, or put text that begins with '*' in quotes.",
        ),
        (
            b"a: [1",
            "1:6: not valid YAML: did not find expected ',' or ']'. "
            "Look at the indentation, quotes and brackets here and just above.",
        ),
        (b"a: &x [*x]", "1:4: the alias refers to what it is part of. Write the value out."),
        (b"[" * 5000, "1:2001: nested deeper than 40 levels. Write it flatter."),
        (b"[" * 60 + b"]" * 60, "1:41: nested deeper than 40 levels. Write it flatter."),
    ],
)
def test_a_file_that_cannot_be_read_gets_one_clear_sentence(raw: bytes, problem: str) -> None:
    document = read_yaml(raw, file="f.yaml")
    texts = [text.removeprefix("f.yaml:") for text in document.problems]
    if raw.startswith(b"[[") and len(raw) == 5000:  # libyaml's own limit, and its own column
        texts = [problem if text.endswith(problem.partition(": ")[2]) else text for text in texts]
    assert texts == [problem]
    assert not document.readable


def test_a_huge_file_is_refused_unread() -> None:
    document = read_yaml(b"#" * (MAX_BYTES + 1), file="f.yaml")
    size = MAX_BYTES + 1
    assert document.problems == (
        f"f.yaml:1:1: the file has {size} bytes, more than {MAX_BYTES}. Split it into several files.",
    )


def test_anchors_and_aliases_work() -> None:
    assert read("a: &x {b: 1}\nc: [*x, *x]").data == {"a": {"b": 1}, "c": [{"b": 1}, {"b": 1}]}


def test_a_billion_laughs_are_cut_short() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    document = read("\n".join(lines))
    assert not document.readable
    assert len(document.problems) == 1
    assert "the file has more than 50000 values. Use fewer aliases, or split it." in document.problems[0]


def test_what_looks_like_a_credential_is_not_repeated() -> None:
    document = read("sk-abcdefgh12345678: 1\nsk-abcdefgh12345678: 2\n")
    assert "sk-abcdefgh" not in document.problems[0]


def test_it_works_without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CBaseLoader")
    try:
        slow = importlib.reload(yaml_source)
        assert slow.read_yaml(b"a: [1, yes]", file="f").data == {"a": [1, "yes"]}
        assert slow.read_yaml(b"[" * 900, file="f").problems == (
            f"f:1:1: nested deeper than {MAX_DEPTH} levels. Write it flatter.",
        )
        assert "control characters are not allowed" in slow.read_yaml(b"a: \x00", file="f").problems[0]
    finally:
        monkeypatch.undo()
        importlib.reload(yaml_source)


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    document = read_yaml(raw, file="f.yaml")
    assert document.readable or document.problems
    assert all(text.startswith("f.yaml:") for text in document.problems)


@given(st.text(alphabet="ab:-[]{}&*!|>'\"# \n\t,?%@0", max_size=120))
def test_no_yaml_like_text_makes_it_raise(text: str) -> None:
    document = read_yaml(text.encode(), file="f.yaml")
    assert document.readable or document.problems
