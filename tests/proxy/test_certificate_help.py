"""A client without our authority, as it really fails: the log says who it was and what it needs (A39)."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl

import pytest

from omniroute_addon.testing.proxy import RunningProxy


async def distrust(proxy: RunningProxy, host: str = "api.anthropic.com", *headers: str) -> None:
    """CONNECT and a handshake that fails, because nothing but the system is trusted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    lines = [f"CONNECT {host}:443 HTTP/1.1", f"Host: {host}:443", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    await reader.readuntil(b"\r\n\r\n")
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        await writer.start_tls(ssl.create_default_context(), server_hostname=host)
        pytest.fail("the handshake should have failed")
    writer.close()


def told(proxy: RunningProxy) -> list[str]:
    return [line.partition(": ")[2] for line in proxy.log if "certificate_help" in line]


async def said(proxy: RunningProxy, count: int) -> list[str]:
    async with asyncio.timeout(10):
        while len(told(proxy)) < count:  # noqa: ASYNC110 (a log has no event to wait for)
            await asyncio.sleep(0.01)
    return told(proxy)


def login(name: str, token: str) -> str:
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{name}:{token}".encode()).decode()


async def test_client_that_refuses_our_certificate_is_named_once_with_its_variable(omniroute_proxy) -> None:
    proxy = await omniroute_proxy()
    for _ in range(2):
        await distrust(proxy, "api.anthropic.com", login("gemini-cli", "t0ken"))
    await distrust(proxy, "api.openai.com", "User-Agent: curl/8.1")
    first, second = await said(proxy, 2)
    assert first.startswith(
        "gemini-cli refused our certificate for api.anthropic.com. Where it is started, set NODE_EXTRA_CA_CERTS="
    )
    assert first.endswith("mitmproxy-ca-cert.pem or start it with: omniroute exec -- gemini")
    assert second.startswith(
        "curl refused our certificate for api.openai.com. Where it is started, set CURL_CA_BUNDLE="
    )
    await asyncio.sleep(0.1)
    assert len(told(proxy)) == 2
    assert "t0ken" not in "".join(proxy.log)


async def test_client_that_nobody_knows_is_told_all_variables(omniroute_proxy) -> None:
    proxy = await omniroute_proxy()
    await distrust(proxy)
    [line] = await said(proxy, 1)
    assert line.startswith("a client refused our certificate for api.anthropic.com. Start it with: omniroute exec --")


@pytest.mark.parametrize(
    "header", ["Proxy-Authorization: Basic %%%", "Proxy-Authorization: Bearer x", "User-Agent: \tx"]
)
async def test_odd_headers_do_no_harm(omniroute_proxy, header: str) -> None:
    proxy = await omniroute_proxy()
    await distrust(proxy, "api.anthropic.com", header)
    assert "refused our certificate" in (await said(proxy, 1))[0]
    assert proxy.errors == []


async def test_switched_off_nothing_is_said(omniroute_proxy) -> None:
    proxy = await omniroute_proxy(options={"omniroute_enabled": False})
    await distrust(proxy)
    await asyncio.sleep(0.2)
    assert told(proxy) == []
