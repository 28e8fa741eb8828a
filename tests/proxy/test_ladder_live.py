"""Ladder and early reset through the real proxy, on a clock in the test's hand (A05, A06)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from omniroute_addon import steering
from omniroute_addon.model import ResetOrder
from omniroute_addon.testing.answers import error, openai_chat
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.stage import Stage

OpenStage = Callable[..., Awaitable[Stage]]
FINE = openai_chat("fine", stream=False)
CONFIG = {"settings": {"own_credential": "never", "retries_in_place": 0}}
STEP_S = 1.0


class Scene:
    """One proxy whose time only the test moves."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        engine: Any = stage.proxy.master.addons.get("omniroute").engine  # type: ignore[no-untyped-call]
        self.clock = ManualClock(start=float(round(engine.core.clock.now())))
        engine.core.clock = self.clock.clock
        self.engine = engine
        self.cooldown: Any = engine.plugins._pluggy.get_plugin("connection_cooldown")

    def remaining_ms(self) -> list[int]:
        """Of every connection that rests."""
        return [timer.row["remainingMs"] for timer in self.cooldown.timers(self.clock.time)]

    async def served_by(self) -> str | None:
        seen = await self.stage.ask(question(stream=False))
        assert seen.status == 200, seen.body
        return seen.header("x-omniroute-connection")

    def asked(self, key: str) -> int:
        return self.stage.upstream.keys.count(key)


async def test_a05_the_ladder_grows_to_its_cap_and_a_success_resets_it(open_stage: OpenStage) -> None:
    """A05, CC-14, CC-17, CC-48: five 429 without a hint in a row, and no attempt within a pause."""
    s = Scene(await open_stage("a", "b", config=CONFIG))
    s.stage.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    s.stage.upstream.script(FINE, key="sk-b")
    pauses = []
    for number in range(7):
        assert await s.served_by() == "b"
        assert s.asked("sk-a") == number + 1
        pause = 0.0
        while s.asked("sk-a") == number + 1 and number < 6:
            s.clock.advance(STEP_S)
            pause += STEP_S
            if s.remaining_ms() in ([], [0]):
                break
            if pause in (STEP_S, 2 * STEP_S):  # in the middle of it: nobody asks
                assert await s.served_by() == "b"
        pauses.append(pause)
    assert pauses[:6] == [3, 6, 12, 24, 48, 96]
    s.clock.advance(96)
    s.stage.upstream.script(FINE, key="sk-a")
    assert await s.served_by() == "a"
    s.stage.upstream.script(error("openai-chat", 429, "slow down"), key="sk-a")
    assert await s.served_by() == "b"
    assert s.remaining_ms() == [3_000]


@pytest.mark.parametrize("way", ["a person resets it", "a success by another path"])
async def test_a06_a_connection_that_is_well_again_is_used_at_once(way: str, open_stage: OpenStage) -> None:
    """A06: rests for five hours; at t=600 it is known to be well, without a restart, and the log tells of it."""
    same = {"id": "a2", "provider": "openai"}
    s = Scene(await open_stage("a", "b", config=CONFIG))
    limit = error("openai-chat", 429, "slow down", headers={"retry-after": "18000"})
    s.stage.upstream.script([limit, FINE, FINE], key="sk-a")
    s.stage.upstream.script(FINE, key="sk-b")
    assert [await s.served_by() for _ in range(2)] == ["b", "b"]
    s.clock.advance(600)
    if way == "a person resets it":
        order = ResetOrder(part="connection", connections=frozenset({"a"}))
        assert len(steering.reset(s.engine.core, s.engine.plugins, order)) == 1
    else:
        # Another connection of the configuration carries the same credential.
        text = s.stage.proxy.config_file.read_text(encoding="utf-8")
        key = next(line for line in text.splitlines() if "a.key" in line).strip()
        addon: Any = s.stage.proxy.master.addons.get("omniroute")  # type: ignore[no-untyped-call]
        added = "\n".join([f"- id: {same['id']}", "  provider: openai", f"  {key}", "  priority: -1", ""])
        s.stage.proxy.config_file.write_text(text.replace("connections:\n", "connections:\n" + added), encoding="utf-8")
        addon._use(addon._sources.load())
        assert await s.served_by() == "a2"
        await s.stage.proxy.finished(3)
        s.stage.proxy.config_file.write_text(text, encoding="utf-8")
        addon._use(addon._sources.load())
    assert await s.served_by() == "a"
    told = [line for line in s.stage.proxy.log if "reset by a person: mechanism=connection_cooldown" in line]
    told += [line for line in s.stage.proxy.log if "connection changed: connection=a state=<Rest until=0.000" in line]
    assert len(told) == 1
    assert s.stage.proxy.errors == []
