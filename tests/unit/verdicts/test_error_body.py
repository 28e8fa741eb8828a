"""The words and fields of an error body that are the provider's own ("Beyond the reference" of spec 03)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.model import Answer
from omniroute_addon.verdicts.error_body import fields, own_words, read_documents


def answer(body: str | bytes, *, status: int = 429, stream: bool = False) -> Answer:
    return Answer(status=status, body=body.encode() if isinstance(body, str) else body, stream=stream)


def words(body: str | bytes, *, status: int = 429, stream: bool = False) -> list[str]:
    said = answer(body, status=status, stream=stream)
    return list(own_words(said, read_documents(said)))


def paths(document: object) -> dict[str, object]:
    return {field.path: field.value for field in fields(document)}


def test_a_document_is_read_through_a_byte_order_mark_and_a_list_around_it() -> None:
    assert read_documents(answer('\ufeff [{"error": {"code": 1}}]')) == ({"error": {"code": 1}},)


@pytest.mark.parametrize(
    ("cut", "document"),
    [
        (
            '{"error":{"message":"Please try again in 120ms. Visit https://platf',
            {"error": {"message": "Please try again in 120ms. Visit https://platf"}},
        ),
        ('{"error":{"a":1,"mess', {"error": {"a": 1}}),
        ('{"error":{"a":1,"message":', {"error": {"a": 1}}),
        ('{"a":[1,2', {"a": [1, 2]}),
        ('{"a":"x","b":"\\u00', {"a": "x"}),
        ('{"a":{"b":{"c":1},"d":', {"a": {"b": {"c": 1}}}),
        ("{", {}),
    ],
)
def test_a_document_that_was_cut_off_is_read_as_far_as_it_goes(cut: str, document: object) -> None:
    assert read_documents(answer(cut)) == (document,)


@pytest.mark.parametrize(
    "text", ["", "rate limited", "{]", '{"a":1}}', "}{", "[" * 200, '{"a":' * 200, "nul", "<html>{</html>"]
)
def test_what_is_no_document_is_none(text: str) -> None:
    assert read_documents(answer(text)) == ()


def test_a_success_has_no_error_document() -> None:
    """A11"""
    good = json.dumps({"choices": [{"message": {"content": "try again in 20s"}}]})
    assert read_documents(answer(good, status=200)) == ()
    assert read_documents(answer('{"error":{"message":"x"}}', status=200)) != ()


def test_the_error_event_of_a_stream_is_its_document() -> None:
    body = 'data: {"choices":[{"delta":{}}]}\n\nevent: error\ndata: {"error":{"message":"wait 5s"}}\n\n'
    assert read_documents(answer(body, status=200, stream=True)) == ({"error": {"message": "wait 5s"}},)
    assert read_documents(answer("data: {}\n\ndata: [DONE]\n\n", status=200, stream=True)) == ()


def test_a_stream_under_a_wrong_content_type_is_still_a_stream() -> None:
    assert read_documents(answer('data: {"error":{"retry_after":5}}\n\n')) == ({"error": {"retry_after": 5}},)


def test_the_end_of_a_very_long_stream_is_read_too() -> None:
    body = 'data: {"x":1}\n\n' * 1000 + 'data: {"type":"error","error":{"message":"late"}}\n\n'
    padded = body.encode() + b"\n"
    assert read_documents(answer(b": keep-alive\n\n" * 8000 + padded, status=200, stream=True)) == (
        {"type": "error", "error": {"message": "late"}},
    )


def test_list_items_are_named_by_their_type_else_by_number() -> None:
    document = {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}, {"x": 1}]}
    found = paths(document)
    assert found["details[RetryInfo].retryDelay"] == "1s"
    assert found["details[1].x"] == 1


@pytest.mark.parametrize("key", ["messages", "input", "contents", "prompt", "request", "choices", "tools", "System"])
def test_nothing_below_an_echoed_request_is_seen(key: str) -> None:
    assert "error" in paths({key: [{"text": "x"}], "error": 1})
    assert not any(path.startswith(key) for path in paths({key: {"retry_after": 5}, "error": 1}))


def test_a_document_inside_a_message_is_entered() -> None:
    assert paths({"message": '{"error":{"code":7}}'})["message.error.code"] == 7
    assert "prompt_text.error" not in paths({"prompt_text": '{"error":1}'})


def test_depth_and_number_of_fields_are_bounded() -> None:
    deep: object = 1
    for _ in range(50):
        deep = {"a": deep}
    assert max(path.count(".") for path in paths(deep)) <= 8
    nested: object = {"a": 1}
    for _ in range(50):
        nested = [nested]
    assert list(fields(nested)) == []
    assert len(list(fields({f"k{n}": n for n in range(5000)}))) == 600
    assert len(list(fields([{"a": 1}] * 5000))) == 50


def test_words_come_from_message_fields_only() -> None:
    body = json.dumps(
        {"error": {"message": "Slow down", "type": "x", "code": "y", "details": ["a", "b"], "prompt": "p"}}
    )
    assert words(body) == ["Slow down", "a", "b"]
    assert words('{"error":"plain"}') == ["plain"]
    assert words('["all there is"]') == ["all there is"]


def test_text_that_is_not_json_is_read_whole() -> None:
    assert words("error code: 1015") == ["error code: 1015"]
    assert words("data: nonsense\n\n", status=200, stream=True) == []


def test_a_refused_request_is_not_quoted_back_as_the_providers_word() -> None:
    """Quoting an error text inside a prompt changes nothing."""
    message = 'Invalid value: \'assistent\'. Got {"role": "assistent", "content": "try again in 20s"}'
    assert "20s" not in "".join(words(json.dumps({"error": {"message": message}}), status=400))
    quoted = 'Invalid text "try again in 20s" or `wait 5 s`'
    assert "try" not in "".join(words(json.dumps({"error": {"message": quoted}}), status=400))
    assert "wait" not in "".join(words(json.dumps({"error": {"message": quoted}}), status=422))


def test_one_nested_error_speaks_and_several_do_not() -> None:
    one = 'upstream said 429 {"error":{"message":"try again in 20s"}}'
    assert "20s" in "".join(words(one))
    two = f'{one}, also 403 {{"error":{{"message":"wait 5s"}}}}'
    assert "20s" not in "".join(words(two, status=502)) and "5s" not in "".join(words(two, status=502))
    assert "20s" not in "".join(words('bad {"role":"user","content":"try again in 20s"}'))


def test_an_open_brace_runs_to_the_end() -> None:
    assert words("a } b {c") == ["a } b  {c"]


def test_words_are_bounded() -> None:
    body = json.dumps({"error": {"message": "x" * 9000, "detail": "y" * 9000, "title": "z"}})
    assert sum(map(len, words(body))) == 8192


@given(st.binary(max_size=400), st.sampled_from([200, 400, 429, 503]), st.booleans())
def test_any_bytes_are_read_without_an_exception(body: bytes, status: int, stream: bool) -> None:
    for prefix in (b"", b"{", b'{"error":', b"data: "):
        said = answer(prefix + body, status=status, stream=stream)
        documents = read_documents(said)
        for document in documents:
            list(fields(document))
        list(own_words(said, documents))


@given(st.integers(min_value=1))
def test_a_document_cut_at_any_byte_is_still_read(at: int) -> None:
    whole = (
        '{"error":{"message":"Please \\"wait\\" 5s","details":[{"a":[1,{"b":null}]},"x"],"code":"\\u00e4"},"id":1.5e3}'
    )
    cut = whole[: at % len(whole) or 1]
    assert isinstance(read_documents(answer(cut))[0], dict)


@pytest.mark.parametrize("unit", ["{", "[", '{"a":', '"', "{}", ",", "\\", '{"message":"{}', "data: {\n\n", "`'\""])
def test_no_body_takes_long(unit: str) -> None:
    body = (unit * (10_000_000 // len(unit))).encode()
    for prefix in (b"", b'{"message":"', b'{"error":['):
        said = answer(prefix + body)
        started = time.process_time()
        list(own_words(said, read_documents(said)))
        assert time.process_time() - started < 0.1
