"""What `omniroute explain` draws: a list of requests, or one of them with everything that happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from .words import counted, lasting

_GAP = "  "


def listing(requests: Sequence[Mapping[str, Any]]) -> str:
    """One line for each, newest first."""
    if not requests:
        return "No request is remembered yet."
    rows = [_row(request) for request in requests]
    head = ("REQUEST", "TIME", "MODEL", "STATUS", "BY", "WHAT HAPPENED")
    sizes = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]
    lines = [_GAP.join([*map(str.ljust, row, sizes), row[-1]]).rstrip() for row in [head, *rows]]
    painted = [
        click.style(text, fg=None if request["good"] else "red")
        for text, request in zip(lines[1:], requests, strict=True)
    ]
    return "\n".join([click.style(lines[0], bold=True), *painted, "", "More of one: omniroute explain REQUEST"])


def story(request: Mapping[str, Any], now_ms: float) -> str:
    """One request: how it ended, every attempt, everybody who was passed by, and who was not needed."""
    sections = [
        ("attempts", [*_attempts(request)]),
        ("passed by", [*_exclusions(request, now_ms)]),
        ("not needed", [*_unused(request)]),
    ]
    lines = [click.style(_title(request), bold=True), _ending(request)]
    for name, rows in sections:
        if rows:
            lines += ["", name, *_aligned(rows)]
    if request["good"] and not request["attempts"]:
        lines += ["", "It was answered at once; nothing was passed by."]
    return "\n".join(lines)


def _row(request: Mapping[str, Any]) -> tuple[str, ...]:
    failures = [a for a in request["attempts"] if a.get("kind") not in (None, "ok")]
    told = [f"{a['connectionId']}: {a['kind']}" for a in failures[:3]]
    told += [f"{len(failures) - 3} more"] if len(failures) > 3 else []
    passed = {e["connectionId"] for e in request["exclusions"]}
    told += [f"{counted(len(passed), 'connection')} passed by"] if passed else []
    return (
        request["id"],
        f"{_time(request['startedAt']):%H:%M:%S}",
        f"{request['provider']}/{request['model']}",
        str(request["status"] or "–"),
        request["connectionId"] or "–",
        ", ".join(told) or request["outcome"],
    )


def _title(request: Mapping[str, Any]) -> str:
    parts = [f"{_time(request['startedAt']):%Y-%m-%d %H:%M:%S}", f"{request['provider']}/{request['model']}"]
    parts += [request["dialect"], "streamed" if request["stream"] else "not streamed"]
    parts += [f"agent {request['agent']}"] if request["agent"] else []
    return f"request {request['id']}: {', '.join(parts)}"


def _ending(request: Mapping[str, Any]) -> str:
    took = f"after {counted(request['attemptCount'], 'attempt')}, {_span(request['endedAt'] - request['startedAt'])}"
    took += f", {_span(request['heldMs'])} of it held" if request["heldMs"] else ""
    status = request["status"]
    if request["good"]:
        return f"answered {status} by {request['connectionId']} {took}"
    return f"{request['outcome']}{f' with {status}' if status else ''} {took}"


def _attempts(request: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for attempt in request["attempts"]:
        kind = attempt.get("kind")
        got = str(attempt["status"] or attempt.get("fault") or "–")
        if attempt.get("restatedTo"):
            got += f"→{attempt['restatedTo']}"
        sign = "✓" if kind == "ok" else "✗" if kind else "…"
        what = f"{sign} {got} {'answered' if kind == 'ok' else kind or 'unfinished'}"
        yield f"#{attempt['number']}", _where(attempt, request), what, _span(attempt["ms"]), _cause(attempt)


def _cause(attempt: Mapping[str, Any]) -> str:
    if attempt.get("rule") is None:
        return ""
    at = f" ({attempt['ruleAt']})" if attempt["ruleAt"] else ""
    parts = [f"rule {attempt['rule']}{at}"]
    if attempt["restatedBy"]:
        parts.append(f"restated by {attempt['restatedBy']}")
    if attempt["retryAfterMs"] is not None:
        parts.append(f"wait {_span(attempt['retryAfterMs'])}, said by {attempt['hint']}")
    parts.append(f"about the {attempt['scope'].replace('_', ' ')}" + (", for good" if attempt["terminal"] else ""))
    return " · ".join(parts + ([f"“{attempt['message']}”"] if attempt["message"] else []))


def _exclusions(request: Mapping[str, Any], now_ms: float) -> Iterator[tuple[str, ...]]:
    for exclusion in request["exclusions"]:
        until = exclusion["until"]
        when = "no time ends it" if until is None else f"until {_time(until):%H:%M:%S}"
        if until is not None:
            left = (until - now_ms) / 1000
            when += f" ({lasting(left)} left)" if left > 0 else " (over)"
        yield _where(exclusion, request), exclusion["label"], when, exclusion["detail"] or ""


def _unused(request: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    seen = {(r["connectionId"], r["model"]) for r in (*request["attempts"], *request["exclusions"])}
    for candidate in request["candidates"]:
        if (candidate["connectionId"], candidate["model"]) not in seen:
            yield (_where(candidate, request),)


def _where(row: Mapping[str, Any], request: Mapping[str, Any]) -> str:
    """The connection, and what differs from what was asked for."""
    other = [row["provider"]] if row["provider"] != request["provider"] else []
    other += [row["model"]] if row["model"] != request["model"] else []
    name: str = row["connectionId"]
    return name + (f" ({'/'.join(other)})" if other else "")


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    sizes = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return ["  " + _GAP.join([*map(str.ljust, row, sizes), row[-1]]).rstrip() for row in rows]


def _time(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1000).astimezone()


def _span(ms: float) -> str:
    return f"{ms:.0f} ms" if ms < 10_000 else lasting(ms / 1000)
