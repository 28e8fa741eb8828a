"""Gemini's stream without `alt=sse`: one JSON array, cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.dialects.json_array import JsonArraySplitter, element

texts = st.text(alphabet='"\\{}[],é\n', max_size=6)
values = st.fixed_dictionaries({"a": texts, "b": st.sampled_from([[], [[{}]], {"]": "}"}])})


@settings(deadline=None, max_examples=60)
@given(st.lists(values, min_size=1, max_size=5), st.integers(1, 17), st.booleans())
def test_any_cut_gives_the_same_elements_and_bytes(items: list[dict[str, object]], size: int, ascii_only: bool) -> None:
    whole = ("[" + "\n,\r\n".join(json.dumps(item, ensure_ascii=ascii_only) for item in items) + "\n]\n").encode()
    splitter = JsonArraySplitter()
    pieces = [p for start in range(0, len(whole), size) for p in splitter.feed(whole[start : start + size])]
    assert [json.loads(element(p.raw)) for p in pieces[:-1]] == items
    assert element(pieces[-1].raw) == b""
    assert b"".join(p.raw for p in pieces) + splitter.rest() == whole
    assert splitter.pending == len(splitter.rest())


def test_an_empty_array_is_only_its_end() -> None:
    assert [element(piece.raw) for piece in JsonArraySplitter().feed(b"[]")] == [b""]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_st_2_a_long_element_comes_in_pieces(size: int) -> None:
    whole = b'[{"a": "' + b'\\"]}' * 20 + b'"},{"b": 1}]'
    splitter = JsonArraySplitter(limit=20)
    pieces = [p for start in range(0, len(whole), size) for p in splitter.feed(whole[start : start + size])]
    assert b"".join(p.raw for p in pieces) == whole
    assert [p.long for p in pieces if p.ends] == [True, False, False]
    assert pieces[-2].raw == b',{"b": 1}'
