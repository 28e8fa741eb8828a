"""The fake upstream against the recording client, without a proxy between: every fault is seen as what it is."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from omniroute_addon.testing.client import Client
from omniroute_addon.testing.faults import (
    CATALOGUE,
    cut,
    garbage,
    hang_before_head,
    oversized_head,
    scattered,
    wrong_length,
)
from omniroute_addon.testing.script import Await, Close, GoAway, Hang, Pause, Raw, Reply, Reset, ResetStream
from omniroute_addon.testing.upstream import FakeUpstream, closed_port, silent_port

WIRES = ["plain", "tls", "h2"]
GOOD = Reply(chunks=(b"one ", b"two ", b"three"))


@asynccontextmanager
async def pair(wire: str, *answers: Reply, **options: int) -> AsyncIterator[tuple[FakeUpstream, Client]]:
    """An upstream with a list of answers, and a client connected to it under a provider's name."""
    h2 = wire == "h2"
    async with FakeUpstream(tls=wire != "plain", http2=h2, **options) as upstream:  # type: ignore[arg-type]
        if answers:
            upstream.script(list(answers))
        scheme = "http" if wire == "plain" else "https"
        ca = upstream.ca_file
        async with Client(f"{scheme}://api.openai.com", ca_file=ca, http2=h2, dial=upstream.address) as client:
            yield upstream, client


@pytest.mark.parametrize("wire", WIRES)
async def test_a_good_answer_arrives_and_the_request_is_recorded(wire):
    async with pair(wire, replace(GOOD, headers=(("x-a", "1"),))) as (upstream, client):
        seen = await client.request("POST", "/v1/x?q=1", headers={"Authorization": "Bearer sk-1"}, body=b"question")
        assert (seen.status, seen.end, seen.body, len(seen.heads)) == (200, "complete", b"one two three", 1)
        assert seen.header("X-A") == "1"
        assert seen.stray == b""
        [request] = upstream.requests
        assert (request.method, request.path, request.body, request.key) == ("POST", "/v1/x?q=1", b"question", "sk-1")
        assert request.authority == "api.openai.com"
        assert request.http_version == ("2" if wire == "h2" else "1.1")
        assert request.sni == (None if wire == "plain" else "api.openai.com")
        await asyncio.wait_for(request.ended.wait(), 5)
        assert (request.outcome, request.sent_bytes, request.cancelled) == ("complete", 13, False)


@pytest.mark.parametrize("wire", WIRES)
async def test_each_chunk_is_a_piece_and_the_gate_holds_the_next(wire):
    gate = asyncio.Event()
    async with pair(wire, Reply(chunks=(b"one", Await(gate), b"two", b"three"))) as (_, client):
        seen = await client.send("GET", "/")
        await seen.has_body(b"one")
        assert seen.body == b"one"
        gate.set()
        await seen.finished()
        assert [data for _, data in seen.pieces if data] == [b"one", b"two", b"three"]


@pytest.mark.parametrize("wire", WIRES)
async def test_several_requests_share_a_connection(wire):
    async with pair(wire, Reply(body=b"1"), Reply(body=b"2")) as (upstream, client):
        assert [(await client.request("GET", "/")).body for _ in range(2)] == [b"1", b"2"]
        assert [request.connection for request in upstream.requests] == [1, 1]


async def test_http2_requests_run_side_by_side():
    gate = asyncio.Event()
    async with pair("h2", Reply(chunks=(Await(gate), b"slow")), Reply(body=b"quick")) as (upstream, client):
        slow = await client.send("GET", "/slow")
        await upstream.received(1)
        assert (await client.request("GET", "/quick")).body == b"quick"
        assert slow.end is None
        gate.set()
        assert (await slow.finished()).body == b"slow"


@pytest.mark.parametrize("wire", WIRES)
async def test_large_bodies_pass_both_ways(wire):
    big = bytes(range(256)) * 2000
    async with pair(wire, Reply(body=big)) as (upstream, client):
        assert (await client.request("POST", "/", body=big)).body == big
        assert upstream.requests[0].body == big


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("reply", "body", "h1_end", "h2_end"),
    [
        (cut(GOOD, after=2, ending=Reset()), b"one two ", "reset", "reset"),
        (cut(GOOD, after=2, ending=Close()), b"one two ", "closed", "closed"),
        (cut(GOOD, after=0, ending=Reset()), b"", "reset", "reset"),
        (cut(GOOD, after=1, ending=ResetStream(2)), b"one ", "reset", "rst_stream"),
        (Reply(before=(Reset(),)), b"", "reset", "reset"),
        (Reply(before=(Close(),)), b"", "closed", "closed"),
        (garbage(), b"", "garbage", "garbage"),
    ],
    ids=["reset mid-body", "close mid-body", "reset after head", "rst_stream", "reset first", "close first", "garbage"],
)
async def test_a_fault_is_seen_as_such(wire, reply, body, h1_end, h2_end):
    async with pair(wire, reply) as (upstream, client):
        seen = await client.request("GET", "/")
        assert seen.end == (h2_end if wire == "h2" else h1_end)
        # A reset may overtake what was sent just before it; what did arrive is a beginning.
        assert body.startswith(seen.body)
        if seen.end not in ("reset", "garbage"):
            assert seen.body == body
        assert upstream.requests[0].outcome == "broken_by_script"


async def test_rst_stream_carries_its_code_and_the_connection_lives_on():
    async with pair("h2", Reply(before=(ResetStream(7),)), Reply(body=b"fine")) as (upstream, client):
        assert (await client.request("GET", "/")).rst_code == 7
        assert (await client.request("GET", "/")).body == b"fine"
        assert upstream.connections == 1


async def test_go_away_ends_the_connection_with_its_code():
    async with pair("h2", Reply(chunks=(b"last words", GoAway(11), Hang()))) as (_, client):
        seen = await client.request("GET", "/")
        assert (seen.body, seen.end, client.went_away) == (b"last words", "go_away", 11)


async def test_the_number_of_streams_can_be_limited():
    async with pair("h2", Reply(), max_concurrent_streams=3) as (_, client):
        await client.request("GET", "/")
        assert client.max_concurrent_streams == 3


@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_that_cancels_while_the_upstream_hangs_is_noticed(wire):
    async with pair(wire, Reply(chunks=(b"one", Hang()))) as (upstream, client):
        seen = await client.send("GET", "/")
        await seen.has_body(b"one")
        seen.cancel()
        [request] = upstream.requests
        await asyncio.wait_for(request.ended.wait(), 5)
        assert seen.end == "cancelled"
        assert (request.outcome, request.rst_code) == (
            ("client_rst_stream", 8) if wire == "h2" else ("client_closed", None)
        )
        assert request.sent_bytes == 3


async def test_a_client_that_resets_during_a_pause_is_noticed():
    async with pair("plain", Reply(before=(Pause(30),))) as (upstream, client):
        await client.send("GET", "/")
        request = await upstream.received(1)
        client.reset()
        await asyncio.wait_for(request.ended.wait(), 5)
        assert (request.outcome, request.cancelled) == ("client_reset", True)


async def test_hang_before_head_says_nothing():
    async with pair("tls", hang_before_head()) as (upstream, client):
        seen = await client.send("GET", "/")
        await upstream.received(1)
        with pytest.raises(TimeoutError):
            await seen.has_head(within_s=0.05)
        assert (seen.heads, bytes(seen.raw)) == ([], b"")


@pytest.mark.parametrize(("lie", "end", "body"), [(10, "closed", b"one two three"), (-3, "complete", b"one two th")])
async def test_a_wrong_content_length_is_what_goes_on_the_wire(lie, end, body):
    async with pair("plain", wrong_length(GOOD, lie=lie)) as (_, client):
        seen = await client.request("GET", "/")
        assert (seen.end, seen.body) == (end, body)
        assert seen.header("content-length") == str(13 + lie)


async def test_a_missing_last_chunk_is_no_clean_end():
    async with pair("plain", CATALOGUE["missing last chunk"](GOOD)) as (_, client):
        seen = await client.request("GET", "/")
        assert (seen.end, seen.body) == ("closed", b"one two three")


async def test_an_oversized_head_is_sent_whole():
    async with pair("plain", oversized_head(GOOD, header_bytes=200_000)) as (_, client):
        seen = await client.request("GET", "/")
        assert sum(len(value) for name, value in seen.heads[0].headers if name.startswith("x-padding")) >= 200_000


@pytest.mark.parametrize("wire", WIRES)
async def test_informational_heads_and_trailers(wire):
    hints = ((100, ()), (103, (("link", "</style.css>"),)))
    async with pair(wire, replace(GOOD, informational=hints, trailers=(("x-sum", "9"),))) as (_, client):
        seen = await client.request("GET", "/")
        assert [head.status for head in seen.informational] == [100, 103]
        assert (seen.status, len(seen.heads), seen.trailers) == (200, 1, (("x-sum", "9"),))


async def test_scattered_bytes_arrive_as_scattered():
    euro = "€\r\n\r\n".encode()
    async with pair("plain", scattered(Reply(body=euro), every=1)) as (_, client):
        assert [data for _, data in (await client.request("GET", "/")).pieces] == [bytes([b]) for b in euro]


async def test_even_the_head_can_be_written_byte_by_byte():
    async with pair("plain", replace(GOOD, wire_every=1)) as (_, client):
        seen = await client.request("GET", "/")
        assert (seen.status, seen.body, seen.end) == (200, b"one two three", "complete")
        assert len(seen.pieces) == 13


async def test_raw_bytes_break_the_framing():
    async with pair("plain", cut(GOOD, after=1, ending=Raw(b"zz\r\n"))) as (_, client):
        assert (await client.request("GET", "/")).end == "garbage"


@pytest.mark.parametrize(
    "reply", [Reply(body=b"x", close=True), Reply(body=b"x", framing="until_eof", http_version="1.0")]
)
async def test_the_upstream_ends_the_connection_when_the_reply_says_so(reply):
    async with pair("plain", reply) as (_, client):
        seen = await client.request("GET", "/")
        assert (seen.end, seen.body) == ("complete", b"x")
        assert client.pipe is not None
        await asyncio.wait_for(client.pipe.gone.wait(), 5)
        assert client.pipe.ending == "closed"


@pytest.mark.parametrize("wire", WIRES)
async def test_the_keep_alive_race_is_lost_by_the_client(wire):
    async with pair(wire, Reply(body=b"1", close_on_next=True), Reply(body=b"never")) as (upstream, client):
        assert (await client.request("GET", "/")).body == b"1"
        assert (await client.request("GET", "/")).end in ("closed", "reset")
        assert (upstream.races, len(upstream.requests)) == (1, 1)


async def test_a_head_request_gets_no_body():
    async with pair("plain", GOOD, Reply(body=b"next")) as (_, client):
        seen = await client.request("HEAD", "/")
        assert (seen.status, seen.body, seen.end) == (200, b"", "complete")
        assert (await client.request("GET", "/")).body == b"next"


async def test_expect_100_continue_is_answered():
    async with pair("plain", Reply(body=b"thanks")) as (upstream, client):
        seen = await client.request("POST", "/", headers={"expect": "100-continue"}, body=b"")
        assert seen.status == 200
        assert [head.status for head in seen.informational] in ([], [100])
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(("manners", "end"), [("close", "closed"), ("reset", "reset")])
async def test_a_connection_can_be_refused_after_it_was_accepted(manners, end):
    async with FakeUpstream(tls=False) as upstream:
        upstream.on_accept = manners
        async with Client("http://api.openai.com", dial=upstream.address) as client:
            assert client.pipe is not None
            await asyncio.wait_for(client.pipe.gone.wait(), 5)
            assert client.pipe.ending == end
            assert (upstream.connections, upstream.requests) == (1, [])


async def test_a_connection_can_be_accepted_and_ignored():
    async with FakeUpstream(tls=False) as upstream:
        upstream.on_accept = "hang"
        async with Client("http://api.openai.com", dial=upstream.address) as client:
            seen = await client.send("GET", "/")
            with pytest.raises(TimeoutError):
                await seen.finished(within_s=0.05)
            seen.cancel()
        assert upstream.requests == []


async def test_a_closed_port_refuses_and_a_silent_one_does_not_shake_hands(test_ca):
    with closed_port() as port, pytest.raises(ConnectionRefusedError):
        await Client("http://x.example", dial=("127.0.0.1", port)).connect()
    with silent_port() as port, pytest.raises(TimeoutError):
        client = Client("https://api.openai.com", ca_file=test_ca.pem_file, dial=("127.0.0.1", port))
        async with asyncio.timeout(0.1):
            await client.connect()


async def test_the_certificate_is_for_the_real_names_only():
    async with FakeUpstream() as upstream:
        with pytest.raises(ssl.SSLCertVerificationError):
            await Client("https://evil.example", ca_file=upstream.ca_file, dial=upstream.address).connect()
    async with (
        FakeUpstream(names=("evil.example",)) as upstream,
        Client("https://evil.example", ca_file=upstream.ca_file, dial=upstream.address) as client,
    ):
        assert client.certificate["subjectAltName"]


async def test_a_stopped_upstream_can_come_back_on_its_port():
    async with FakeUpstream(tls=False) as upstream:
        upstream.script(Reply(body=b"back"))
        port = upstream.port
        await upstream.stop()
        with pytest.raises(ConnectionRefusedError):
            await Client("http://x.example", dial=upstream.address).connect()
        await upstream.start(port)
        async with Client("http://x.example", dial=upstream.address) as client:
            assert (await client.request("GET", "/")).body == b"back"


async def test_what_the_fakes_do_not_do_is_refused():
    with pytest.raises(ValueError, match="HTTP/2 needs TLS"):
        FakeUpstream(tls=False, http2=True)
    with pytest.raises(ValueError, match="is not http://host"):
        Client("api.openai.com")
    async with pair("plain", Reply(chunks=(Hang(),))) as (_, client):
        first = await client.send("GET", "/")
        with pytest.raises(RuntimeError, match="after the answer to the last one"):
            await client.send("GET", "/")
        first.cancel()
    async with FakeUpstream() as upstream:
        with pytest.raises(ConnectionError, match="HTTP/2 was wanted"):
            async with Client("https://api.openai.com", ca_file=upstream.ca_file, http2=True, dial=upstream.address):
                raise AssertionError("unreachable")


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_function_that_raises_fails_the_test_and_does_not_hang_it(wire):
    def answer(request):
        raise ZeroDivisionError("a fault in the test itself")

    with pytest.raises(ZeroDivisionError):
        async with pair(wire) as (upstream, client):
            upstream.script(answer)
            assert (await client.request("GET", "/")).end in ("reset", "closed")


async def test_a_client_that_says_goodbye_ends_all_its_streams():
    async with pair("h2", Reply(chunks=(b"one", Hang()))) as (upstream, client):
        seen = await client.send("GET", "/")
        await seen.has_body(b"one")
        await client.close()
        request = upstream.requests[0]
        await asyncio.wait_for(request.ended.wait(), 5)
        assert (request.outcome, seen.end) == ("client_closed", "closed")
