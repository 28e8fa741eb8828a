"""Headers that say when a limit's bucket fills again.

Nearly every provider counts in *buckets* (requests a minute, tokens a day, the five-hour window) and reports for each
a limit, what is left, and when it resets, in names of its own. Only the bucket that is empty says when to come back, so
a reset header counts when its sibling shows that nothing is left: `-remaining` 0, `-status` rejected, `-used-percent`
100. With several empty buckets the last one to fill decides. Names that stand for the one and only bucket
(`x-ratelimit-reset`, `ratelimit-reset`, `reset_at`) also count without a sibling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .durations import parse_number
from .stated_time import Stated, parse_stated

_RESET = re.compile(
    r"(?P<head>[a-z0-9_-]{0,60}?)(?:reset|timeremaining)(?P<form>-after-seconds|-after|-at|_at|-seconds|-ms|-time)?(?P<bucket>-[a-z0-9-]{1,30})?"
)
_ONE_BUCKET = frozenset({"x-ratelimit-", "x-rate-limit-", "ratelimit-", "rate-limit-", "x-", ""})
"""What may stand before `reset` when the header needs no sibling."""
_OTHER_MATTERS = re.compile(r"overage|fallback|slow|upgrade|password|limit-policy")
"""Windows that do not keep a request from being served again when they reset."""
_MOST_HEADERS = 200
_PAIR = re.compile(r"(?:^|[;,\s])(remaining|reset|r|t)\s{0,3}=\s{0,3}(\d{1,15})(?=$|[;,\s])")


def find_reset(headers: Mapping[str, str], *, base: float) -> Stated | None:
    """The time at which the empty bucket fills again; with several, the latest. `base` is when the answer was made."""
    empty: list[Stated] = []
    only: list[Stated] = []
    for name, value in list(headers.items())[:_MOST_HEADERS]:
        found = _RESET.fullmatch(name)
        if not found or _OTHER_MATTERS.search(name):
            continue
        stated = parse_stated(value, source=name, base=base, milliseconds=found["form"] == "-ms")
        if stated is None or stated.wait(base) <= 0:
            continue
        left = _is_empty(headers, found["head"], found["bucket"] or "")
        if left is True:
            empty.append(stated)
        elif left is None and found["head"] in _ONE_BUCKET and not found["bucket"]:
            only.append(stated)
    empty.extend(_structured(headers))
    # Where both are given, "after seconds" needs no clock: it wins over "at" when they agree on the window.
    best = empty or only
    return max(best, key=lambda stated: (round(stated.wait(base), -1), stated.seconds is not None), default=None)


def _is_empty(headers: Mapping[str, str], head: str, bucket: str) -> bool | None:
    """Whether the bucket's siblings say that nothing is left; None when there are none."""
    if (remaining := headers.get(f"{head}remaining{bucket}")) is not None:
        left = parse_number(remaining.strip())
        return left == 0 if left is not None else remaining.strip().startswith("-")
    if status := headers.get(f"{head}status{bucket}"):
        return status.strip().lower() in ("rejected", "exceeded", "exhausted", "blocked")
    for name, full in ((f"{head}used-percent{bucket}", 100), (f"{head}utilization{bucket}", 1)):
        if (used := parse_number(headers.get(name, "").strip())) is not None:
            return used >= full
    return None


def _structured(headers: Mapping[str, str]) -> Iterator[Stated]:
    """`ratelimit: "default";r=0;t=30` and its older form `limit=100, remaining=0, reset=30` (IETF drafts)."""
    value = headers.get("ratelimit", "")[:1000]
    items = [value] if "remaining=" in value.replace(" ", "") else value.split(",")
    for item in items:
        pairs = {name[0:3]: float(number) for name, number in _PAIR.findall(item)}
        wait = pairs.get("t", pairs.get("res"))
        if wait and pairs.get("r", pairs.get("rem")) == 0:
            yield Stated(source="ratelimit", seconds=wait)
