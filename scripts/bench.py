#!/usr/bin/env python3
"""Compares mitmdump with the addon to bare mitmdump, in one run, in interleaved short windows.

    scripts/bench.py                  thirty rounds, a few minutes
    scripts/bench.py --quick          a few rounds: does everything work?
    scripts/bench.py --json out.json  also write every figure

Machines like ours vary by a third between two long measurements, so nothing here is measured alone: in every round each
contender gets one short window, right after one another and in a rotating order, and only ratios and differences within
a round count. What is printed is their median, with quartiles. CPU is the proxy process's own, so that a busy
neighbour hardly shows in it.

Contenders: `bare` (mitmdump), `dispatch` (mitmdump with nothing of ours but the fast hook dispatch), `own` (the addon without configuration:
the client's own credential), `two` (the addon with two configured connections). Streams are compared to a bare mitmdump with a
three-line script that turns streaming on, since without it mitmdump holds a whole answer back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabulate import tabulate

HERE = Path(__file__).resolve().parent
ADDON = HERE.parent / "omniroute_addon"

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

CONFIG = """
connections:
  - {{id: first, provider: bench, key: "env:BENCH_GOOD", priority: 1, models: ["fast", "stream-*"]}}
  - {{id: second, provider: bench, key: "env:BENCH_GOOD_TOO", priority: 2}}
  - {{id: limited, provider: bench, key: "env:BENCH_LIMITED", priority: 0, models: [limited], disable_cooling: true}}
  - {{id: broken, provider: bench, key: "env:BENCH_RESET", priority: 0, models: [reset], disable_cooling: true}}
settings:
  retries_in_place: 0
"""
KEYS = {"BENCH_GOOD": "good", "BENCH_GOOD_TOO": "good-too", "BENCH_LIMITED": "limited", "BENCH_RESET": "reset"}


# ---------------------------------------------------------------- processes


class Helper:
    """The upstream or the client: a script of ours that is spoken to by lines."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, HERE / script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {self._process.args} ended")
        return json.loads(line)

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self.read()

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(10)


class Proxy:
    """One mitmdump, listening on a loopback port."""

    def __init__(self, name: str, folder: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.name = name
        self._log = folder / f"{name}.log"
        home = folder / name
        home.mkdir()
        # An empty home: neither a user's mitmproxy options nor a user's omniroute configuration gets in.
        env = {**os.environ, **KEYS, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home)}
        code = "from mitmproxy.tools.main import mitmdump; mitmdump()"
        listen = ["--listen-host", "127.0.0.1", "-p", str(self.port), "--set", f"confdir={home}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code, *listen, *options],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await_port()

    def _await_port(self) -> None:
        for _ in range(300):
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.1)
        raise SystemExit(f"bench: {self.name} did not start:\n{self._log.read_text(errors='replace')[-3000:]}")

    def cpu_s(self) -> float:
        """CPU seconds of all threads so far; nan where the system does not say."""
        root = Path(f"/proc/{self._process.pid}")
        try:  # nanoseconds; the classic counters tick a hundred times a second, too coarse for our windows
            return sum(int((t / "schedstat").read_text().split()[0]) for t in (root / "task").iterdir()) / 1e9
        except OSError:
            pass
        try:
            fields = (root / "stat").read_text().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except OSError:
            return float("nan")

    def rss_mib(self) -> float:
        """Resident memory now; nan where the system does not say."""
        try:
            status = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return float("nan")
        return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# ---------------------------------------------------------------- figures


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Median and quartiles."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
        return cls(low=low, median=median, high=high)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the report."""

    measure: str
    contender: str
    unit: str
    value: Spread
    target: str = ""
    met: bool | None = None

    def row(self) -> list[str]:
        digits = 2 if abs(self.value.median) < 100 else 0
        quartiles = f"{self.value.low:.{digits}f} – {self.value.high:.{digits}f}"
        verdict = {None: "", True: "met", False: "MISSED"}[self.met]
        return [self.measure, self.contender, f"{self.value.median:.{digits}f} {self.unit}", quartiles, self.target, verdict]

    def data(self) -> dict[str, Any]:
        spread = {"low": self.value.low, "median": self.value.median, "high": self.value.high}
        return {"measure": self.measure, "contender": self.contender, "unit": self.unit, **spread} | (
            {"target": self.target, "met": self.met} if self.target else {}
        )


def at_most(limit: float, unit: str = "") -> tuple[str, Callable[[float], bool]]:
    return f"≤ {limit:g} {unit}".strip(), lambda value: value <= limit


def at_least(limit: float, unit: str = "") -> tuple[str, Callable[[float], bool]]:
    return f"≥ {limit:g} {unit}".strip(), lambda value: value >= limit


Target = tuple[str, Callable[[float], bool]]


class Report:
    """Collects figures, and prints each group when it is measured."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def add(self, measure: str, contender: str, unit: str, values: Sequence[float], target: Target | None = None) -> None:
        value = Spread.of(values)
        met = target[1](value.median) if target else None
        label = target[0] if target else ""
        self.figures.append(
            Figure(measure=measure, contender=contender, unit=unit, value=value, target=label, met=met)
        )

    def table(self) -> str:
        headers = ["measure", "contender", "median", "quartiles", "target", ""]
        return tabulate([figure.row() for figure in self.figures], headers, disable_numparse=True)


# ---------------------------------------------------------------- measuring


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Everything that runs, and how long to measure."""

    client: Helper
    upstream: int
    proxies: Mapping[str, Proxy]
    rounds: int
    seconds: float
    report: Report

    def rounds_of(self, names: Sequence[str]) -> Iterator[Iterator[str]]:
        """The order of every round: rotated, so that nobody always comes first."""
        for number in range(self.rounds):
            turn = number % len(names)
            yield iter([*names[turn:], *names[:turn]])

    def ask(self, do: str, name: str, model: str = "fast", **command: Any) -> Any:
        """One window of one contender; `direct` is the upstream itself."""
        port = self.proxies[name].port if name in self.proxies else 0
        answer = self.client.ask(do=do, proxy=port, upstream=self.upstream, model=model, key="good", **command)
        if answer["bad"]:
            raise SystemExit(f"bench: {answer['bad']} bad answers from {name} for {model}; nothing that follows would count")
        return answer

    def throughput(self, names: Sequence[str], concurrency: int) -> None:
        rates: defaultdict[str, list[float]] = defaultdict(list)
        costs: defaultdict[str, list[float]] = defaultdict(list)
        for order in self.rounds_of(names):
            for name in order:
                before = self.proxies[name].cpu_s()
                window = self.ask("load", name, concurrency=concurrency, seconds=self.seconds)
                costs[name].append((self.proxies[name].cpu_s() - before) / window["requests"] * 1e6)
                rates[name].append(window["requests"] / window["seconds"])
        what = f"requests/s, {concurrency} at once"
        self.report.add(what, "bare", "/s", rates["bare"])
        self.report.add(f"CPU per request, {concurrency} at once", "bare", "µs", costs["bare"])
        for name in names[1:]:
            target = at_least(1.3, "×") if name != "dispatch" else None
            self.report.add(what, name, "× bare", _ratios(rates[name], rates["bare"]), target)
            self.report.add(f"CPU per request, {concurrency} at once", name, "× bare", _ratios(costs[name], costs["bare"]))

    def first_chunk(self, names: Sequence[str]) -> None:
        times: defaultdict[str, list[float]] = defaultdict(list)
        for order in self.rounds_of(names):
            for name in order:
                times[name].append(statistics.median(self.ask("each", name, "stream-2-0", count=10)["first_ms"]))
        base, *others = names
        self.report.add("first chunk of a stream", base, "ms", times[base])
        for name in others:
            self.report.add(
                "first chunk of a stream, added", name, "ms", _differences(times[name], times[base]), at_most(2, "ms")
            )

    def chunks(self, names: Sequence[str], *, streams: int, chunks: int, pause_ms: int) -> None:
        costs: defaultdict[str, list[float]] = defaultdict(list)
        for order in self.rounds_of(names):
            for name in order:
                before = self.proxies[name].cpu_s()
                self.ask("streams", name, f"stream-{chunks}-{pause_ms}", concurrency=streams)
                costs[name].append((self.proxies[name].cpu_s() - before) * 1000 / (streams * chunks) * 1000)
        base, *others = names
        self.report.add("CPU per 1,000 chunks", base, "ms", costs[base])
        for name in others:
            self.report.add("CPU per 1,000 chunks", name, "× bare", _ratios(costs[name], costs[base]), at_most(1.05, "×"))

    def failover(self, name: str) -> None:
        """What one failed attempt adds to a request, beyond one round trip to the upstream."""
        cases = {"direct": "fast", "bare": "fast", "limited": "limited", "reset": "reset"}
        times: defaultdict[str, list[float]] = defaultdict(list)
        for order in self.rounds_of(list(cases)):
            for case in order:
                who = name if case in ("limited", "reset") else case
                times[case].append(statistics.median(self.ask("each", who, cases[case], count=10)["total_ms"]))
        self.report.add("one upstream round trip", "direct", "ms", times["direct"])
        self.report.add("one request", "bare", "ms", times["bare"])
        for case, label in (("limited", "429"), ("reset", "reset")):
            added = _differences(times[case], times["bare"])
            beyond = _differences(added, times["direct"])
            self.report.add(f"one failover ({label}), added to bare", name, "ms", added)
            self.report.add(f"one failover ({label}), beyond a round trip", name, "ms", beyond, at_most(3, "ms"))

    def memory(self, requests: int) -> None:
        """Resident memory after that many requests to each; also warms everybody up."""
        for name, proxy in self.proxies.items():
            before, sent = proxy.rss_mib(), 0
            while sent < requests:
                sent += self.ask("load", name, concurrency=16, seconds=0.5)["requests"]
            after = proxy.rss_mib()
            self.report.add(f"memory after {requests:,} requests", name, "MiB", [after])
            self.report.add(f"memory that {requests:,} requests added", name, "MiB", [after - before])


def _ratios(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    return [value / base for value, base in zip(values, bases, strict=True)]


def _differences(values: Sequence[float], bases: Sequence[float]) -> list[float]:
    return [value - base for value, base in zip(values, bases, strict=True)]


# ---------------------------------------------------------------- the run


def start_proxies(stack: contextlib.ExitStack, folder: Path, upstream: int, options: argparse.Namespace) -> dict[str, Proxy]:
    """All contenders that were asked for, started."""
    rules = folder / "rules"
    rules.mkdir()
    (rules / "bench.yaml").write_text(PACK.format(upstream=upstream))
    config, nothing = folder / "omniroute.yaml", folder / "empty.yaml"
    config.write_text(CONFIG.format(upstream=upstream))
    nothing.write_text("{}\n")
    streaming, dispatch = folder / "streaming.py", folder / "dispatch.py"
    streaming.write_text(STREAMING)
    dispatch.write_text(DISPATCH)
    addon = ["-s", str(ADDON), "--set", f"omniroute_rules={rules}", "--set"]
    contenders = {
        "bare": [],
        "bare-stream": ["-s", str(streaming)],
        "dispatch": ["-s", str(dispatch)],
        "own": [*addon, f"omniroute_config={nothing}"],
        "two": [*addon, f"omniroute_config={config}"],
    }
    quiet = [] if options.print_flows else ["-q"]
    proxies = {}
    for name, arguments in contenders.items():
        if name in options.contenders or (name == "bare-stream" and {"own", "two"} & set(options.contenders)):
            proxies[name] = Proxy(name, folder, *quiet, *arguments)
            stack.callback(proxies[name].close)
    return proxies


def measure(bench: Bench, options: argparse.Namespace) -> None:
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


def judge(report: Report) -> None:
    """CPU of judging a body made to hurt: 10 MB that nearly match, over and over."""
    from bench_judge import judging_ms

    for label, milliseconds in judging_ms():
        report.add(f"judging 10 MB, {label}", "rule book", "ms", milliseconds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="windows per contender and measure (default 30; 3 with --quick)")
    parser.add_argument("--seconds", type=float, help="length of a window (default 0.4; 0.15 with --quick)")
    parser.add_argument("--quick", action="store_true", help="few, short windows: a smoke test, not a measurement")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    parser.add_argument(
        "--contenders",
        default="bare,dispatch,own,two",
        type=lambda text: text.split(","),
        help="comma-separated; bare is always among them (default: all)",
    )
    parser.add_argument("--print-flows", action="store_true", help="mitmdump's own output on (it goes to a file)")
    parser.add_argument("--no-judge", action="store_true", help="leave out the 10 MB body")
    options = parser.parse_args()
    options.contenders = ["bare", *options.contenders]
    options.rounds = options.rounds or (3 if options.quick else 30)
    options.seconds = options.seconds or (0.15 if options.quick else 0.4)
    return options


def main() -> None:
    options = parse_arguments()
    report = Report()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="omniroute-bench-")))
        upstream, client = Helper("bench_upstream.py"), Helper("bench_client.py")
        stack.callback(upstream.close)
        stack.callback(client.close)
        port = upstream.read()
        proxies = start_proxies(stack, folder, port, options)
        bench = Bench(
            client=client,
            upstream=port,
            proxies=proxies,
            rounds=options.rounds,
            seconds=options.seconds,
            report=report,
        )
        measure(bench, options)
    if not options.no_judge:
        judge(report)
    print(report.table())
    print(f"\n{options.rounds} rounds of {options.seconds} s; Python {platform.python_version()}, {os.cpu_count()} CPUs")
    if options.json:
        facts = {"rounds": options.rounds, "seconds": options.seconds, "python": platform.python_version()}
        figures = [figure.data() for figure in report.figures]
        options.json.write_text(json.dumps({**facts, "cpus": os.cpu_count(), "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
