"""Replies, requests and the choice between them: pure values."""

from __future__ import annotations

import pytest

from omniroute_addon.testing.faults import CATALOGUE, cut, cut_bytes, drip, scattered, wrong_length
from omniroute_addon.testing.script import Close, Pause, Received, Reply, Reset, Script, json_reply


def received(**fields: object) -> Received:
    defaults = {
        "number": 1,
        "connection": 1,
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/x",
        "authority": "api.openai.com",
        "headers": (),
        "body": b"",
        "sni": None,
    }
    return Received(**{**defaults, **fields})  # type: ignore[arg-type]


def bytes_of(reply: Reply) -> bytes:
    return b"".join(step for step in reply.steps if isinstance(step, bytes))


@pytest.mark.parametrize(
    ("headers", "path", "key"),
    [
        ((("authorization", "Bearer sk-1"),), "/", "sk-1"),
        ((("authorization", "sk-bare"),), "/", "sk-bare"),
        ((("x-api-key", "sk-2"),), "/", "sk-2"),
        ((("x-goog-api-key", "AIza"),), "/", "AIza"),
        ((("api-key", "azure"),), "/", "azure"),
        ((), "/v1beta/models/m:generateContent?alt=sse&key=AIzb", "AIzb"),
        ((), "/", None),
    ],
)
def test_a_request_names_its_credential_wherever_a_provider_wants_it(headers, path, key):
    assert received(headers=headers, path=path).key == key


def test_a_list_of_answers_is_used_up_one_by_one_and_then_says_so_loudly():
    script = Script()
    script.add([Reply(status=429), Reply(status=200)])
    assert [script.answer(received()).status for _ in range(3)] == [429, 200, 599]
    assert len(script.unscripted) == 1


def test_the_last_line_that_fits_decides():
    script = Script()
    script.add(Reply(status=200))
    script.add(Reply(status=401), key="sk-bad")
    script.add(lambda request: Reply(status=len(request.body)), path="/v1/y")
    assert script.answer(received()).status == 200
    assert script.answer(received(headers=(("x-api-key", "sk-bad"),))).status == 401
    assert script.answer(received(path="/v1/y?beta=true", body=b"abc")).status == 3


def test_a_used_up_line_does_not_fall_back_on_an_older_one():
    script = Script()
    script.add(Reply(status=200))
    script.add([Reply(status=429)], key="a")
    asks = received(headers=(("x-api-key", "a"),))
    assert [script.answer(asks).status for _ in range(2)] == [429, 599]


def test_nothing_scripted_is_a_599_that_names_the_request():
    reply = Script().answer(received(path="/v1/z"))
    assert (reply.status, b"POST /v1/z" in reply.body) == (599, True)


def test_only_the_first_end_of_an_answer_counts():
    request = received()
    request.finish("client_closed")
    request.finish("complete")
    assert (request.outcome, request.cancelled, request.ended.is_set()) == ("client_closed", True, True)


def test_a_body_is_cut_at_every_n_bytes_and_at_offsets_also_inside_a_character():
    euro = "€\r\n".encode()
    assert Reply(body=euro, split_every=2).steps == (euro[:2], euro[2:4], euro[4:])
    assert Reply(body=b"abcdef", split_at=(1, 4, 99)).steps == (b"a", b"bcd", b"ef")
    assert Reply(body=b"", split_every=2).steps == ()


def test_json_reply_writes_text_as_it_is():
    reply = json_reply({"m": "额度不足"}, status=403, headers={"retry-after": "1"})
    assert reply.body.decode() == '{"m": "额度不足"}'
    assert dict(reply.headers) == {"content-type": "application/json", "retry-after": "1"}


GOOD = Reply(chunks=(b"one ", b"two ", b"three"))


def test_cut_keeps_whole_chunks_and_cut_bytes_does_not():
    assert cut(GOOD, after=2, ending=Reset()).steps == (b"one ", b"two ", Reset())
    assert cut_bytes(GOOD, after=6, ending=Close()).steps == (b"one tw", Close())
    assert cut_bytes(GOOD, after=0, ending=Close()).steps == (Close(),)


def test_drip_and_scattered_keep_the_bytes():
    assert bytes_of(drip(GOOD, every=5, pause_s=0.1)) == bytes_of(GOOD) == bytes_of(scattered(GOOD, every=3))
    assert drip(GOOD, every=8, pause_s=0.1).steps == (b"one two ", Pause(0.1), b"three", Pause(0.1))


def test_a_wrong_length_needs_a_plain_body():
    reply = wrong_length(GOOD, lie=-3)
    assert (reply.body, reply.length_lie, reply.framing) == (b"one two three", -3, "length")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_fault_of_the_catalogue_differs_from_the_good_answer(name):
    assert CATALOGUE[name](GOOD) != GOOD
