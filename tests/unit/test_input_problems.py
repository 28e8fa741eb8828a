"""pydantic's errors in the house form, each kind with its whole text."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, field_validator

from omniroute_addon.input_problems import Strict, validate, value_at
from omniroute_addon.yaml_source import read_yaml

type Words = list[str]
type Side = Annotated[Literal["left", "right"], Field(description="Where.")]


class Other(Strict):
    word: str = ""


class Inner(Strict):
    word: Literal["left", "right"] | None = None
    test: dict[str, bool | int | str | list[str] | Other] | None = None
    maybe: Annotated[int, Field(ge=0)] | Literal["off"] | None = None


type Inners = dict[str, Annotated[Inner, Field()]]


class Outer(Strict):
    sides: dict[Side, int] = Field(default_factory=dict)
    endpoints: dict[Literal["here"], int] = Field(default_factory=dict)
    named: Inners | None = None
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("`even` must be even. Add 1.")
        return value

    id: str = Field(description="A name.")
    count: int = Field(0, ge=1, le=9)
    above: float = Field(1.0, gt=0, lt=2)
    flag: bool = False
    words: list[Literal["left", "right"]] = Field(default_factory=list, max_length=2)
    texts: Words = Field(default_factory=list, min_length=1)
    short: str = Field("ab", min_length=2, max_length=3)
    inner: Inner | None = None
    inners: list[Inner] = Field(default_factory=list)
    key: str | None = None
    bare: str = Field("x", alias="Bare", pattern="^x$")


def problems(text: str) -> list[str]:
    return [p.removeprefix("f.yaml:") for p in validate(Outer, read_yaml(text.encode(), file="f.yaml"))[1]]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("id: a\nidd: b", "2:1: unknown key 'idd'. Did you mean 'id'?\n  Known keys: id, "),
        ("flag: true", "1:1: 'id' is missing here. Add `id: …` (A name)."),
        ("id: 5", "1:5: 'id' must be text, not '5'. Put it in quotes."),
        ("id: a\ncount: 0", "2:8: 'count' must be at least 1, not '0'."),
        ("id: a\ncount: 10", "2:8: 'count' must be at most 9, not '10'."),
        ("id: a\nabove: 0", "2:8: 'above' must be more than 0, not '0'."),
        ("id: a\nabove: 2.5", "2:8: 'above' must be less than 2, not '2.5'."),
        ("id: a\ncount: many", "2:8: 'count' must be a whole number, not 'many'."),
        ("id: a\ncount: 1.5", "2:8: 'count' must be a whole number, not '1.5'."),
        ("id: a\nabove: x", "2:8: 'above' must be a number, not 'x'."),
        ("id: a\nflag: yes", "2:7: 'flag' must be true or false, not 'yes'."),
        ("id: a\nwords: left", "2:8: 'words' must be a list, not 'left'. Begin each entry with '- '."),
        (
            "id: a\nwords: [lift]",
            "2:9: unknown word 'lift'. Did you mean 'left'?\n  Known words: left, right",
        ),
        ("id: a\nwords: [left, left, left]", "2:8: 'words' must have at most 2 entries."),
        ("id: a\ntexts: []", "2:8: 'texts' must have at least 1 entries."),
        ("id: a\ntexts: [x, 5]", "2:12: every entry of 'texts' must be text, not '5'. Put it in quotes."),
        ("id: a\nshort: x", "2:8: 'short' must have at least 2 characters."),
        ("id: a\nshort: xxxx", "2:8: 'short' must have at most 3 characters."),
        ("id: a\ninner: 5", "2:8: 'inner' must be a mapping, not '5'. Write `name: value` lines below it."),
        ("id: a\ninner: {wort: left}", "2:9: unknown key 'wort'. Did you mean 'word'?\n  Known keys: word, "),
        ("id: a\ninners: [{wort: x}]", "2:11: unknown key 'wort'. Did you mean 'word'?\n  Known keys: word, "),
        ("id: a\ninners: [{word: x}]", "2:17: unknown word 'x'.\n  Known words: left, right"),
        ("id: a\ninner: {test: {x: {wort: 1}}}", "2:20: unknown key 'wort'. Did you mean 'word'?\n  Known keys: word"),
        (
            "id: a\ninner: {test: {x: 1.5}}",
            "2:19: 'x' must be true or false, a whole number, text, a list or a mapping, not '1.5'.",
        ),
        ("id: a\ninner: {maybe: of}", "2:16: unknown maybe 'of'. Did you mean 'off'?\n  Known maybes: off"),
        ("id: a\nkey: 123", "2:6: 'key' must be text. Put it in quotes."),
        ("id: a\nBare: y", "2:7: 'Bare' cannot be used: string should match pattern '^x$', not 'y'."),
        ("id: a\neven: 1", "2:7: `even` must be even. Add 1."),
        ("id: a\nsides: {lefd: 1}", "2:9: unknown key 'lefd'. Did you mean 'left'?\n  Known keys: left, right"),
        ("id: a\nendpoints: {her: 1}", "2:13: unknown dialect 'her'. Did you mean 'here'?\n  Known dialects: here"),
        ("id: a\nnamed: {x: {wort: left}}", "2:13: unknown key 'wort'. Did you mean 'word'?\n  Known keys: word, "),
        ("[1]", "1:1: the file must be a mapping, not a list. Write `name: value` lines below it."),
        ("5", "1:1: the file must be a mapping, not '5'. Write `name: value` lines below it."),
    ],
)
def test_each_kind_of_error_has_its_sentence(text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    if "unknown key 'wort'" in problem or "unknown key 'idd'" in problem:
        assert found[0].startswith(problem)
        assert found[0].endswith("\n  Rename or remove it.")
    else:
        assert found == [problem]


def test_all_errors_of_a_file_come_at_once_in_its_order() -> None:
    found = problems("flag: 1\nid: 5\ninner:\n  word: up\ncount: -1\n")
    assert [text.partition(": ")[0] for text in found] == ["1:7", "2:5", "4:9", "5:8"]


def test_null_at_the_top_is_the_same_as_left_out_but_an_unknown_key_stays_one() -> None:
    assert problems("id: a\ninners:\nwords: ~\n") == []
    assert problems("id:\n")[0].startswith("1:1: 'id' is missing here.")
    assert problems("id: a\nother:\n")[0].startswith("2:1: unknown key 'other'.")


def test_an_empty_document_is_an_empty_mapping() -> None:
    assert validate(Inner, read_yaml(b"", file="f.yaml")) == (Inner(), [])


def test_a_part_of_a_document_can_be_validated() -> None:
    document = read_yaml(b"top:\n  - {word: lift}\n", file="f.yaml")
    assert validate(Inner, document, prefix=("top", 0))[1] == [
        "f.yaml:2:12: unknown word 'lift'. Did you mean 'left'?\n  Known words: left, right"
    ]


def test_value_at_a_path_that_is_not_there_is_none() -> None:
    data = {"a": [1, {"b": 2}]}
    assert value_at(data, ("a", 1, "b")) == 2
    assert value_at(data, ("a", 7)) is None
    assert value_at(data, ("a", 0, "x")) is None
    assert value_at(data, ("z",)) is None
