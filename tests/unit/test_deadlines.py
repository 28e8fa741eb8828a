"""How long an attempt may take, phase by phase."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.deadlines import ERROR_BODY_S, FAILURES, Deadlines, Stage, readiness_budget_ms
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import make_call

START, HEAD, BYTES, ACTIVE, LIFECYCLE = 1000.0, 1010.0, 1020.0, 1015.0, 1012.0
OFF = {"attempt_deadline_ms": 0, "head_timeout_ms": 0, "readiness_timeout_ms": 0, "idle_timeout_ms": 0}


def due(
    stage: Stage,
    *,
    alternatives: bool = True,
    lifecycle: bool = False,
    call: dict[str, Any] | None = None,
    **settings: int,
) -> dict[str, float]:
    deadlines = Deadlines(
        call=make_call(**(call or {})),
        settings=Settings(**{**OFF, "readiness_max_timeout_ms": 0, **settings}),
        started_at=START,
        call_deadline_at=START + 600,
        alternatives=alternatives,
    )
    lifecycle_at = LIFECYCLE if lifecycle else None
    found = deadlines.due(stage, head_at=HEAD, active_at=ACTIVE, bytes_at=BYTES, lifecycle_at=lifecycle_at)
    return {str(name): at for name, at in found.items()}


STAGES: list[Stage] = ["head", "error", "opening", "body", "committed"]


@pytest.mark.parametrize("stage", STAGES)
def test_what_is_off_never_comes(stage: Stage) -> None:
    expected = {"error_body": HEAD + ERROR_BODY_S} if stage == "error" else {}
    assert due(stage, alternatives=False) == expected


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("alternatives", [True, False])
def test_st_39_the_attempts_ceiling_holds_always(stage: Stage, alternatives: bool) -> None:
    """ST-39: never reset, whatever the quality of the output is."""
    assert due(stage, alternatives=alternatives, attempt_deadline_ms=7_000)["attempt"] == START + 7


def test_the_end_of_all_attempts_ends_this_one_only_before_commit_and_when_something_else_is_left() -> None:
    assert {stage: due(stage).get("call") for stage in STAGES} == {
        **dict.fromkeys(STAGES, START + 600),
        "committed": None,
    }
    assert all("call" not in due(stage, alternatives=False) for stage in STAGES)


# ---------------------------------------------------------------- head


def test_rule_4_a_head_is_waited_for_without_end_when_nothing_else_could_be_tried() -> None:
    """`spec/README.md`, rule 4."""
    assert due("head", head_timeout_ms=5_000)["head"] == START + 5
    assert "head" not in due("head", alternatives=False, head_timeout_ms=5_000)
    assert "head" not in due("body", head_timeout_ms=5_000)


@pytest.mark.parametrize(
    ("stream", "settings", "expected"),
    [
        (True, {"head_timeout_ms": 600_000, "readiness_timeout_ms": 80_000, "readiness_max_timeout_ms": 180_000}, 180),
        (False, {"head_timeout_ms": 600_000, "readiness_timeout_ms": 80_000, "readiness_max_timeout_ms": 180_000}, 600),
        (True, {"head_timeout_ms": 50_000, "readiness_timeout_ms": 80_000, "readiness_max_timeout_ms": 180_000}, 50),
        (True, {"head_timeout_ms": 0, "readiness_timeout_ms": 80_000, "readiness_max_timeout_ms": 10_000}, 80),
        (False, {"head_timeout_ms": 0, "readiness_timeout_ms": 80_000, "readiness_max_timeout_ms": 10_000}, None),
        (True, {"head_timeout_ms": 0, "readiness_timeout_ms": 0, "readiness_max_timeout_ms": 10_000}, None),
    ],
)
def test_a_streams_head_comes_with_its_first_frame_so_both_share_one_bound(
    stream: bool, settings: dict[str, int], expected: float | None
) -> None:
    found = due("head", call={"stream": stream}, **settings).get("head")
    assert found == (None if expected is None else START + expected)


# ---------------------------------------------------------------- error body


def test_an_errors_body_is_waited_for_with_or_without_alternatives() -> None:
    """A client with one credential gets its error, too, and not after minutes."""
    assert due("error", alternatives=False) == {"error_body": HEAD + 15.0}


# ---------------------------------------------------------------- readiness


def test_st_21_bytes_move_readiness_but_never_beyond_its_bound() -> None:
    """ST-21."""
    figures = {"readiness_timeout_ms": 5_000, "readiness_max_timeout_ms": 60_000}
    assert due("opening", **figures)["readiness"] == BYTES + 5
    assert due("opening", **{**figures, "readiness_max_timeout_ms": 12_000})["readiness"] == HEAD + 12


def test_st_15_the_bound_is_never_below_the_base() -> None:
    """ST-15."""
    assert due("opening", readiness_timeout_ms=9_000, readiness_max_timeout_ms=1_000)["readiness"] == HEAD + 9
    assert readiness_budget_ms(make_call(), Settings(readiness_timeout_ms=9_000, readiness_max_timeout_ms=1)) == 9_000


def test_st_14_zero_turns_the_gate_off() -> None:
    """ST-14."""
    assert due("opening", readiness_timeout_ms=0, readiness_max_timeout_ms=60_000, alternatives=False) == {}


def test_readiness_is_asked_for_without_alternatives_too() -> None:
    """The watch then releases what there is (rule 4)."""
    assert "readiness" in due("opening", alternatives=False, readiness_timeout_ms=1_000)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ({}, 80_000),
        ({"history_items": 150}, 80_000),
        ({"history_items": 151}, 100_000),
        ({"history_items": 400}, 100_000),
        ({"history_items": 401}, 125_000),
        ({"tools": 14}, 80_000),
        ({"tools": 15}, 95_000),
        ({"body_bytes": 250_000}, 80_000),
        ({"body_bytes": 250_001}, 100_000),
        ({"body_bytes": 750_000}, 100_000),
        ({"body_bytes": 750_001}, 125_000),
        ({"history_items": 151, "tools": 15, "body_bytes": 250_001}, 135_000),
        ({"history_items": 401, "tools": 15, "body_bytes": 750_001}, 180_000),
    ],
)
def test_st_16_to_20_the_budget_grows_with_what_was_asked(call: dict[str, int], expected: int) -> None:
    """ST-14, ST-16, ST-17, ST-18, ST-20."""
    assert readiness_budget_ms(make_call(**call), Settings()) == expected


# ---------------------------------------------------------------- grace, idle


def test_the_grace_of_a_lifecycle_frame_runs_from_the_first_one_and_before_commit_only() -> None:
    assert due("opening", lifecycle=True, lifecycle_grace_ms=2_000)["grace"] == LIFECYCLE + 2
    assert "grace" not in due("opening", lifecycle_grace_ms=2_000)
    assert "grace" not in due("committed", lifecycle=True)


def test_st_37_the_idle_timer_runs_after_commit_and_for_a_whole_body_that_could_come_from_elsewhere() -> None:
    """ST-37; rule 4 for a body without alternatives."""
    idle = {"idle_timeout_ms": 5_000}
    assert due("committed", **idle)["idle"] == ACTIVE + 5
    assert due("committed", alternatives=False, **idle)["idle"] == ACTIVE + 5
    assert due("body", **idle)["idle"] == ACTIVE + 5
    assert "idle" not in due("body", alternatives=False, **idle)
    assert all("idle" not in due(stage, **idle) for stage in STAGES[:3])


def test_every_deadline_that_ends_an_attempt_has_its_words() -> None:
    """ST-22, ST-38, ST-40."""
    assert FAILURES.keys() == {"head", "readiness", "idle", "attempt", "call"}
    assert FAILURES["readiness"].startswith("STREAM_READINESS_TIMEOUT")
    assert FAILURES["idle"].startswith("STREAM_IDLE_TIMEOUT")
    assert FAILURES["attempt"].startswith("STREAM_ATTEMPT_DEADLINE")
