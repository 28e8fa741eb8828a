"""The proxy harness with a bare mitmproxy in it: what it adds must not change what mitmproxy does."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest
from mitmproxy.http import HTTPFlow

from omniroute_addon.testing.client import Client, TunnelRefused, fetch
from omniroute_addon.testing.connect_proxy import ConnectProxy
from omniroute_addon.testing.faults import cut
from omniroute_addon.testing.process import proxy_process
from omniroute_addon.testing.proxy import ProxyFailed, running_proxy
from omniroute_addon.testing.rehost import Rehost
from omniroute_addon.testing.script import Await, Hang, Reply, Reset
from omniroute_addon.testing.upstream import FakeUpstream

BOTH = [False, True]
FOUR = list(itertools.product(BOTH, BOTH))
OPENAI = "https://api.openai.com"


class Stream:
    """Bare mitmproxy holds bodies back unless it is told to stream."""

    def responseheaders(self, flow: HTTPFlow) -> None:
        assert flow.response is not None
        flow.response.stream = True


@pytest.mark.parametrize(("client_h2", "upstream_h2"), FOUR)
async def test_round_trip_under_a_real_name(client_h2, upstream_h2):
    async with FakeUpstream(http2=upstream_h2) as upstream:
        upstream.script([Reply(body=b"first"), Reply(body=b"second")])
        async with running_proxy(addons=[], rehost={"api.openai.com:443": upstream.address}) as proxy:
            async with Client(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file, http2=client_h2) as client:
                seen = await client.request("POST", "/v1/x", headers={"authorization": "Bearer sk-1"}, body=b"q")
                assert (seen.status, seen.body, seen.end, len(seen.heads)) == (200, b"first", "complete", 1)
                assert (await client.request("GET", "/")).body == b"second"
            await proxy.finished(2)
        request = upstream.requests[0]
        assert (request.authority, request.sni, request.key) == ("api.openai.com", "api.openai.com", "sk-1")
        # mitmproxy offers upstream what the client offered, so HTTP/2 needs it on both sides.
        assert request.http_version == ("2" if upstream_h2 and client_h2 else "1.1")
        assert [flow.request.pretty_host for flow in proxy.flows] == ["api.openai.com"] * 2
        assert proxy.errors == []
        # The name is mapped below mitmproxy's own book-keeping, so a connection is found again by its real address.
        if not client_h2 or upstream_h2:
            assert upstream.connections == 1


@pytest.mark.parametrize(("client_h2", "upstream_h2"), FOUR)
async def test_streams_pass_chunk_by_chunk(client_h2, upstream_h2):
    gates = [asyncio.Event(), asyncio.Event()]
    async with FakeUpstream(http2=upstream_h2) as upstream:
        upstream.script(Reply(chunks=(b"one", Await(gates[0]), b"two", Await(gates[1]), b"three")))
        async with (
            running_proxy(addons=[Stream()], rehost={"api.openai.com": upstream.address}) as proxy,
            Client(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file, http2=client_h2) as client,
        ):
            seen = await client.send("GET", "/")
            await seen.has_body(b"one")
            gates[0].set()
            await seen.has_body(b"two")
            assert seen.body == b"onetwo"
            gates[1].set()
            assert (await seen.finished()).body == b"onetwothree"


@pytest.mark.parametrize(("client_h2", "upstream_h2"), FOUR)
async def test_a_reset_in_a_stream_reaches_the_client_as_a_break(client_h2, upstream_h2):
    async with FakeUpstream(http2=upstream_h2) as upstream:
        gate = asyncio.Event()
        upstream.script(cut(Reply(chunks=(b"one", Await(gate))), after=2, ending=Reset()))
        async with running_proxy(addons=[Stream()], rehost={"api.openai.com": upstream.address}) as proxy:
            async with Client(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file, http2=client_h2) as client:
                seen = await client.send("GET", "/")
                await seen.has_body(b"one")
                gate.set()
                await seen.finished()
                assert (seen.body, seen.end) == (b"one", "rst_stream" if client_h2 else "closed")
            assert (await proxy.finished(1)).error is not None


@pytest.mark.parametrize("client_h2", BOTH)
async def test_a_client_that_leaves_is_seen_by_the_upstream(client_h2):
    async with FakeUpstream(http2=True) as upstream:
        upstream.script(Reply(chunks=(b"one", Hang())))
        async with (
            running_proxy(addons=[Stream()], rehost={"api.openai.com": upstream.address}) as proxy,
            Client(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file, http2=client_h2) as client,
        ):
            seen = await client.send("GET", "/")
            await seen.has_body(b"one")
            seen.cancel()
            await asyncio.wait_for(upstream.requests[0].ended.wait(), 5)
            assert upstream.requests[0].cancelled


async def test_plain_http_goes_by_absolute_form_with_the_proxy_user():
    async with FakeUpstream(tls=False) as upstream:
        upstream.script(Reply(body=b"plain"))
        async with running_proxy(
            addons=[], options={"proxyauth": "me:secret"}, rehost={"plain.example:80": upstream.address}
        ) as proxy:
            with_user = proxy.url.replace("//", "//me:secret@")
            assert (await fetch("http://plain.example/a?b=1", proxy=with_user)).body == b"plain"
            assert (await fetch("http://plain.example/", proxy=proxy.url)).status == 407
            with pytest.raises(TunnelRefused) as refused:
                await fetch("https://plain.example/", proxy=proxy.url)
            assert refused.value.status == 407
        assert [request.path for request in upstream.requests] == ["/a?b=1"]


async def test_a_name_that_is_not_mapped_never_leaves_the_machine():
    async with running_proxy(addons=[], rehost={}) as proxy:
        seen = await fetch("http://somewhere.example/", proxy=proxy.url)
        assert seen.status == 502
        assert any("somewhere.example:80 is not on loopback" in line for line in proxy.log)


async def test_rehost_knows_hosts_ports_and_option_lines():
    rehost = Rehost({"a.example:443": ("127.0.0.1", 1), "b.example": ("127.0.0.1", 2)})
    assert rehost.dial("a.example", 443) == ("127.0.0.1", 1)
    assert rehost.dial("b.example", 80) == ("127.0.0.1", 2)
    assert rehost.dial("127.0.0.1", 3) == ("127.0.0.1", 3)
    with pytest.raises(OSError, match=r"a\.example:80 is not on loopback"):
        rehost.dial("a.example", 80)
    async with running_proxy(addons=[], options={"rehost": ["c.example:80=127.0.0.1:4"]}) as proxy:
        assert proxy.master.addons.get("rehost").dial("c.example", 80) == ("127.0.0.1", 4)


async def test_the_proxy_leaves_nothing_behind():
    loop = asyncio.get_running_loop()
    handlers, connect = list(logging.getLogger().handlers), loop.create_connection
    async with FakeUpstream() as upstream:
        upstream.script(Reply(before=(Hang(),)))
        before = asyncio.all_tasks()
        async with running_proxy(addons=[], rehost={"api.openai.com": upstream.address}) as proxy:
            client = Client(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file)
            await client.connect()
            seen = await client.send("GET", "/")
            await upstream.received(1)
        assert (await seen.finished()).end in ("closed", "reset")
        await client.close()
        await asyncio.wait_for(upstream.requests[0].ended.wait(), 5)
        await asyncio.sleep(0)
        assert {task for task in asyncio.all_tasks() - before if "handler" in task.get_name()} == set()
    assert list(logging.getLogger().handlers) == handlers
    assert loop.create_connection == connect
    assert not proxy.folder.exists()


async def test_an_error_at_start_is_an_exception_and_not_the_end_of_the_tests():
    class Broken:
        def running(self) -> None:
            logging.getLogger("omniroute_addon").error("no such folder: rules")

    with pytest.raises(ProxyFailed, match="no such folder: rules"):
        async with running_proxy(addons=[Broken()]):
            raise AssertionError("unreachable")


async def test_a_configuration_is_written_where_the_addon_looks_for_it():
    async with running_proxy(addons=[], config={"connections": [{"id": "a"}]}) as proxy:
        assert proxy.config_file.read_text() == "connections:\n- id: a\n"
    async with running_proxy(addons=[], config="# as it stands\n") as proxy:
        assert proxy.config_file.read_text() == "# as it stands\n"


async def test_an_upstream_proxy_sees_the_names_and_nothing_else():
    async with FakeUpstream() as upstream, ConnectProxy({"api.openai.com:443": upstream.address}) as outer:
        upstream.script(Reply(body=b"through two proxies"))
        async with running_proxy(addons=[], mode=[f"upstream:{outer.url}"]) as proxy:
            assert (await fetch(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file)).body == b"through two proxies"
        assert outer.asked == ["api.openai.com:443"]
        assert upstream.requests[0].sni == "api.openai.com"


@pytest.mark.parametrize(("name", "status"), [("other.example:443", 200), ("api.openai.com:443", 403)])
async def test_an_upstream_proxy_can_refuse(name, status):
    async with FakeUpstream() as upstream, ConnectProxy({name: upstream.address}, status=status) as outer:
        with pytest.raises(TunnelRefused) as refused:
            await fetch(OPENAI, proxy=outer.url, ca_file=upstream.ca_file)
        assert refused.value.status == (502 if status == 200 else 403)
        assert (await fetch("http://api.openai.com/", proxy=outer.url)).status == 405


async def test_mitmdump_as_a_process():
    async with FakeUpstream() as upstream:
        upstream.script(Reply(body=b"from afar"))
        async with proxy_process(addon=False, rehost={"api.openai.com:443": upstream.address}) as proxy:
            assert (await fetch(OPENAI, proxy=proxy.url, ca_file=proxy.ca_file)).body == b"from afar"
            await proxy.logged("200 OK")
            proxy.process.kill()
            await proxy.process.wait()
            with pytest.raises(ProxyFailed, match="mitmdump ended with -9"):
                await proxy.logged("never said")


async def test_a_process_that_cannot_start_shows_its_log():
    with pytest.raises(ProxyFailed, match="nonsense"):
        async with proxy_process(addon=False, mode=["nonsense"]):
            raise AssertionError("unreachable")
