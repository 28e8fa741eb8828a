"""The ground that engine and plugins share."""

from __future__ import annotations

from typing import Any

from omniroute_addon.config import Config
from omniroute_addon.core import Core


def test_every_core_reads_the_real_clock_unless_it_is_given_one(manual_clock: Any) -> None:
    packs: Any = object()
    core = Core(config=Config(), packs=packs, rules=packs)
    assert core.clock.now() > 1.7e9 and 0 <= core.clock.chance() < 1
    assert Core(config=Config(), packs=packs, rules=packs, clock=manual_clock.clock).clock.now() == manual_clock.time


def test_a_reload_replaces_the_parts_in_place() -> None:
    packs: Any = object()
    core = Core(config=Config(), packs=packs, rules=packs)
    core.config = other = Config()
    assert core.config is other
