"""How long a client will wait still, by its profile (`clients.md` section 5)."""

from __future__ import annotations

from typing import Any

import pytest
from engine_scene import headers

from omniroute_addon.client_patience import patience_s
from omniroute_addon.model import ClientProfile, ClientWaits
from omniroute_addon.testing.calls import make_call
from omniroute_addon.wire import Incoming


def request(**fields: str) -> Incoming:
    return Incoming(method="POST", scheme="https", host="h", port=443, path="/", headers=headers(**fields), body=b"")


def left(
    now: float = 0.0,
    opened_at: float | None = None,
    keep: Any = "comment",
    said: dict[str, str] | None = None,
    **waits: Any,
) -> float | None:
    profile = ClientProfile(waits=ClientWaits(**waits), keep_alive={"openai-chat": keep})
    return patience_s(profile, make_call(), request(**(said or {})), started_at=0.0, opened_at=opened_at, now=now)


def test_before_anything_was_sent_it_waits_for_a_head() -> None:
    assert left(head_s=600.0) == 585.0
    assert left(100.0, head_s=600.0) == 485.0


def test_of_a_short_patience_most_is_used_and_the_answer_gets_the_rest() -> None:
    """Gemini CLI: 60 s."""
    assert left(head_s=60.0) == 45.0
    assert left(head_s=20.0) == 15.0


def test_it_never_runs_below_nothing() -> None:
    assert left(1e6, head_s=60.0) == 0.0


def test_without_a_limit_there_is_none() -> None:
    assert left(head_s=None) is None
    assert left(opened_at=1.0, event_s=None, idle_s=None) is None


@pytest.mark.parametrize(
    ("keep", "comments_count", "wanted"), [("comment", False, 105.0), ("comment", True, 285.0), ("ping", False, 285.0)]
)
def test_behind_a_head_only_real_events_count(keep: str, comments_count: bool, wanted: float) -> None:
    """And silence, where signs of life do not end it."""
    waits = {"idle_s": 120.0, "event_s": 300.0, "comments_count": comments_count}
    assert left(10.0, 10.0, keep, **waits) == wanted
    assert left(20.0, 10.0, keep, **waits) == wanted - 10


def test_a_stranger_is_treated_with_care() -> None:
    assert patience_s(ClientProfile(), make_call(), request(), started_at=0.0, opened_at=None, now=0.0) == 45.0


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"x_stainless_timeout": "20"}, 15.0),
        ({"x_stainless_read_timeout": "100"}, 85.0),
        ({"x_server_timeout": "40"}, 30.0),
        ({"x_stainless_timeout": "900"}, 585.0),
        ({"x_stainless_timeout": "NOT_GIVEN"}, 585.0),
        ({"x_stainless_timeout": "-1"}, 585.0),
        ({"x_stainless_timeout": "inf"}, 585.0),
    ],
)
def test_a_client_that_says_how_long_it_waits_is_believed(said: dict[str, str], wanted: float) -> None:
    """`X-Stainless-Timeout` (`clients.md` section 5): a program may have set less than its SDK's own limit."""
    assert left(said=said, head_s=600.0) == wanted


def test_what_it_says_counts_where_nothing_else_is_known() -> None:
    assert left(said={"x_stainless_timeout": "900"}, head_s=None) == 885.0
    # behind a head every sign of life begins its time anew
    assert left(10.0, 10.0, said={"x_stainless_timeout": "20"}, event_s=None, idle_s=None) is None
