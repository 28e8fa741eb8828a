"""Fixtures for everybody who has the package installed; pytest loads this file by the entry point `pytest11`.

It is imported in every pytest run of its users, so it imports nothing heavy: each fixture fetches what it needs.

| fixture | gives |
|---|---|
| `fake_upstream` | a `FakeUpstream` over plain HTTP/1.1 |
| `tls_upstream` | one over TLS, HTTP/1.1, with a certificate for the real provider names |
| `h2_upstream` | one over TLS, HTTP/2 |
| `omniroute_proxy` | `proxy = await omniroute_proxy(config=…, rehost=…)`: `running_proxy`, stopped after the test |
| `open_stage` | `s = await open_stage("a", "b")`: `stage`, closed after the test |
| `manual_clock` | a `ManualClock` |
| `test_ca` | the `TestCA` that signs the fakes |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

# pytest-asyncio's own decorator is needed in its strict mode; in auto mode, and without it, the plain one does.
async_fixture: Callable[[Any], Any] = (
    import_module("pytest_asyncio").fixture if find_spec("pytest_asyncio") else pytest.fixture
)

if TYPE_CHECKING:
    from .ca import TestCA
    from .clock import ManualClock
    from .proxy import RunningProxy
    from .stage import Stage
    from .upstream import FakeUpstream

    StartProxy = Callable[..., Awaitable[RunningProxy]]
    OpenStage = Callable[..., Awaitable[Stage]]


@pytest.fixture(scope="session")
def test_ca() -> TestCA:
    """The authority that signs the fakes' certificates; one per session."""
    from .ca import shared_ca

    return shared_ca()


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that stands still until the test moves it."""
    from .clock import ManualClock

    return ManualClock()


@async_fixture
async def fake_upstream() -> AsyncIterator[FakeUpstream]:
    """A fake provider over plain HTTP/1.1."""
    from .upstream import FakeUpstream

    async with FakeUpstream(tls=False) as upstream:
        yield upstream


@async_fixture
async def tls_upstream() -> AsyncIterator[FakeUpstream]:
    """A fake provider over TLS and HTTP/1.1, under the real names of providers."""
    from .upstream import FakeUpstream

    async with FakeUpstream() as upstream:
        yield upstream


@async_fixture
async def h2_upstream() -> AsyncIterator[FakeUpstream]:
    """A fake provider over TLS and HTTP/2, under the real names of providers."""
    from .upstream import FakeUpstream

    async with FakeUpstream(http2=True) as upstream:
        yield upstream


@async_fixture
async def omniroute_proxy() -> AsyncIterator[StartProxy]:
    """Starts a mitmproxy with our addon; takes the arguments of `running_proxy`. It is stopped after the test."""
    from .proxy import running_proxy

    async with AsyncExitStack() as stack:

        async def start(**arguments: Any) -> RunningProxy:
            return await stack.enter_async_context(running_proxy(**arguments))

        yield start


@async_fixture
async def open_stage() -> AsyncIterator[OpenStage]:
    """Opens a stage; takes the arguments of `stage`. It is closed after the test."""
    from .stage import stage

    async with AsyncExitStack() as stack:

        async def open_(*connections: Any, **arguments: Any) -> Stage:
            return await stack.enter_async_context(stage(*connections, **arguments))

        yield open_
