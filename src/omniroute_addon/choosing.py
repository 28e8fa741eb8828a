"""Which targets of a call may be used now? The stage exclude, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from urllib.parse import urlsplit

from .exchange import Exchange
from .model import Exclusion, Target
from .peers import is_loopback
from .plugin_host import PluginHost

NOT_ADMITTED = "not_admitted"
"""Label of a target that a permit refused."""
_PORTION = 32
"""Targets that are looked at at once, at first."""
_TOLD = 64
"""Exclusions of one choice that are kept for `omniroute explain`."""


def usable_targets(ex: Exchange, plugins: PluginHost, now: float, *, verified_tls: bool) -> Sequence[Target]:
    """The targets that are left and that nobody excludes; `ex.exclusions` tells of the others.

    Of a large pool whose order nobody changes, only as many are looked at as are needed to find the first and to know that
    it has an alternative.
    """
    exclusions = [e for e in ex.exclusions if e.label == NOT_ADMITTED]
    usable: list[Target] = []
    whole = plugins.listens("order")
    for left in _portions(ex.targets, ex.spent, whole=whole):
        exclusions += excluded(ex, left, plugins, now, verified_tls=verified_tls)
        barred = {e.target.key for e in exclusions}
        usable += (t for t in left if t.key not in barred)
        if len(usable) >= 2 and not whole:
            break
    ex.exclusions = tuple(exclusions)
    if exclusions:
        ex.skipped |= {(e.target.key, e.label): e for e in exclusions[:_TOLD]}
    return usable


def excluded(
    ex: Exchange, targets: tuple[Target, ...], plugins: PluginHost, now: float, *, verified_tls: bool
) -> list[Exclusion]:
    """Why which of these may not be used now."""
    answers = plugins.each("exclude", call=ex.call, targets=targets, now=now)
    insecure = [] if verified_tls else _insecure(targets)
    return [*insecure, *(e for answer in answers for e in answer)]


def has_alternatives(ex: Exchange, target: Target) -> bool:
    """Something else could be tried, by what was known at the last choice."""
    barred = {e.target.key for e in ex.exclusions}
    return any(t.key not in ex.spent and t.key != target.key and t.key not in barred for t in ex.targets)


def _insecure(targets: Sequence[Target]) -> list[Exclusion]:
    """A configured credential travels over verified TLS, or to this machine, or with the operator's consent."""
    return [
        Exclusion(target=t, label="unverified_tls", detail="ssl_insecure is on; say `allow_insecure: true` to consent")
        for t in targets
        if not t.connection.own and not t.connection.allow_insecure and not is_loopback(urlsplit(t.url).hostname or "")
    ]


def _portions(
    targets: Sequence[Target], spent: Set[tuple[str, str, str]], *, whole: bool
) -> Iterator[tuple[Target, ...]]:
    """The targets that are left, in order: all at once, or in portions that grow. The last is not left alone in one:
    a plugin may spare the only target there is."""
    place, size = 0, len(targets) if whole else _PORTION
    while place < len(targets):
        end = place + size if place + size + 1 < len(targets) else len(targets)
        left = tuple(t for t in targets[place:end] if t.key not in spent)
        if left:
            yield left
        place, size = end, 2 * size
