"""Runs real agents behind the real proxy, against a fake provider that misbehaves: issue 5's table. Loopback only.

    scripts/test --agents                                   every agent in every situation, with and without the addon
    scripts/test --agents --agent codex --situation a,b     some of them
    scripts/test --agents --with-only --json agents.json

The agents come from npm, at pinned versions, into `.agents/` of this checkout. Exit code 1 when an agent behind the addon
did not end as it should.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from pathlib import Path

from agent_parts.clients import AGENTS, install
from agent_parts.running import Outcome, run
from agent_parts.situations import SITUATIONS

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".agents"
WITHIN_S = 150.0


def table(outcomes: list[Outcome]) -> str:
    """Agents down, situations across; behind the addon above, without it below."""
    from tabulate import tabulate

    shown = [s for s in SITUATIONS if any(o.situation == s for o in outcomes)]
    found = {(o.agent, o.situation, o.addon): o for o in outcomes}
    rows = []
    for agent in dict.fromkeys(o.agent for o in outcomes):
        for addon in (True, False):
            cells = [found.get((agent, s, addon)) for s in shown]
            if any(cells):
                rows.append((agent, "with" if addon else "without", *(_cell(cell) for cell in cells)))
    headers = ("agent", "addon", *(f"({s}) {SITUATIONS[s].name}" for s in shown))
    return tabulate(rows, headers=headers, tablefmt="github")


def _cell(outcome: Outcome | None) -> str:
    return "" if outcome is None else f"{outcome.words}{'' if outcome.good else ' ✗'}"


async def play(arguments: argparse.Namespace) -> list[Outcome]:
    """Every wanted run, one after the other; what is known is written after each."""
    outcomes: list[Outcome] = []
    for agent in (AGENTS[name] for name in arguments.agent):
        file = install(agent, CACHE)
        for situation in (SITUATIONS[name] for name in arguments.situation):
            for addon in arguments.modes:
                if agent.speaks_websocket and not addon:
                    continue  # the fakes speak none
                outcome = await run(agent, file, situation, addon=addon, within_s=arguments.within)
                outcomes.append(outcome)
                keys = ", ".join(f"{c['key']}:{c['status']}@{c['at']:g}" for c in outcome.model_calls[:8])
                print(
                    f"{agent.id:<16} ({situation.id}) {'with' if addon else 'without':<8} "
                    f"{'ok ' if outcome.good else 'NOT'} {outcome.words:<34} {keys}",
                    flush=True,
                )
                if arguments.json:
                    text = json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1, ensure_ascii=False)
                    arguments.json.write_text(text, encoding="utf-8")
    return outcomes


def _names(known: dict[str, object]) -> object:
    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"'{name}' is unknown. Known: {', '.join(known)}")
        return names

    return read


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/test --agents", description="Real agents behind the proxy.")
    parser.add_argument("--agent", type=_names(dict(AGENTS)), default=[*AGENTS], metavar="A,B")
    parser.add_argument("--situation", type=_names(dict(SITUATIONS)), default=[*SITUATIONS], metavar="a,b")
    parser.add_argument("--within", type=float, default=WITHIN_S, metavar="S", help="longest time of one run")
    parser.add_argument("--json", type=Path, default=CACHE / "agents.json", help="where everything is written")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--with-only", dest="modes", action="store_const", const=(True,), default=(True, False))
    mode.add_argument("--without-only", dest="modes", action="store_const", const=(False,))
    arguments = parser.parse_args()
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    outcomes = asyncio.run(play(arguments))
    print(f"\n{table(outcomes)}\n\nall of it: {arguments.json}")
    return 0 if all(o.good for o in outcomes if o.addon) else 1


if __name__ == "__main__":
    sys.exit(main())
