"""Random sequences of faults through a running proxy: the laws that hold whatever happens (issue 2 point 23)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import chain, repeat
from typing import Any
from weakref import WeakSet

import pytest
from honesty import OfferHttp2, wrong
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from mitmproxy.proxy.layers.http import HttpLayer

from omniroute_addon import hookimpl
from omniroute_addon.addon import Omniroute
from omniroute_addon.model import ModelCall, Story
from omniroute_addon.stream.patience import FIRST_ATTEMPT_ID
from omniroute_addon.testing.answers import error, error_in_stream, openai_chat
from omniroute_addon.testing.exchange import Exchange
from omniroute_addon.testing.faults import AFTER_OUTPUT, BEFORE_OUTPUT, oversized_head, scattered
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Reply
from omniroute_addon.testing.stage import Stage, stage

EXAMPLES = 30
NAMES = "abcd"
PATIENCE_MS = 60
SETTINGS = {
    "own_credential": "never",
    "retries_in_place": 1,
    "retry_pause_ms": 1,
    "retry_pause_max_ms": 2,
    "head_timeout_ms": PATIENCE_MS,
    "readiness_timeout_ms": PATIENCE_MS,
    "idle_timeout_ms": PATIENCE_MS,
    "attempt_deadline_ms": 4 * PATIENCE_MS,
}
STATUSES = {"bad request": 400, "unauthorized": 401, "not found": 404, "internal": 500, "overloaded": 529}
FAULTS = sorted({*BEFORE_OUTPUT, *AFTER_OUTPUT, *STATUSES, "error in stream", "error behind text", "scattered", "1xx"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What happens: per connection its faults, request after request, and then good answers for ever."""

    faults: tuple[tuple[str, ...], ...]
    every: int
    """Good answers that are scattered come in pieces of so many bytes."""
    stream: bool
    client_http2: bool
    requests: int
    """Of one client, on one connection: one after the other over HTTP/1, side by side over HTTP/2."""


EXAMPLE = st.builds(
    Example,
    faults=st.lists(
        st.lists(st.sampled_from(FAULTS), max_size=4).map(tuple), min_size=len(NAMES), max_size=len(NAMES)
    ).map(tuple),
    every=st.integers(min_value=1, max_value=90),
    stream=st.booleans(),
    client_http2=st.booleans(),
    requests=st.integers(min_value=1, max_value=3),
)


def words(name: str) -> str:
    """Different for each connection, so that a mixture of two shows."""
    return f"{name} says: grün und gut"


def reply(name: str, fault: str, example: Example, http2: bool) -> Reply:
    good = openai_chat(words(name), stream=example.stream)
    match fault:
        case "error in stream":
            return error_in_stream("openai-chat")
        case "error behind text":
            return error_in_stream("openai-chat", after=2, text=words(name))
        case "oversized head":  # HTTP/2 allows less, and encoding more takes the fake seconds
            return oversized_head(good, header_bytes=1 << (17 if http2 else 19))
        case "scattered":
            return scattered(good, every=example.every)
        case "1xx":
            return Reply(**{**_fields(good), "informational": ((100, ()), (103, ()))})
        case _ if fault in STATUSES:
            return error("openai-chat", STATUSES[fault], "Something is wrong.")
        case _:
            return {**BEFORE_OUTPUT, **AFTER_OUTPUT}[fault](good)


def _fields(good: Reply) -> dict[str, Any]:
    return {name: getattr(good, name) for name in ("status", "headers", "body", "chunks", "framing")}


class Finishes:
    """A plugin that counts how often calls were finished."""

    def __init__(self) -> None:
        self.count = 0

    @hookimpl
    def finish(self, call: ModelCall, stories: Sequence[Story], status: int, now: float) -> None:
        self.count += 1


@pytest.fixture
def http_layers(monkeypatch: pytest.MonkeyPatch) -> WeakSet[HttpLayer]:
    """Every layer of mitmproxy that routes events of ours."""
    layers: WeakSet[HttpLayer] = WeakSet()
    begin = HttpLayer.__init__

    @wraps(begin)  # the installation looks at its source
    def begin_and_tell(self: HttpLayer, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        layers.add(self)

    monkeypatch.setattr(HttpLayer, "__init__", begin_and_tell)
    return layers


async def play(s: Stage, example: Example, http2: bool) -> list[Exchange]:
    s.upstream.book.lines.clear()
    for name, faults in zip(NAMES, example.faults, strict=True):
        spoilt: Iterator[Reply] = (reply(name, fault, example, http2) for fault in faults)
        replies = chain(spoilt, repeat(openai_chat(words(name), stream=example.stream)))
        s.upstream.script(lambda _, replies=replies: next(replies), key=f"sk-{name}")
    q = question(stream=example.stream)
    seen: list[Exchange] = []
    async with s.client(q, http2=example.client_http2) as client:
        for _ in range(example.requests):
            if client.pipe is None or client.pipe.open.is_closing():
                break  # an answer that was cut took its connection along
            before = len(s.upstream.requests)
            seen.append(await client.send(q.method, q.path, headers=q.headers, body=q.body))
            if not example.client_http2:
                await seen[-1].finished()
                _no_attempt_after_commit(s, seen[-1], before)
        for exchange in seen:
            await exchange.finished()
    return seen


def _no_attempt_after_commit(s: Stage, seen: Exchange, before: int) -> None:
    asked = s.upstream.requests[before:]
    # An attempt may fail before its request has arrived; none arrives that was not an attempt.
    assert len(asked) <= int(seen.header("x-omniroute-attempts") or 0)
    if seen.status == 200:
        assert asked[-1].key == f"sk-{seen.header('x-omniroute-connection')}"


@pytest.mark.parametrize("http2", [False, True], ids=["to-h1", "to-h2"])
async def test_the_laws_hold_for_any_sequence_of_faults(http2: bool, http_layers: WeakSet[HttpLayer]) -> None:
    """One head; the bytes of one attempt, or a part and one error; nothing asked after commit; nothing left behind."""
    loop, omniroute, finishes = asyncio.get_running_loop(), Omniroute(), Finishes()
    entries = [{"id": name, "priority": n, "disable_cooling": True} for n, name in enumerate(NAMES)]
    whole = [openai_chat(words(name), stream=stream) for name in NAMES for stream in (True, False)]
    async with stage(*entries, http2=http2, config={"settings": SETTINGS}, addons=[omniroute, OfferHttp2()]) as s:
        assert omniroute.engine is not None
        omniroute.engine.plugins.register(finishes, name="finishes")

        async def one(example: Example) -> None:
            finished, flows = finishes.count, len(s.proxy.flows)
            exchanges = await play(s, example, http2)
            for seen in exchanges:
                assert wrong(seen, *whole) == ""
                assert not any(f"sk-{name}" in repr((seen.heads, seen.body)) for name in NAMES)
            await s.proxy.finished(flows + len(exchanges))
            assert finishes.count - finished == len(exchanges)
            assert [n for layer in http_layers for n in layer.streams if n >= FIRST_ATTEMPT_ID] == []
            assert s.proxy.errors == []

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        )
        @given(EXAMPLE)
        def drive(example: Example) -> None:
            asyncio.run_coroutine_threadsafe(one(example), loop).result(timeout=20)

        await asyncio.to_thread(drive)
        said = "\n".join([*s.proxy.log, *(repr(flow.get_state()) for flow in s.proxy.flows)])
        assert not [name for name in (*NAMES, "client") if f"sk-{name}" in said]
