"""What is remembered of finished requests, and what is never in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click
import pytest
from engine_scene import Scene, connections, wait_for

from omniroute_addon.cli.explain_view import listing, story
from omniroute_addon.history_settings import HistorySettings
from omniroute_addon.model import Exclusion
from omniroute_addon.testing.calls import make_answer, make_verdict


def scene(**settings: Any) -> Scene:
    limit = make_verdict("rate_limit", retry_after=wait_for(60), message="slow\ndown")
    found = Scene(connections=connections("a", "b", "c", "d"), settings=settings, verdicts=[limit])
    found.plug(
        exclude=lambda targets, now: [
            Exclusion(target=t, label="circuit_open", detail="12 failures", until=now + 30)
            for t in targets
            if t.connection.id == "a"
        ]
    )
    return found


def failed_over(found: Scene) -> str:
    """Passes a by, fails on b, is answered by c; the id."""
    ex = found.call()
    found.send(ex)
    found.clock.advance(0.25)
    found.engine.failed(ex, make_answer(429), None)
    found.send(ex)
    found.clock.advance(0.5)
    found.engine.finish(ex, status=200, good=True)
    return ex.id


def test_a_request_with_something_to_tell_is_kept_whole() -> None:
    """Issue 4, item 10: every candidate, attempt and exclusion, with rule and until."""
    found = scene()
    record = found.engine.history.find(failed_over(found))
    assert record is not None
    assert (record["outcome"], record["status"], record["connectionId"], record["attemptCount"]) == (
        "answered",
        200,
        "c",
        2,
    )
    assert [c["connectionId"] for c in record["candidates"]] == ["a", "b", "c", "d"]
    first, second = record["attempts"]
    assert (first["connectionId"], first["kind"], first["rule"], first["hint"]) == (
        "b",
        "rate_limit",
        "test",
        "header:retry-after",
    )
    assert (first["ms"], first["retryAfterMs"], first["message"]) == (250, 60_000, "slow?down")
    assert (second["connectionId"], second["kind"], second["ms"]) == ("c", "ok", 500)
    [passed] = record["exclusions"]
    assert (passed["connectionId"], passed["label"], passed["detail"]) == ("a", "circuit_open", "12 failures")
    assert passed["until"] == round((found.clock.time - 0.5 + 30) * 1000), "as of the last look"


def test_nothing_of_a_body_or_credential_is_in_it() -> None:
    found = scene()
    text = json.dumps(found.engine.history.find(failed_over(found)))
    assert [word for word in ("sk-", "Bearer", '"hi"', "messages") if word in text] == []


def test_one_that_succeeded_at_once_is_remembered_in_memory_only() -> None:
    found = Scene(connections=connections("a"), settings={"history": {"successes": 2}})
    ids = []
    for _ in range(3):
        ex = found.call()
        found.send(ex)
        found.engine.finish(ex, status=200, good=True)
        ids.append(ex.id)
    history = found.engine.history
    assert [r["id"] for r in history.recent()] == ids[:0:-1]
    assert history.recent(eventful=True) == [] and history.find(ids[0]) is None
    assert (history.recent(1)[0]["connectionId"], history.recent(1)[0]["good"]) == ("a", True)
    assert len(set(ids)) == 3


def test_how_it_ended() -> None:
    found = scene(retries_in_place=0)
    ex = found.call()
    found.play(ex)
    found.engine.finish(ex, status=429, good=False)
    assert found.engine.history.recent()[0]["outcome"] == "gave up"
    ex = found.call()
    found.send(ex)
    found.engine.finish(ex, status=0, good=False)
    assert found.engine.history.recent(1)[0]["outcome"] == "client left"


def test_it_can_be_switched_off_and_follows_the_settings() -> None:
    found = scene(history={"keep_ms": 0})
    assert found.engine.history.find(failed_over(found)) is None
    found = scene()
    one = failed_over(found)
    off = found.core.config.settings.model_copy(update={"history": HistorySettings(keep_bytes=0)})
    found.core.config = replace(found.core.config, settings=off)
    failed_over(found)
    assert found.engine.history.find(one) is None


def test_a_list_and_a_story_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    found = scene()
    id = failed_over(found)
    record = found.engine.history.find(id)
    assert record is not None
    head, row, *_ = click.unstyle(listing([record])).splitlines()
    assert head.split() == ["REQUEST", "TIME", "MODEL", "STATUS", "BY", "WHAT", "HAPPENED"]
    assert row.startswith(id) and row.endswith("c   b: rate_limit, 1 connection passed by")
    lines = click.unstyle(story(record, found.clock.time * 1000)).splitlines()
    assert lines[1] == "answered 200 by c after 2 attempts, 750 ms"
    assert lines[3:] == [
        "attempts",
        "  #1  b  ✗ 429 rate_limit  250 ms  rule test · wait 1 min, said by header:retry-after · about the connection · "
        "“slow?down”",
        "  #2  c  ✓ 200 answered    500 ms",
        "",
        "passed by",
        f"  a  circuit_open  {lines[8].split('  ')[3]}  12 failures",
        "",
        "not needed",
        "  d",
    ]
    assert lines[8].endswith("(30 s left)  12 failures")
    assert "(over)" in story(record, record["exclusions"][0]["until"] + 1)
    assert listing([]) == "No request is remembered yet."


def test_what_was_said_about_a_clients_own_credential_is_not_kept() -> None:
    """An upstream may repeat the key that it refuses; ours are known and masked, the client's is not ours to keep."""
    found = Scene(
        settings={"own_credential": "last"}, verdicts=[make_verdict("auth_invalid", message="bad key sk-own")]
    )
    ex = found.call()
    found.send(ex)
    found.engine.failed(ex, make_answer(401), None)
    found.engine.finish(ex, status=401, good=False)
    record = found.engine.history.find(ex.id)
    assert record is not None and record["attempts"][0]["kind"] == "auth_invalid"
    assert "sk-own" not in json.dumps(record)
