"""The attempt loop without a network: mitmproxy's own HTTP layer, played event by event on a clock that stands still.

What a client sees of it over real connections is in tests/proxy; here are the moments that a network does not give one:
a client that leaves while a connection is being made, a connection that comes too late, two timers at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from engine_scene import BODY, PATH, Scene, overloaded, wait_for
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.connection import ConnectionState, Server
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook
from mitmproxy.test import taddons
from mitmproxy.test.tflow import tclient_conn

from omniroute_addon.exchange import Pause
from omniroute_addon.stream import AttemptStream, OmniroutePauseHook, install
from omniroute_addon.stream.hook_shortcut import OmnirouteResumeHook
from omniroute_addon.testing.calls import make_connection, make_verdict


def chunked(*frames: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames)


def delta(text: str, finish: str = "null") -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n' % (
        text.encode(),
        finish.encode(),
    )


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
GOOD = (HEAD, chunked(delta("a")))
LAST = (chunked(delta("", '"stop"'), b"data: [DONE]\n\n"), b"0\r\n\r\n")
LIMIT = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\n{}"
EVENT_ERROR = b'data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n'


class Play:
    """One client connection. Connections are opened, refused and answered by the test; hooks answer at once."""

    def __init__(self, scene: Scene, options: Any) -> None:
        self.scene = scene
        client = tclient_conn()
        client.timestamp_start, client.tls = 1.0, False
        self.client = client
        self.opening: list[commands.OpenConnection] = []
        self.pauses: list[OmniroutePauseHook] = []
        self.timers: list[commands.RequestWakeup] = []
        self.sent: dict[str, bytes] = {}
        self.closed: list[str] = []
        self.hooks: list[str] = []
        self.flow: Any = None
        self.layer = HttpLayer(Context(client, options), HTTPMode.regular)
        self.feed(events.Start())

    def name(self, connection: Any) -> str:
        return "client" if connection is self.client else connection.address[0].partition(".")[0]

    def feed(self, event: events.Event) -> None:
        later: list[events.Event] = []
        for command in self.layer.handle_event(event):
            self._take(command, later)
        for reply in later:
            self.feed(reply)

    def _take(self, command: commands.Command, later: list[events.Event]) -> None:
        if isinstance(command, OmniroutePauseHook):
            self.pauses.append(command)
        elif isinstance(command, commands.StartHook):
            self.hooks.append(command.name)
            self.flow = getattr(command, "flow", self.flow)
            later.append(events.HookCompleted(command))
        elif isinstance(command, commands.OpenConnection):
            self.opening.append(command)
        elif isinstance(command, commands.SendData):
            name = self.name(command.connection)
            self.sent[name] = self.sent.get(name, b"") + command.data
        elif isinstance(command, commands.CloseConnection):
            command.connection.state = ConnectionState.CLOSED
            self.closed.append(self.name(command.connection))
        elif isinstance(command, commands.RequestWakeup):
            self.timers.append(command)

    # ------------------------------------------------------------ what happens

    def ask(self) -> None:
        head = (
            f"POST http://api.openai.com{PATH} HTTP/1.1\r\nHost: api.openai.com\r\nContent-Length: {len(BODY)}\r\n\r\n"
        )
        self.feed(events.DataReceived(self.client, head.encode() + BODY))

    def opened(self, error: str | None = None) -> Server:
        """The connection that was asked for longest comes, or does not."""
        command = self.opening.pop(0)
        server = command.connection
        assert isinstance(server, Server)
        if error is None:
            server.state, server.timestamp_start = ConnectionState.OPEN, self.scene.clock.now()
        self.feed(events.OpenConnectionCompleted(command, error))
        return server

    def says(self, server: Server, *data: bytes) -> None:
        for piece in data:
            self.feed(events.DataReceived(server, piece))

    def ends(self, connection: Any) -> None:
        connection.state = ConnectionState.CLOSED
        self.feed(events.ConnectionClosed(connection))

    def rings(self, after_s: float) -> None:
        """Time passes and the newest timer goes off."""
        self.scene.clock.advance(after_s)
        timer = self.timers[-1]
        self.feed(events.Wakeup(timer))

    def resume(self) -> None:
        """The pause is over."""
        self.feed(events.HookCompleted(self.pauses.pop(0)))

    @property
    def wanted(self) -> list[str]:
        return [self.name(command.connection) for command in self.opening]


def scene(*names: str, verdicts: Any = None, **settings: Any) -> Scene:
    pool = tuple(make_connection(name, base_url=f"http://{name}.example") for name in names)
    return Scene(pool, settings, verdicts=verdicts or [make_verdict()])


@pytest.fixture
def play() -> Iterator[Any]:
    undo: list[Any] = []
    with taddons.context(Proxyserver()) as context:

        def start(told: Scene) -> Play:
            undo.append(install(told.engine))
            return Play(told, context.options)

        yield start
    for uninstall in undo:
        uninstall()


def test_a_refused_connection_is_replaced_before_the_client_sees_anything(play: Any) -> None:
    p = play(scene("a", "b"))
    p.ask()
    assert p.wanted == ["a"]
    p.opened("refused")
    assert p.wanted == ["b"] and "client" not in p.sent
    server = p.opened()
    assert b"authorization: Bearer sk-b" in p.sent["b"] and p.sent["b"].endswith(BODY)
    p.says(server, *GOOD)
    assert p.sent["client"].count(b"HTTP/1.1") == 1 and b'"content":"a"' in p.sent["client"]
    assert b"x-omniroute-attempts: 2" in p.sent["client"]


def test_a_failed_answer_is_replaced_by_the_next_targets(play: Any) -> None:
    p = play(scene("a", "b"))
    p.ask()
    p.says(p.opened(), LIMIT)
    while p.pauses:  # the upstream connection reports the end of its answer first
        p.resume()
    p.says(p.opened(), *GOOD)
    assert b"429" not in p.sent["client"] and b"HTTP/1.1 200" in p.sent["client"]
    assert [h for h in p.scene.heard if h[0] == "failed"] == [("failed", "rate_limit", p.scene.clock.now())]


def test_st_126_a_client_that_leaves_while_a_connection_is_made_is_nobodys_failure(play: Any) -> None:
    """ST-126, FC-4: the half-made connection is closed, and what comes of it later changes nothing."""
    p = play(scene("a", "b"))
    p.ask()
    p.ends(p.client)
    assert p.scene.heard == [("finish", 0, 0, p.scene.clock.now())]
    p.opened()
    assert p.wanted == [] and "a" not in p.sent and "client" not in p.sent
    assert p.scene.heard == [("finish", 0, 0, p.scene.clock.now())]


def test_a_connection_that_does_not_come_in_time_is_given_up_for_the_next(play: Any) -> None:
    p = play(scene("a", "b", connect_timeout_ms=3_000))
    p.ask()
    p.rings(2.9)
    assert p.wanted == ["a"]
    p.rings(0.2)
    assert p.wanted == ["a", "b"]
    p.opened("too late")
    p.says(p.opened(), *GOOD)
    assert b"HTTP/1.1 200" in p.sent["client"]


def test_rule_4_the_only_connection_is_waited_for_as_long_as_it_takes(play: Any) -> None:
    """`spec/README.md`, rule 4."""
    p = play(scene("a", connect_timeout_ms=3_000))
    p.ask()
    for _ in range(3):
        p.rings(5.0)
    assert p.wanted == ["a"] and p.closed == []
    p.says(p.opened(), *GOOD)
    assert b"HTTP/1.1 200" in p.sent["client"]


def test_a07_a_pause_is_asked_of_the_addon_and_nothing_happens_meanwhile(play: Any) -> None:
    """A07."""
    p = play(scene("a", verdicts=[overloaded(retry_after=wait_for(4.0))]))
    p.ask()
    p.says(p.opened(), LIMIT)
    assert [hook.waiting.pause for hook in p.pauses] == [Pause(seconds=4.125)]
    assert p.wanted == [] and "client" not in p.sent


def test_a_client_that_leaves_during_a_pause_ends_it_and_nothing_is_sent(play: Any) -> None:
    """ST-126."""
    p = play(scene("a", verdicts=[overloaded()]))
    p.ask()
    p.says(p.opened(), LIMIT)
    waiting = p.pauses[0].waiting
    assert not waiting.gone.is_set()
    p.ends(p.client)
    assert waiting.gone.is_set()
    sent = p.sent["a"]
    p.resume()
    assert (p.sent["a"], p.wanted, p.pauses) == (sent, [], [])
    assert p.scene.heard[-1][0] == "finish" and "succeeded" not in str(p.scene.heard)


def test_a15_a_late_head_is_given_up_and_what_still_comes_of_it_is_nobodys(play: Any) -> None:
    """A15 (a)."""
    p = play(scene("a", "b", head_timeout_ms=3_000))
    p.ask()
    late = p.opened()
    p.rings(3.0)
    assert p.wanted == ["b"] and "a" in p.closed
    p.says(p.opened(), *GOOD)
    before = p.sent["client"]
    assert before.count(b"HTTP/1.1") == 1
    if late.state is ConnectionState.OPEN:
        p.says(late, LIMIT)
    assert p.sent["client"] == before


def test_st_43_a_timer_that_was_replaced_means_nothing(play: Any) -> None:
    """ST-43."""
    role = b'data: {"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}\n\n'
    p = play(scene("a", "b", lifecycle_grace_ms=1_000))
    p.ask()
    old = p.timers[-1]
    p.says(p.opened(), HEAD, chunked(role))
    assert p.timers[-1] is not old and "client" not in p.sent
    p.scene.clock.advance(1.0)
    p.feed(events.Wakeup(old))
    assert "client" not in p.sent
    p.rings(0.0)
    assert chunked(role) in p.sent["client"]


# ---------------------------------------------------------------- after commit


def committed(play: Any, **settings: Any) -> tuple[Play, Server]:
    """The client reads; what it has got so far is forgotten."""
    p = play(scene("a", "b", **settings))
    p.ask()
    server = p.opened()
    p.says(server, *GOOD)
    p.sent["client"] = b""
    return p, server


def test_a_good_end_is_a_success_once(play: Any) -> None:
    """ST-124."""
    p, server = committed(play)
    p.says(server, *LAST)
    assert p.sent["client"].endswith(b"0\r\n\r\n") and b"[DONE]" in p.sent["client"]
    now = p.scene.clock.now()
    assert p.scene.heard == [("succeeded", 1, now), ("finish", 0, 200, now)]
    assert p.hooks.count("response") == 1


def test_a_last_frame_without_a_blank_line_is_given_out_at_the_end(play: Any) -> None:
    p, server = committed(play)
    last = delta("", '"stop"')[:-2]
    p.says(server, chunked(last))
    assert p.sent["client"] == b""
    p.says(server, b"0\r\n\r\n")
    assert p.sent["client"] == chunked(last) + b"0\r\n\r\n"
    assert p.scene.heard[0][0] == "succeeded"


@pytest.mark.parametrize("cut", [True, False])
def test_st_31_a_stream_that_breaks_ends_with_an_error_and_is_a_failure(play: Any, cut: bool) -> None:
    """ST-31, A15 (b)."""
    p, server = committed(play)
    if cut:
        p.ends(server)
    else:
        p.says(server, b"0\r\n\r\n")
    assert b'"finish_reason":"error"' in p.sent["client"] and p.sent["client"].endswith(b"0\r\n\r\n")
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_st_59_a_stream_that_breaks_inside_a_long_frame_is_cut(play: Any) -> None:
    """ST-59: an error behind half a frame would be read as its rest."""
    p, server = committed(play)
    p.says(server, chunked(b'data: {"choices":[{"delta":{"content":"' + b"x" * 70_000))
    p.ends(server)
    assert b"error" not in p.sent["client"] and "client" in p.closed
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_st_38_a_stream_that_falls_silent_is_cancelled_and_ends_with_an_error(play: Any) -> None:
    """ST-38."""
    p, _ = committed(play, idle_timeout_ms=4_000)
    p.rings(4.0)
    assert "a" in p.closed and b"STREAM_IDLE_TIMEOUT" in p.sent["client"]
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_st_35_an_error_after_commit_passes_and_is_a_failure_once(play: Any) -> None:
    """ST-35, ST-68: no second error behind it, and no success."""
    p, server = committed(play)
    p.says(server, chunked(EVENT_ERROR))
    assert p.sent["client"] == chunked(EVENT_ERROR)
    p.says(server, chunked(b"data: [DONE]\n\n"), b"0\r\n\r\n")
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_st_35_an_error_in_the_piece_that_commits_is_a_failure_too(play: Any) -> None:
    """ST-35: the client has it, so the connection's health must know."""
    p = play(scene("a"))
    p.ask()
    server = p.opened()
    p.says(server, HEAD, chunked(delta("a") + EVENT_ERROR + b"data: [DONE]\n\n"), b"0\r\n\r\n")
    assert EVENT_ERROR in p.sent["client"] and p.sent["client"].count(b"error") == 1
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_a18_half_a_tool_call_after_commit_ends_with_an_error(play: Any) -> None:
    """A18."""
    p, server = committed(play)
    call = b'[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]'
    tool = b'data: {"choices":[{"index":0,"delta":{"tool_calls":' + call + b"}}]}\n\n"
    p.says(server, chunked(tool, delta("", '"tool_calls"')))
    assert b'"finish_reason":"tool_calls"' not in p.sent["client"] and b'"finish_reason":"error"' in p.sent["client"]
    assert "a" in p.closed
    assert [h[0] for h in p.scene.heard] == ["failed", "finish"]


@pytest.mark.parametrize(("complete", "learnt"), [(True, ["succeeded", "finish"]), (False, ["finish"])])
def test_st_127_a_client_that_leaves_has_seen_the_end_or_not(play: Any, complete: bool, learnt: list[str]) -> None:
    """ST-126, ST-127."""
    p, server = committed(play)
    if complete:
        p.says(server, LAST[0])
    p.ends(p.client)
    assert [h[0] for h in p.scene.heard] == learnt
    assert "a" in p.closed


# ---------------------------------------------------------------- the last word


def test_when_every_target_is_used_up_the_engine_has_the_last_word(play: Any) -> None:
    p = play(scene("a", "b", retries_in_place=0))
    p.ask()
    p.opened("refused")
    p.opened("refused")
    assert p.sent["client"].startswith(b"HTTP/1.1 429") or p.sent["client"].startswith(b"HTTP/1.1 50")
    assert p.scene.heard[-1][:2] == ("finish", 2)
    assert p.hooks.count("responseheaders") == 1


def test_our_own_fault_is_told_and_not_kept_silent(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = scene("a")
    p = play(told)
    monkeypatch.setattr(told.engine, "advance", lambda ex: 1 / 0)
    p.ask()
    assert b"HTTP/1.1 502" in p.sent["client"] and b"internal_error" in p.sent["client"]


def test_an_endless_error_that_is_the_clients_is_passed_on_as_it_comes(play: Any) -> None:
    p = play(scene("a", retries_in_place=0, held_body_bytes=65_536))
    p.ask()
    server = p.opened()
    p.says(server, b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 70000\r\n\r\n", b"x" * 65_537)
    assert p.sent["client"].startswith(b"HTTP/1.1 429") and p.sent["client"].count(b"x" * 1000) == 65
    p.says(server, b"y" * 4_463)
    assert b"y" * 4_463 in p.sent["client"] and [h[0] for h in p.scene.heard] == ["failed", "finish"]


def test_an_invalid_head_of_an_upstream_is_a_failure_like_any_other(play: Any) -> None:
    p = play(scene("a", "b"))
    p.ask()
    p.says(p.opened(), b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
    while p.pauses:
        p.resume()
    assert p.wanted == ["b"] and "client" not in p.sent


def test_a_fault_of_ours_while_judging_passes_the_target_by(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told = scene("a", "b")
    p = play(told)
    monkeypatch.setattr("omniroute_addon.engine.learn", lambda *_: 1 / 0)
    p.ask()
    p.opened("refused")
    assert p.wanted == ["b"]


def test_a_fault_of_ours_while_identifying_lets_the_request_pass_as_it_is(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = scene("a")
    p = play(told)
    monkeypatch.setattr(told.engine, "identify", lambda *_, **__: 1 / 0)
    p.ask()
    assert p.wanted == ["api"]
    p.opened()
    assert b"Bearer" not in p.sent["api"]


def test_who_looks_at_streamed_bytes_sees_every_chunk(play: Any) -> None:
    """The short way of a chunk is taken only where mitmproxy itself would hand it on untouched."""
    p = play(scene("a"))
    seen: list[bytes] = []

    def look(chunk: bytes) -> bytes:
        seen.append(chunk)
        return chunk.upper()

    take = p._take

    def on_hook(command: commands.Command, later: list[events.Event]) -> None:
        if isinstance(command, HttpResponseHeadersHook):
            command.flow.response.stream = look
        take(command, later)

    p._take = on_hook
    p.ask()
    p.says(p.opened(), *GOOD, chunked(delta("b")), *LAST)
    assert delta("b") in seen and b'"CONTENT":"B"' in p.sent["client"]


def test_streamed_bodies_are_stored_when_that_is_asked_for(play: Any) -> None:
    p = play(scene("a"))
    p.layer.context.options.store_streamed_bodies = True
    p.ask()
    p.says(p.opened(), *GOOD, chunked(delta("b")), *LAST)
    assert delta("b") in p.flow.response.content


def test_hooks_that_nobody_waits_for_are_answered_on_the_spot(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr(AttemptStream, "run_hook", lambda hook: ran.append(hook.name) is None)
    p = play(scene("a"))
    p.ask()
    p.says(p.opened(), *GOOD, *LAST)
    assert ran == ["requestheaders", "request", "responseheaders", "response"]
    assert p.hooks == [] and p.sent["client"].endswith(b"0\r\n\r\n")


def test_a_flow_that_a_handler_stopped_waits_until_it_is_let_go(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with mitmproxy's own `intercept`: nothing is sent before somebody resumes the flow."""

    def stop(hook: Any) -> bool:
        if hook.name == "request":
            hook.flow.intercept()
        return True

    monkeypatch.setattr(AttemptStream, "run_hook", stop)
    p = play(scene("a"))
    waiting: list[Any] = []
    take = p._take
    p._take = lambda command, later: (
        waiting.append(command) if isinstance(command, OmnirouteResumeHook) else take(command, later)
    )
    p.ask()
    assert p.wanted == [] and len(waiting) == 1
    waiting[0].flow.resume()
    p.feed(events.HookCompleted(waiting[0]))
    assert p.wanted == ["a"]
