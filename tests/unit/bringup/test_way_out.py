"""A proxy that we start gets out as the user's programs did before."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from omniroute_addon.bringup.way_out import deserted, outer_authorities, outer_proxy, without_proxy


@pytest.mark.parametrize(
    ("environ", "options"),
    [
        ({}, []),
        ({"HTTPS_PROXY": "http://corp:3128"}, ["--mode", "upstream:http://corp:3128"]),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "http://b:2"}, ["--mode", "upstream:http://b:2"]),
        ({"HTTPS_PROXY": "https://corp"}, ["--mode", "upstream:https://corp:443"]),
        ({"HTTPS_PROXY": "http://[::1]:9"}, ["--mode", "upstream:http://[::1]:9"]),
        (
            {"HTTPS_PROXY": "http://u%40x:p%3A@corp:1"},
            ["--mode", "upstream:http://corp:1", "--set", "upstream_auth=u@x:p:"],
        ),
        ({"HTTPS_PROXY": "socks5://corp:1"}, []),
        ({"HTTPS_PROXY": "corp:1"}, []),
        ({"HTTPS_PROXY": "http://corp:many"}, []),
        ({"HTTPS_PROXY": "http://[broken"}, []),
    ],
)
def test_outer_proxy(environ: dict[str, str], options: list[str]) -> None:
    assert outer_proxy(environ, []) == options


@pytest.mark.parametrize("words", [["-m", "regular"], ["--set", "mode=regular"], ["--mode=socks5"]])
def test_mode_of_the_user_stays(words: list[str]) -> None:
    assert outer_proxy({"HTTPS_PROXY": "http://corp:1"}, words) == []


def test_outer_authorities(tmp_path: Path) -> None:
    company = tmp_path / "company.pem"
    company.touch()
    (tmp_path / "conf").mkdir()
    ours = tmp_path / "conf" / "omniroute-ca-bundle.pem"
    ours.touch()

    def options(name: object, *said: str) -> list[str]:
        return outer_authorities({"SSL_CERT_FILE": str(name)}, tmp_path / "conf", said)

    assert options(company) == ["--set", f"ssl_verify_upstream_trusted_ca={company}"]
    assert options(ours) == options("/nowhere") == options("") == []
    assert options(company, "--set", "ssl_verify_upstream_trusted_ca=/x") == []


def test_a_proxy_of_this_machine_that_has_ended_is_no_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{port}", "PATH": "/bin"}
        assert deserted(environ) is None
    assert deserted(environ) == f"127.0.0.1:{port}"
    assert without_proxy(environ) == {"PATH": "/bin"}


def test_another_machines_proxy_is_not_looked_for() -> None:
    assert deserted({"HTTPS_PROXY": "http://proxy.example:3128"}) is None
    assert deserted({}) is None
