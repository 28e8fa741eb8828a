"""What all tests against a real mitmproxy share, beside the package's own fixtures (`testing.pytest_plugin`)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import product

import pytest
from key_pool import NAMES

from omniroute_addon.model import DIALECTS
from omniroute_addon.testing.upstream import FakeUpstream


@pytest.fixture(autouse=True)
def _nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a failure is seen at once; a test about holding says so in its configuration, which counts more."""
    monkeypatch.setenv("OMNIROUTE_COOLDOWN_WAIT", "false")


@pytest.fixture
async def upstream() -> AsyncIterator[FakeUpstream]:
    """A fake provider without TLS, to be scripted."""
    async with FakeUpstream(tls=False) as fake:
        yield fake


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials of the connections that `key_pool.pool` makes."""
    for name in NAMES:
        monkeypatch.setenv(f"KEY_{name.upper()}", f"sk-{name}")


@pytest.fixture(
    params=list(product((False, True), repeat=2)),
    ids=lambda sides: f"{'h2' if sides[0] else 'h1'}-to-{'h2' if sides[1] else 'h1'}",
)
def http_versions(request: pytest.FixtureRequest) -> tuple[bool, bool]:
    """HTTP/2 on the client's side, HTTP/2 on the upstream's side: all four combinations."""
    client, upstream = request.param
    return bool(client), bool(upstream)


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Each dialect in turn."""
    return str(request.param)
