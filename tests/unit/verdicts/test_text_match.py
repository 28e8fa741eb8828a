from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.verdicts.text_match import MAX_TEXT, Text, compile_phrase, compile_phrases, folded


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("rate limit", "Rate Limit exceeded", True),
        ("|model|", "the model is gone", True),
        ("|model|", "models are gone", False),
        ("|model|", "model_not_found", False),
        ("|rpm", "20 rpms", True),
        ("=0|", "m1=4,m2=0", True),
        ("=0|", "m1=05", False),
        ("quota … exceed", "quota was exceeded", True),
        ("quota … exceed", "exceeded quota", False),
        ("quota … exceed", "quota\nexceeded", False),
        ("quota … exceed", "quota\nthen quota exceeded", True),
        ("|model| …{5} gone", "model is gone", True),
        ("|model| …{5} gone", "model is finally gone", False),
        ("|model| …{5} gone", "model is finally; model is gone", True),
        ("|model| …{5} gone", "model\ngone", True),
        ("model … not … (found/served)", "model x is not served here", True),
        ("model … not … (found/served)", "model x is not here", False),
        ("model …{3} (gone/unavailable)", "model is now gone", False),
        ("|is| here", "this here " * 100 + "is here", False),  # bounded: nobody says it only the hundredth time
        ("isn't supported", "isn\u2019t supported", True),
        ("额度不足", "用户额度不足", True),
        ("a b", "a\u00a0b", True),
    ],
)
def test_a_phrase_means_what_the_notation_says(phrase: str, text: str, found: bool) -> None:
    assert compile_phrase(phrase).found_in(Text(text)) is found


def test_a_literal_phrase_takes_every_character_as_itself() -> None:
    """FC-59, edge case 12."""
    assert compile_phrase(".*", literal=True).found_in(Text("a .* b"))
    assert not compile_phrase(".*", literal=True).found_in(Text("anything"))
    assert compile_phrase("|a … b|", literal=True).found_in(Text("x |A … B| y"))


def test_a_nested_list_must_occur_together() -> None:
    test = compile_phrases([["weekly", "quota", "exhaust"], "$more"], {"more": ["other"]})
    assert test(Text("quota exhausted, weekly")) and test(Text("other"))
    assert not test(Text("weekly quota"))


def test_an_unknown_list_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown phrase list 'Q'\.\n  Known phrase lists: credits, daily"):
        compile_phrases(["$Q"], {"daily": ["x"], "credits": ["y"]})


def test_a_list_that_stands_for_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="stands for itself"):
        compile_phrases(["$a"], {"a": ["$a"]})


def test_an_empty_part_is_refused() -> None:
    with pytest.raises(ValueError, match="has an empty part"):
        compile_phrase("model … ")


def test_only_the_first_64_kib_are_looked_at() -> None:
    assert not compile_phrase("needle").found_in(Text("x" * MAX_TEXT + "needle"))
    assert "needle" in repr(Text("Needle"))
    assert not Text("")


@given(st.text(), st.text())
def test_any_text_and_any_literal_give_an_answer(phrase: str, text: str) -> None:
    assert compile_phrase(phrase, literal=True).found_in(Text(text)) is (folded(phrase) in folded(text))


@pytest.mark.parametrize("body", ["model " * 20_000, "model\n" * 20_000, "model not\n" * 10_000, "a" * 200_000])
def test_a_pathological_text_costs_next_to_nothing(body: str) -> None:
    """Edge case 22 of spec/05, for single phrases."""
    phrases = [compile_phrase(p) for p in ("model … not … found", "|model| …{80} retired", "|a| …{3} |b|", "|odel|")]
    text = Text(body)
    begin = time.process_time()
    for phrase in phrases:
        phrase.found_in(text)
    assert time.process_time() - begin < 0.05
