"""Waiting for a target to come back, as the engine does it whoever says how long (`CW` section 5)."""

from __future__ import annotations

from typing import Any

import pytest
from engine_scene import START, Scene, bad_request, connections, overloaded, raw, wait_for

from omniroute_addon.exchange import Pause, Reply, Send
from omniroute_addon.model import ClientProfile, ClientWaits
from omniroute_addon.testing.calls import make_answer, make_exclusion, make_verdict


def limited(seconds: float = 10.0, **fields: Any) -> Any:
    return make_verdict("rate_limit", retry_after=wait_for(seconds), **fields)


def waiting(scene: Scene, *seconds: float | None) -> list[dict[str, Any]]:
    """A plugin that waits so long, in turn, then no more; what it was asked."""
    asked: list[dict[str, Any]] = []
    answers = list(seconds)

    def wait(
        call: Any, targets: Any, exclusions: Any, stories: Any, waited: Any, patience_s: Any, now: float
    ) -> float | None:
        asked.append(
            {
                "targets": [t.connection.id for t in targets],
                "barred": [e.target.connection.id for e in exclusions],
                "told": [s.attempt.target.connection.id for s in stories],
                "waited": list(waited),
                "patience_s": patience_s,
            }
        )
        return answers.pop(0) if answers else None

    scene.plug(wait=wait)
    return asked


def resting(scene: Scene, until: float, *names: str) -> None:
    """These connections are excluded until then."""

    def exclude(targets: Any, now: float) -> list[Any]:
        return [make_exclusion(t, until=until) for t in targets if now < until and t.connection.id in names]

    scene.plug(exclude=exclude)


def test_after_a_wait_every_target_that_may_have_come_back_is_asked_again() -> None:
    """CW-31."""
    scene = Scene(connections("a", "b"), verdicts=[limited()])
    waiting(scene, 10.05)
    assert scene.play(scene.call(), raw=raw()) == ["a", "b", "a", "b", "429"]
    assert scene.clock.now() == START + 10.05


@pytest.mark.parametrize(
    "verdict",
    [
        make_verdict("auth_invalid", status=401),
        make_verdict("credits_exhausted", terminal=True),
        make_verdict("forbidden"),
    ],
    ids=lambda verdict: verdict.kind,
)
def test_what_does_not_come_back_by_itself_is_not(verdict: Any) -> None:
    scene = Scene(connections("a", "b"), verdicts=[verdict, limited(), limited(), limited()])
    waiting(scene, 10.0)
    assert scene.play(scene.call(), raw=raw())[:4] == ["a", "b", "b", "429"]


def test_nothing_is_waited_for_when_the_request_itself_is_at_fault() -> None:
    scene = Scene(connections("a", "b"), verdicts=[bad_request()])
    asked = waiting(scene, 10.0)
    assert scene.play(scene.call(), raw=raw(400)) == ["a", "400"]
    assert asked == []


def test_the_plugin_hears_of_all_targets_as_they_are_now() -> None:
    """CW-17, CW-28: also of those that were tried, and that their failure has put to rest since."""
    scene = Scene(connections("a", "b"), verdicts=[limited()])
    resting(scene, START + 30, "a")
    asked = waiting(scene, 5.0)
    ex = scene.call()
    scene.play(ex)
    assert asked[0] == {"targets": ["a", "b"], "barred": ["a"], "told": ["b"], "waited": [], "patience_s": 45.0}
    assert asked[1]["waited"] == [5.0]
    assert ex.waited == [5.0]


def test_the_plugin_hears_how_long_the_client_waits_still() -> None:
    scene = Scene(connections("a"), verdicts=[limited()])
    asked = waiting(scene, 5.0)
    ex = scene.call()
    ex.profile = ClientProfile(waits=ClientWaits(head_s=600.0))
    scene.play(ex)
    assert [entry["patience_s"] for entry in asked] == [585.0, 580.0]
    ex = scene.call()
    ex.profile, ex.opened_at = ClientProfile(waits=ClientWaits(event_s=None, idle_s=None)), scene.clock.now()
    scene.play(ex)
    assert asked[-1]["patience_s"] is None


def test_a_clients_own_credential_that_rests_is_waited_for_and_then_sent() -> None:
    """`spec/README.md` 4: bounded, and never refused."""
    scene = Scene(settings={"own_credential": "last"})
    own = f"{scene.call().targets[0].connection.id}"
    resting(scene, START + 1e9, own)
    asked = waiting(scene, 5.0)
    ex = scene.call()
    step = scene.next(ex)
    assert isinstance(step, Send) and step.attempt.target.connection.own
    assert (len(asked), scene.clock.now()) == (2, START + 5)


def test_where_nobody_waits_it_is_sent_at_once() -> None:
    scene = Scene(settings={"own_credential": "last"})
    resting(scene, START + 1e9, scene.call().targets[0].connection.id)
    assert isinstance(scene.engine.advance(scene.call()), Send)


def test_a_dead_address_is_not_tried_again_in_place_of_the_clients_own_credential() -> None:
    scene = Scene(connections("a"), {"own_credential": "last"}, verdicts=[make_verdict("network", status=502)])
    ex = scene.call()
    resting(scene, START + 1e9, ex.targets[1].connection.id)
    scene.send(ex)
    scene.engine.failed(ex, make_answer(0, fault="connect_failed"), None)
    assert scene.send(ex).attempt.target.connection.own


def test_a_wait_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    scene = Scene(connections("a"), verdicts=[overloaded()], settings={"retries_in_place": 0})
    waiting(scene, 5.0)
    scene.play(scene.call())
    assert "held: provider=openai model=gpt-5.4 seconds=5.00 waits=1" in caplog.text


def test_a_target_that_a_permit_refused_may_be_asked_again_after_a_wait() -> None:
    scene = Scene(connections("a"))
    waiting(scene, 5.0)

    async def never() -> None: ...

    scene.plug(admit=lambda: never() if scene.clock.now() < START + 5 else None)
    ex = scene.call()
    step = scene.engine.advance(ex)
    assert isinstance(step, Pause) and step.permit is not None
    step.permit.close()  # type: ignore[attr-defined]
    scene.engine.not_admitted(ex, "full")
    assert isinstance(scene.next(ex), Send)
    assert scene.clock.now() == START + 5


def test_the_deadline_over_all_attempts_ends_every_wait() -> None:
    """CW-35."""
    scene = Scene(connections("a"), {"deadline_ms": 12_000}, verdicts=[limited()])
    waiting(scene, 10.0, 10.0, 10.0)
    ex = scene.call()
    assert scene.play(ex, raw=raw()) == ["a", "a", "429"]
    assert ex.waited == [10.0, 2.0]
    assert isinstance(scene.engine.advance(ex), Reply)


def test_what_is_set_free_before_its_time_ends_the_wait() -> None:
    """Edge case 10: an operator reset it, or it served another call; looked at every two seconds."""
    scene = Scene(connections("a"))
    free = START + 1e9

    def exclude(targets: Any, now: float) -> list[Any]:
        return [make_exclusion(t, until=START + 60) for t in targets if now < free]

    scene.plug(exclude=exclude)
    asked = waiting(scene, 60.05)
    ex = scene.call()
    for _ in range(3):
        assert scene.engine.advance(ex) == Pause(seconds=2.0)
        scene.clock.advance(2)
    free = START
    assert isinstance(scene.engine.advance(ex), Send)
    assert (scene.clock.now(), len(asked)) == (START + 6, 1)


def test_a_lock_that_ends_at_its_time_leaves_the_spread_as_it_is() -> None:
    """A37: the wait is longer than the lock on purpose."""
    scene = Scene(connections("a"))
    resting(scene, START + 10, "a")
    waiting(scene, 14.0)
    assert isinstance(scene.next(scene.call()), Send)
    assert scene.clock.now() == START + 14


def test_a_lock_that_was_extended_meanwhile_is_asked_about_again() -> None:
    """CW-32, edge case 9."""
    scene = Scene(connections("a"))
    ends = [START + 10, START + 10, START + 30]
    scene.plug(exclude=lambda targets, now: [make_exclusion(t, until=max(ends)) for t in targets if now < max(ends)])
    asked = waiting(scene, 10.05, 20.0)
    assert isinstance(scene.next(scene.call()), Send)
    assert [entry["waited"] for entry in asked] == [[], [10.05]]
