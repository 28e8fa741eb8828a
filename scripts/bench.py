#!/usr/bin/env python3
"""Compares mitmdump with the addon to bare mitmdump, in one run, in interleaved short windows.

    scripts/bench.py                  thirty rounds, some five minutes
    scripts/bench.py --quick          a few rounds: does everything work?
    scripts/bench.py --json out.json  also write every figure

A shared machine varies by a third between two long measurements, so nothing is measured alone: in every round each
contender gets one short window, one right after the other and in a rotating order, and only ratios and differences
within a round count. Printed are their medians with quartiles. CPU is that of the proxy process, so that a busy
neighbour hardly shows in it.

Contenders: `bare` (mitmdump), `dispatch` (mitmdump with nothing of ours but the fast hook dispatch), `own` (the addon
without configuration: the client's own credential), `two` (the addon with two configured connections). Streams are
compared to `bare-stream`, bare mitmdump with a three-line script that turns streaming on: without it, mitmdump holds
a whole answer back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_parts.processes import Helper, Proxy
from bench_parts.report import Report, Target

ADDON = Path(__file__).resolve().parent.parent / "omniroute_addon"
CONTENDERS = ("bare", "dispatch", "own", "two")

STREAMING = """
def responseheaders(flow):
    flow.response.stream = flow.response.headers.get("content-type") == "text/event-stream"
"""

DISPATCH = """
from mitmproxy import ctx
from omniroute_addon import dispatch

def running():
    dispatch.install(ctx.master)
    dispatch.freeze_gc()
"""

PACK = """
id: bench
hosts: ["127.0.0.1:{upstream}"]
category: api_key
endpoints:
  openai-chat: http://127.0.0.1:{upstream}/v1/chat/completions
"""

KEYS = {"BENCH_FIRST": "good", "BENCH_SECOND": "good-too", "BENCH_LIMITED": "limited", "BENCH_RESET": "reset"}
CONFIG = """
connections:
  - {id: first, provider: bench, key: "env:BENCH_FIRST", priority: 1}
  - {id: second, provider: bench, key: "env:BENCH_SECOND", priority: 2}
  - {id: limited, provider: bench, key: "env:BENCH_LIMITED", models: [limited], disable_cooling: true}
  - {id: broken, provider: bench, key: "env:BENCH_RESET", models: [reset], disable_cooling: true, base_url: "http://127.0.0.1:ELSEWHERE"}
  - {id: stale, provider: bench, key: "env:BENCH_RESET", models: [stale], disable_cooling: true}
settings:
  retries_in_place: 0
  plugins:
    # `disable_cooling` does not cover locks on a model (`CC-53`): after one 429 there would be no failover to measure.
    disabled: [model_lockout]
"""

FIRST_CHUNK_MS = Target(bound="≤", limit=2)
CHUNK_CPU = Target(bound="≤", limit=1.05)
FAILOVER_MS = Target(bound="≤", limit=3)
THROUGHPUT = Target(bound="≥", limit=1.3)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Everything that runs, and how long to measure."""

    client: Helper
    upstream: int
    proxies: Mapping[str, Proxy]
    rounds: int
    seconds: float
    report: Report

    def turns(self, names: Sequence[str]) -> Iterator[str]:
        """Who is next, over all rounds: rotated, so that nobody always comes first."""
        for number in range(self.rounds):
            turn = number % len(names)
            yield from (*names[turn:], *names[:turn])

    def ask(self, do: str, name: str, model: str = "fast", **command: Any) -> Any:
        """One window of one contender; `direct` is the upstream itself."""
        port = 0 if name == "direct" else self.proxies[name].port
        answer = self.client.ask(do=do, proxy=port, upstream=self.upstream, model=model, key="good", **command)
        if answer["bad"]:
            detail = "" if name == "direct" else self.proxies[name].last_words()
            raise SystemExit(f"bench: {answer['bad']} bad answers from {name} for model {model}\n{detail}")
        return answer

    def throughput(self, names: Sequence[str], concurrency: int) -> None:
        rates: defaultdict[str, list[float]] = defaultdict(list)
        costs: defaultdict[str, list[float]] = defaultdict(list)
        for name in self.turns(names):
            before = self.proxies[name].cpu_s()
            window = self.ask("load", name, concurrency=concurrency, seconds=self.seconds)
            costs[name].append((self.proxies[name].cpu_s() - before) / window["requests"] * 1e6)
            rates[name].append(window["requests"] / window["seconds"])
        speed, cost = f"requests/s, {concurrency} at once", f"CPU per request, {concurrency} at once"
        self.report.add(speed, "bare", "/s", rates["bare"])
        self.report.add(cost, "bare", "µs", costs["bare"])
        for name in names[1:]:
            target = THROUGHPUT if name in ("own", "two") else None
            self.report.add(speed, name, "× bare", _ratios(rates[name], rates["bare"]), target)
            self.report.add(cost, name, "× bare", _ratios(costs[name], costs["bare"]))

    def first_chunk(self, names: Sequence[str]) -> None:
        times: defaultdict[str, list[float]] = defaultdict(list)
        for name in self.turns(names):
            times[name].append(statistics.median(self.ask("each", name, "stream-2-0", count=10)["first_ms"]))
        base, *others = names
        self.report.add("first chunk of a stream", base, "ms", times[base])
        for name in others:
            added = _differences(times[name], times[base])
            self.report.add("first chunk of a stream, added", name, "ms", added, FIRST_CHUNK_MS)

    def chunks(self, names: Sequence[str], *, streams: int, chunks: int, pause_ms: int) -> None:
        """The pause lets a proxy read chunk by chunk; without it, the slower one would save work by reading several."""
        costs: defaultdict[str, list[float]] = defaultdict(list)
        for name in self.turns(names):
            before = self.proxies[name].cpu_s()
            self.ask("streams", name, f"stream-{chunks}-{pause_ms}", concurrency=streams)
            costs[name].append((self.proxies[name].cpu_s() - before) * 1000 / (streams * chunks) * 1000)
        base, *others = names
        self.report.add("CPU per 1,000 chunks", base, "ms", costs[base])
        for name in others:
            self.report.add("CPU per 1,000 chunks", name, "× bare", _ratios(costs[name], costs[base]), CHUNK_CPU)

    def failover(self, name: str) -> None:
        """What one failed attempt adds to a request, and how much of it is more than a round trip to the upstream."""
        cases = {
            "direct": ("direct", "fast"),
            "bare": ("bare", "fast"),
            "429": (name, "limited"),
            "reset": (name, "reset"),
            # What a reset does to a connection that was used before may be a keep-alive that ran out: the request is sent once
            # more, on a new connection, before it goes elsewhere.
            "reset twice": (name, "stale"),
        }
        times: defaultdict[str, list[float]] = defaultdict(list)
        for case in self.turns(list(cases)):
            who, model = cases[case]
            times[case].append(statistics.median(self.ask("each", who, model, count=10)["total_ms"]))
        self.report.add("one upstream round trip", "direct", "ms", times["direct"])
        self.report.add("one request", "bare", "ms", times["bare"])
        for case in ("429", "reset", "reset twice"):
            added = _differences(times[case], times["bare"])
            beyond = _differences(added, times["direct"])
            self.report.add(f"one failover ({case}), added to bare", name, "ms", added)
            target = None if case == "reset twice" else FAILOVER_MS
            self.report.add(f"one failover ({case}), beyond a round trip", name, "ms", beyond, target)

    def memory(self, requests: int) -> None:
        """Resident memory after that many requests to each; also warms everybody up."""
        for name, proxy in self.proxies.items():
            before, sent = proxy.rss_mib(), 0
            while sent < requests:
                sent += self.ask("load", name, concurrency=16, seconds=0.5)["requests"]
            after = proxy.rss_mib()
            self.report.add(f"memory after {requests:,} requests", name, "MiB", [after])
            self.report.add(f"memory that {requests:,} requests added", name, "MiB", [after - before])

    def judging(self) -> None:
        """CPU of judging bodies made to hurt; in this process, straight from the rule book."""
        from bench_parts.judging import judging_ms

        for label, milliseconds in judging_ms():
            self.report.add(f"judging 10 MB: {label}", "rule book", "ms", milliseconds)


def _ratios(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    return [value / base for value, base in zip(values, bases, strict=True)]


def _differences(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    return [value - base for value, base in zip(values, bases, strict=True)]


def start_proxies(
    stack: contextlib.ExitStack, folder: Path, ports: Sequence[int], options: argparse.Namespace
) -> dict[str, Proxy]:
    """All contenders that were asked for, started."""
    rules = folder / "rules"
    rules.mkdir()
    upstream, elsewhere = ports
    config = CONFIG.replace("ELSEWHERE", str(elsewhere))
    files = {"streaming.py": STREAMING, "dispatch.py": DISPATCH, "two.yaml": config, "none.yaml": "{}\n"}
    for file, text in (files | {"rules/bench.yaml": PACK.format(upstream=upstream)}).items():
        (folder / file).write_text(text)
    addon = ["-s", str(ADDON), "--set", f"omniroute_rules={rules}", "--set"]
    arguments = {
        "bare": [],
        "bare-stream": ["-s", str(folder / "streaming.py")],
        "dispatch": ["-s", str(folder / "dispatch.py")],
        "own": [*addon, f"omniroute_config={folder / 'none.yaml'}"],
        "two": [*addon, f"omniroute_config={folder / 'two.yaml'}"],
    }
    wanted = {*options.contenders} | ({"bare-stream"} if {"own", "two"} & {*options.contenders} else set())
    quiet = [] if options.print_flows else ["-q"]
    proxies = {}
    for name in arguments:
        if name in wanted:
            proxies[name] = Proxy(name, folder, [*quiet, *arguments[name]], env=KEYS)
            stack.callback(proxies[name].close)
    return proxies


def measure(bench: Bench, options: argparse.Namespace) -> None:
    """Everything, in the order of the report."""
    names = [name for name in bench.proxies if name != "bare-stream"]
    ours = [name for name in names if name in ("own", "two")]
    bench.memory(200 if options.quick else 5_000)
    for concurrency in (1, 16, 64):
        bench.throughput(names, concurrency)
    if ours:
        bench.first_chunk(["bare-stream", *ours])
        bench.chunks(["bare-stream", *ours], streams=8, chunks=100, pause_ms=4)
    if "two" in ours:
        bench.failover("two")
    if ours:
        bench.judging()


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few, short windows: a smoke test, not a measurement")
    parser.add_argument("--rounds", type=int, help="windows per contender and measure (default 30; 3 with --quick)")
    parser.add_argument("--seconds", type=float, help="length of a window (default 0.4; 0.15 with --quick)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument("--contenders", default=",".join(CONTENDERS), help="some of %(default)s; bare is always there")
    parser.add_argument("--print-flows", action="store_true", help="leave mitmdump's own output on (it goes to a file)")
    options = parser.parse_args()
    options.contenders = ["bare", *options.contenders.split(",")]
    if unknown := {*options.contenders} - {*CONTENDERS}:
        parser.error(f"unknown contenders {', '.join(sorted(unknown))}; known: {', '.join(CONTENDERS)}")
    options.rounds = options.rounds or (3 if options.quick else 30)
    options.seconds = options.seconds or (0.15 if options.quick else 0.4)
    return options


def main() -> None:
    options = parse_arguments()
    report = Report()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="omniroute-bench-")))
        upstream, client = Helper("upstream.py"), Helper("client.py")
        stack.callback(upstream.close)
        stack.callback(client.close)
        ports = upstream.read()
        proxies = start_proxies(stack, folder, ports, options)
        bench = Bench(
            client=client,
            upstream=ports[0],
            proxies=proxies,
            rounds=options.rounds,
            seconds=options.seconds,
            report=report,
        )
        measure(bench, options)
    facts = {
        "rounds": options.rounds,
        "seconds": options.seconds,
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    print(report.table())
    print("\n" + ", ".join(f"{name} {value}" for name, value in facts.items()))
    if options.json:
        figures = [figure.data() for figure in report.figures]
        options.json.write_text(json.dumps({**facts, "figures": figures}, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
