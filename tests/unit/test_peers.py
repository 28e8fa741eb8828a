"""Only loopback is trusted."""

from __future__ import annotations

import pytest

from omniroute_addon.peers import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1", "localhost"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::1", "fe80::1%eth0", "localhost.evil.example", "", "x"]
)
def test_everything_else_is_not(host: str) -> None:
    assert not is_loopback(host)
