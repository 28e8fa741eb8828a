"""What a client is sent while nothing is decided, and an error behind it (A34, CW-38)."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from engine_scene import Scene

from omniroute_addon.dialects import dialect
from omniroute_addon.exchange import Exchange, Reply
from omniroute_addon.model import DIALECTS, ClientProfile
from omniroute_addon.settings import Settings
from omniroute_addon.signs_of_life import error_inside, sign_of_life

ON = Settings(cooldown_wait={"keep_alive": True})  # type: ignore[arg-type]
OFF = Settings()


def call(keep: Any = "comment", early: bool = True, stream: bool = True, speaks: Any = "openai-chat") -> Exchange:
    ex = Scene().call()
    ex.profile = ClientProfile(keep_alive={speaks: keep}, early_keep_alive=early)
    ex.call = replace(ex.call, stream=stream, dialect=speaks)
    ex.dialect = dialect(speaks)
    return ex


def test_a_sign_is_what_the_client_bears() -> None:
    assert sign_of_life(call("comment"), ON) == b": omniroute keeps trying\n\n"
    assert sign_of_life(call("ping"), ON) == b'event: ping\ndata: {"type": "ping"}\n\n'


@pytest.mark.parametrize(
    ("ex", "settings"),
    [
        (call(), OFF),
        (call(early=False), ON),
        (call(stream=False), ON),
        (call("none"), ON),
        (call(speaks="gemini", keep="none"), ON),
    ],
    ids=["off", "not before the decision", "no stream", "bears none", "gemini"],
)
def test_otherwise_there_is_none(ex: Exchange, settings: Settings) -> None:
    assert sign_of_life(ex, settings) == b""


@pytest.mark.parametrize("speaks", DIALECTS)
def test_a_sign_means_nothing_to_a_reader_of_the_dialect(speaks: Any) -> None:
    """ST-3: heartbeats, both of them, wherever they are allowed."""
    reader = dialect(speaks).reader()
    for keep in ("comment", "ping"):
        reader.feed(sign_of_life(call(keep, speaks=speaks), ON))
    assert not reader.output and reader.error is None and not reader.terminal


@pytest.mark.parametrize("speaks", DIALECTS)
def test_an_error_keeps_its_own_words(speaks: Any) -> None:
    ex = call(speaks=speaks)
    body = json.dumps({"error": {"message": "Slow down, please.", "type": "rate_limit_error", "code": "x1"}}).encode()
    told = error_inside(ex, Reply(status=429, headers=(), body=body))
    reader = ex.dialect.reader()
    reader.feed(told)
    reader.end()
    assert reader.error is not None and reader.error.message == "Slow down, please."


@pytest.mark.parametrize(("body", "words"), [(b"<html>bad gateway</html>", "bad gateway"), (b"", "status 502")])
def test_an_error_without_a_shape_is_told_as_it_is(body: bytes, words: str) -> None:
    assert words in error_inside(call(), Reply(status=502, headers=(), body=body)).decode()


def test_a_coded_error_is_unpacked() -> None:
    body = gzip.compress(b'{"error": {"message": "Slow down, please."}}')
    reply = Reply(status=429, headers=((b"Content-Encoding", b"gzip"),), body=body)
    assert b"Slow down, please." in error_inside(call(), reply)
