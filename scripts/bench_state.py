#!/usr/bin/env python3
"""What the state costs a request when there is a lot of it: 10,000 connections, each with a timer.

    .venv/bin/python scripts/bench_state.py [--connections N] [--rounds N]

| case | what is measured |
|---|---|
| `route of 4` | choosing a target: a route names four of the connections, and three of them rest |
| `pool, first free` | the same over the whole pool: whoever comes first is free, and its ladder is not forgotten |
| `pool, 50 rest` | the same, and the first fifty rest |
| `whole request` | from the client's bytes to those that go on the wire, over the whole pool |
| `fail` | what all mechanisms learn from one failure |
| `succeed` | what they learn from a success of a connection that is well, as nearly always |

Prints the median and the 99th percentile in microseconds. Nothing else may run on the machine. The state is read from
memory in any case (the file is written behind), so a file makes no difference here.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.engine import Engine
from omniroute_addon.exchange import Exchange, Send
from omniroute_addon.model import Connection, RetryAfter, RuleRef
from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import load_packs
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.plugins import FOLDER
from omniroute_addon.settings import Settings
from omniroute_addon.targets import Route
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_connection,
    make_story,
    make_target,
    make_verdict,
)
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.testing.questions import question
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.wire import Incoming

ROUTED_MODEL = "routed"
HOUR_S = 3600.0


class Scene:
    """An engine with everything that is shipped, and a pool of connections of one provider."""

    def __init__(self, count: int) -> None:
        self.clock = ManualClock()
        packs, _ = load_packs(pack_folders(None))
        categories = {provider.id: provider.category for provider in packs.providers.values()}
        rules = RuleBook.build(packs.rules, categories=categories, operator={})
        self.pool = tuple(make_connection(f"c{number:05}") for number in range(count))
        last = tuple(c.id for c in self.pool[-4:])
        route = Route(provider="openai", model=ROUTED_MODEL, connections=last)
        config = Config(connections=self.pool, routes=(route,), settings=Settings(own_credential="never"))
        self.core = Core(config=config, packs=packs, rules=rules, clock=self.clock.clock)
        self.plugins = PluginHost()
        self.plugins.load(bundled=FOLDER, user=None, entry_points=False)
        self.plugins.each("start", core=self.core)
        self.engine = Engine(self.core, self.plugins)
        for connection in self.pool:
            self.fail(connection, wait_s=1.0)
        self.clock.advance(2.0)  # over, but the ladder is not forgotten: every connection still has a row

    def fail(self, connection: Connection, *, wait_s: float) -> None:
        """A 429 with this wait."""
        verdict = make_verdict(
            retry_after=RetryAfter(seconds=wait_s, source="header:retry-after"), rule=RuleRef(id="bench")
        )
        now = self.clock.time
        attempt = make_attempt(make_target(connection), started_at=now)
        story = make_story(attempt, answer=make_answer(429), verdict=verdict, ended_at=now)
        with self.core.store.transaction():
            self.plugins.each("failed", call=make_call(), story=story, now=now)

    def succeed(self, connection: Connection) -> None:
        attempt = make_attempt(make_target(connection), started_at=self.clock.time)
        self.plugins.each("succeeded", call=make_call(), attempt=attempt, now=self.clock.time)

    def call(self, model: str) -> Exchange:
        """A new call, before its targets are looked at."""
        asked = question(model=model)
        ex = self.engine.identify(
            Incoming(
                method="POST",
                scheme="https",
                host=asked.host,
                port=443,
                path=asked.path,
                headers=tuple((k.encode(), v.encode()) for k, v in asked.headers.items()),
                body=asked.body,
            ),
            host=asked.host,
            peer="127.0.0.1",
            trusted=True,
        )
        assert ex is not None
        return ex

    def choosing(self, model: str) -> Callable[[], str]:
        """What chooses a target for a call: the connection's id."""
        ex, core = self.call(model), self.core

        def choose() -> str:
            ex.targets = core.config.targets_for(ex.call, None, core.packs)
            target = self.engine._choose(ex, core.clock.now())
            assert target is not None
            return target.connection.id

        return choose

    def send(self) -> Send:
        """A whole request, until something goes on the wire."""
        step = self.engine.advance(self.call("any"))
        assert isinstance(step, Send), step
        return step


def measure(work: Callable[[], Any], rounds: int) -> list[float]:
    """Microseconds of each round, sorted."""
    spent = []
    gc.collect()
    for _ in range(rounds):
        began = time.perf_counter_ns()
        work()
        spent.append((time.perf_counter_ns() - began) / 1000)
    return sorted(spent)


def run(connections: int = 10_000, rounds: int = 2_000) -> Mapping[str, list[float]]:
    """All cases: name -> sorted microseconds."""
    scene = Scene(connections)
    for connection in scene.pool[-4:-1]:
        scene.fail(connection, wait_s=HOUR_S)
    found = {}
    routed, pooled = scene.choosing(ROUTED_MODEL), scene.choosing("any")
    assert (routed(), pooled()) == (scene.pool[-1].id, scene.pool[0].id)
    found["route of 4"] = measure(routed, rounds)
    found["pool, first free"] = measure(pooled, rounds)
    found["whole request"] = measure(scene.send, rounds)
    for connection in scene.pool[:50]:
        scene.fail(connection, wait_s=HOUR_S)
    assert pooled() == scene.pool[50].id
    found["pool, 50 rest"] = measure(pooled, rounds)
    found["fail"] = measure(lambda: scene.fail(scene.pool[60], wait_s=HOUR_S), rounds)
    well = make_connection("well")
    found["succeed"] = measure(lambda: scene.succeed(well), rounds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2_000)
    given = parser.parse_args()
    found = run(given.connections, given.rounds)
    print(f"{'µs':<20}{'median':>10}{'99 %':>10}")
    for name, spent in found.items():
        print(f"{name:<20}{spent[len(spent) // 2]:>10.1f}{spent[len(spent) * 99 // 100]:>10.1f}")


if __name__ == "__main__":
    main()
