"""An answer is read once, in every shape that is really sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from verdict_answers import answer

from omniroute_addon.verdicts.answer_view import AnswerView, view


def seen(status: int, body: Any = b"", **more: Any) -> AnswerView:
    return view(answer(status, body, **more), provider="p", category="api_key", dialect=None)


@pytest.mark.parametrize(
    ("body", "codes", "types", "names", "message"),
    [
        ({"error": {"message": "m", "type": "t", "code": "c"}}, {"c"}, {"t"}, set(), "m"),
        ({"type": "error", "error": {"type": "t", "message": "m"}}, set(), {"t"}, set(), "m"),
        ([{"error": {"code": 429, "message": "m", "status": "S"}}], {"429"}, set(), {"s"}, "m"),
        ({"error": {"details": [{"reason": "R"}], "message": "m"}}, {"r"}, set(), set(), "m"),
        ({"__type": "com.x#T", "message": "m"}, set(), {"t"}, set(), "m"),
        ({"error": {"code": "1113", "message": "m"}}, {"1113"}, set(), set(), "m"),
        ({"base_resp": {"status_code": 1008, "status_msg": "m"}}, {"1008"}, set(), set(), "m"),
        ({"code": "C", "message": "m"}, {"c"}, set(), set(), "m"),
        ({"detail": "m"}, set(), set(), set(), "m"),
        ({"detail": {"code": "c"}}, {"c"}, set(), set(), ""),
        ({"detail": [{"msg": "m", "type": "t", "input": "rate limit"}]}, set(), {"t"}, set(), "m"),
        ({"error": "m", "code": "a sentence"}, {"a sentence"}, set(), set(), "m"),
        ({"errors": [{"code": 4006, "message": "m"}]}, {"4006"}, set(), set(), "m"),
        ('"Invalid token"', set(), set(), set(), "Invalid token"),
        ({"error": {"message": "m", "type": None, "code": True, "param": "None"}}, set(), set(), set(), "m"),
    ],
)
def test_fc_2_the_structured_error_of_every_known_shape(
    body: Any, codes: set[str], types: set[str], names: set[str], message: str
) -> None:
    view = seen(400, body)
    assert (view.codes, view.types, view.names, view.message) == (codes, types, names, message)


def test_echoed_request_fields_are_never_read() -> None:
    view = seen(400, {"error": {"message": "bad"}, "input": "insufficient_quota", "messages": [{"content": "banned"}]})
    assert view.text.folded == "bad"


@pytest.mark.parametrize(
    "message",
    [
        'Invalid value. Got {"content": "rate limit exceeded"}',
        "Invalid query: 'what is HTTP 429 rate limit' contains an operator",
        "Unknown name `a rate limit here`",
    ],
)
def test_a_400_does_not_speak_with_the_clients_words(message: str) -> None:
    assert "rate limit" not in seen(400, {"error": {"message": message}}).text
    assert "rate limit" in seen(429, {"error": {"message": message}}).text


def test_a_python_mapping_in_a_message_keeps_its_words() -> None:
    assert (
        "invalid model name"
        in seen(400, {"error": {"message": "{'error': '/chat: Invalid model name passed in'}"}}).text
    )


def test_sr_18_unicode_escapes_are_read_also_in_a_fragment() -> None:
    assert "额度不足" in seen(403, b'{"error":{"message":"\\u989d\\u5ea6\\u4e0d\\u8db3"}}').text
    cut = seen(403, b'{"error":{"code":"x","type":"y","status":"Z","message":"\\u989d\\u5ea6\\u4e0d\\u8db3')
    assert "额度不足" in cut.text
    assert (cut.codes, cut.types, cut.names) == ({"x"}, {"y"}, {"z"})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"message": "m", "code": 500}}, 500),
        ({"error": {"message": "m", "code": "404"}}, 404),
        ({"code": 404, "message": "m", "object": "error"}, 404),
        ({"body": {"error": {"message": "m"}}, "status": 401, "msg": "x"}, 401),
        ({"error": {"message": "m", "param": {"statusCode": 429}}}, 429),
        ({"error": {"message": "m", "type": "rate_limit_error"}}, 429),
        ({"error": {"message": "m"}}, 502),
        ({"base_resp": {"status_code": 1008}}, 502),
        ({"success": False, "errors": [{"message": "m"}]}, 502),
        ({"errors": {"message": "m"}}, 502),
        ({"type": "error", "message": "m"}, 502),
        (b'{"error":{"message":"cut', 502),
    ],
)
def test_an_error_inside_a_success_has_its_true_status(body: Any, status: int) -> None:
    view = seen(200, body)
    assert view.error and view.status == status and view.sent_status == 200


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "error"}}], "error": None},
        {"base_resp": {"status_code": 0, "status_msg": "success"}, "model_remains": []},
        {"is_available": False, "balance_infos": []},
        {"content": [], "type": "message"},
        {"id": "x", "message": "hello"},
        [1, 2],
        b"null",
        b"",
        b"plain words",
    ],
)
def test_a_success_is_no_error(body: Any) -> None:
    view = seen(200, body)
    assert not view.error and view.status == 200 and view.empty and not view.cut


SSE_CHUNK = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'


@pytest.mark.parametrize(
    ("text", "error", "output", "cut"),
    [
        (SSE_CHUNK + "data: [DONE]\n\n", False, True, False),
        (SSE_CHUNK, False, True, True),
        (SSE_CHUNK + 'data: {"choi', False, True, True),
        ('event: error\ndata: {"type":"error","error":{"message":"m"}}\n\n', True, False, False),
        ("event: error\ndata: not json\n\n", True, False, False),
        ('data: {"error":{"message":"m"}}\r\n\r\ndata: [DONE]\r\n\r\n', True, False, False),
        (
            'data: {"type":"response.failed","response":{"status":"failed","error":{"code":"c"}}}\n\n',
            True,
            False,
            False,
        ),
        ('data: {"response":{"status":"failed"}}\n\n', True, False, False),
        ('data: {"type":"content_block_delta"}\n\ndata: {"type":"message_stop"}\n\n', False, True, False),
        (
            'data: {"type":"response.output_text.delta","delta":"x"}\n\ndata: {"type":"response.completed"}\n\n',
            False,
            True,
            False,
        ),
        ('data: {"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}\n\n', False, True, False),
        (
            'data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}]}\n\n{\n "error": {\n  "code": 503\n }\n}',
            True,
            True,
            False,
        ),
        ('{"error":{"code":"resource_exhausted","message":"Error"}}', True, False, False),
        (
            ': comment\n\nid: 1\nretry: 5\n\ndata: [1]\n\n{"done": true}\ndata: {"choices":[3],"candidates":[4]}\n\n',
            False,
            False,
            False,
        ),
        ("", False, False, True),
    ],
)
def test_a_stream_is_read_for_its_first_error_its_output_and_its_end(
    text: str, error: bool, output: bool, cut: bool
) -> None:
    view = seen(200, text, stream=True)
    assert (view.error, view.output, view.cut) == (error, output, cut)


def test_a_stream_that_has_only_begun_is_not_cut() -> None:
    assert not seen(200, "", stream=True, phase="head").cut


def test_json_that_stops_in_the_middle_is_cut_and_a_long_one_is_not() -> None:
    assert seen(200, b'{"choices":[{"mess').cut
    assert not seen(200, b'{"choices":[{"message":"' + b"x" * 100_000 + b'"}]}').cut


def test_the_tail_of_a_long_stream_is_looked_at() -> None:
    assert not seen(200, SSE_CHUNK * 3000 + "data: [DONE]\n\n", stream=True).cut


def test_more_events_than_anybody_reads_are_bounded() -> None:
    assert seen(200, "data: 1\n\n" * 5000, stream=True).cut


def test_a_page_is_read_without_its_scripts() -> None:
    view = seen(403, "<html><script>rate limit</script><title>Access denied</title></html>")
    assert view.html and "access denied" in view.text and "rate limit" not in view.text
    assert seen(200, "<html>login</html>").error
    assert (
        "rate limit" in seen(403, "<html>\u0130<script>rate limit</script>").text
    )  # one of the letters that change length


def test_an_error_status_with_a_stream_body_is_read_as_one() -> None:
    assert "m" in seen(429, 'data: {"error":{"message":"m"}}\n\n').text


def test_the_aws_header_is_a_type() -> None:
    assert seen(429, {"message": "m"}, headers={"x-amzn-errortype": "ThrottlingException:http://x"}).types == {
        "throttlingexception"
    }


def test_a_deep_or_wide_body_is_bounded() -> None:
    deep = json.dumps({"error": {"message": "m"}})
    for _ in range(50):
        deep = '{"error":' + deep + "}"
    assert seen(400, deep).error
    assert seen(400, {"error": {str(n): "x" for n in range(1000)} | {"message": "late"}}).message == ""
    assert seen(400, "[" * 60_000).error
