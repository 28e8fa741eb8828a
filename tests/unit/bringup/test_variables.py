"""The variables that bring a program behind the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniroute_addon.bringup.variables import Behind, no_proxy, node_options, variables

BEHIND = Behind(host="127.0.0.1", port=9000, bundle=Path("/c/b.pem"), authority=Path("/c/a.pem"), agent="codex")


def test_one_set_serves_every_program() -> None:
    assert variables(BEHIND, {}) == {
        "HTTPS_PROXY": "http://codex:x@127.0.0.1:9000",
        "SSL_CERT_FILE": "/c/b.pem",
        "NODE_EXTRA_CA_CERTS": "/c/a.pem",
        "CODEX_CA_CERTIFICATE": "/c/b.pem",
        "CURL_CA_BUNDLE": "/c/b.pem",
        "REQUESTS_CA_BUNDLE": "/c/b.pem",
        "NODE_USE_ENV_PROXY": "1",
    }


def test_plain_http_and_other_proxies_are_left_alone() -> None:
    environ = {"HTTP_PROXY": "http://a:1", "ALL_PROXY": "socks5://a:1"}
    assert not variables(BEHIND, environ).keys() & environ.keys()


def test_lower_case_is_set_where_it_would_win() -> None:
    assert variables(BEHIND, {"https_proxy": "http://old:1"})["https_proxy"] == BEHIND.url


def test_own_authorities_of_a_node_program_are_kept() -> None:
    """They are in the bundle; ours alone would take them away."""
    assert variables(BEHIND, {"NODE_EXTRA_CA_CERTS": "/etc/company.pem"})["NODE_EXTRA_CA_CERTS"] == "/c/b.pem"
    assert variables(BEHIND, {"NODE_EXTRA_CA_CERTS": "/c/a.pem"})["NODE_EXTRA_CA_CERTS"] == "/c/a.pem"


@pytest.mark.parametrize(
    ("agent", "token", "host", "url"),
    [
        ("", "", "127.0.0.1", "http://127.0.0.1:9000"),
        ("a@b", "t:/ö", "127.0.0.1", "http://a%40b:t%3A%2F%C3%B6@127.0.0.1:9000"),
        ("a", "", "::1", "http://a:x@[::1]:9000"),
    ],
)
def test_proxy_url_is_written_right(agent: str, token: str, host: str, url: str) -> None:
    behind = Behind(host=host, port=9000, bundle=Path("b"), authority=Path("a"), agent=agent, token=token)
    assert behind.url == url


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ("*", "localhost,127.0.0.1,::1"),
        ("localhost, .corp.example", "localhost,.corp.example,127.0.0.1,::1"),
        (".openai.com,corp.example", "corp.example,localhost,127.0.0.1,::1"),
        ("api.openai.com:443 x.example", "x.example,localhost,127.0.0.1,::1"),
        ("*.anthropic.com", "localhost,127.0.0.1,::1"),
        ("notopenai.com,com.example", "notopenai.com,com.example,localhost,127.0.0.1,::1"),
        (",,", "localhost,127.0.0.1,::1"),
    ],
)
def test_nothing_leads_a_provider_around_the_proxy(present: str, wanted: str) -> None:
    assert no_proxy(present, ["api.openai.com", "api.anthropic.com", "*.azure.example:443"]) == wanted


def test_exceptions_are_only_set_where_there_are_some() -> None:
    found = variables(BEHIND, {"no_proxy": "*", "NO_PROXY": ""}, ["api.openai.com"])
    assert found["no_proxy"] == "localhost,127.0.0.1,::1"
    assert "NO_PROXY" not in found


@pytest.mark.parametrize(
    ("present", "path", "wanted"),
    [
        ("", "/a/p.cjs", "--require /a/p.cjs"),
        ("--max-old-space-size=1", "/a/p.cjs", "--max-old-space-size=1 --require /a/p.cjs"),
        ("--require /a/p.cjs", "/a/p.cjs", "--require /a/p.cjs"),
        ("", "/my files/p.cjs", '--require "/my files/p.cjs"'),
    ],
)
def test_node_options_are_extended_once(present: str, path: str, wanted: str) -> None:
    assert node_options(present, Path(path)) == wanted
