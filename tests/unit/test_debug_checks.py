"""Messages without mitmproxy's debug check: the same messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.net.http import http1

from omniroute_addon import debug_checks

HEAD = [b"HTTP/1.1 200 OK", b"content-type: text/plain"]


@pytest.fixture
def original() -> Iterator[Any]:
    check = http.MessageData.__dict__["__post_init__"]
    yield check
    http.MessageData.__post_init__ = check  # type: ignore[attr-defined]


def test_the_check_is_left_out_and_put_back(original: Any) -> None:
    put_back = debug_checks.leave_out()
    assert put_back is not None
    unchecked = http1.read_response_head(HEAD)
    http.Request.make("GET", "http://a.example").data.__post_init__()
    put_back()
    assert http.MessageData.__dict__["__post_init__"] is original
    assert http1.read_response_head(HEAD).data.headers == unchecked.data.headers
    with pytest.raises(TypeError):
        http.ResponseData(*[None] * 8)  # type: ignore[arg-type]


def test_another_check_stays(original: Any) -> None:
    """A mitmproxy that does more there than check is left alone."""

    def other(self: Any) -> None:
        self.seen = True

    http.MessageData.__post_init__ = other  # type: ignore[attr-defined]
    assert debug_checks.leave_out() is None
    assert http1.read_response_head(HEAD).data.seen  # type: ignore[attr-defined]


def test_somebody_elses_replacement_is_not_taken_away(original: Any) -> None:
    put_back = debug_checks.leave_out()
    assert put_back is not None

    def other(self: Any) -> None:
        pass

    http.MessageData.__post_init__ = other  # type: ignore[attr-defined]
    put_back()
    assert http.MessageData.__dict__["__post_init__"] is other


def test_twice_is_once(original: Any) -> None:
    assert debug_checks.leave_out() is not None
    assert debug_checks.leave_out() is None
