"""What counts as a failure of a whole provider, and which class of figures a provider has.

Circuit breaker and provider cooldown must agree on both (`PC-17`), so both ask here. The rules have decided already:
a verdict's `breaker` flag is theirs. An operator's list of statuses may take away from that, or add to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from .model import Category, Connection, Provider, Story
from .peers import is_loopback
from .provider_settings import COUNTED_STATUSES, CircuitBreaker, FailureKind

_USUAL: Final = frozenset(COUNTED_STATUSES)
_DEAD_ORIGIN: Final[Mapping[int, int]] = {
    **dict.fromkeys((520, 521, 523, 525, 526, 527, 530), 502),
    **dict.fromkeys((522, 524), 504),
}
"""A CDN's own words for a dead or slow origin."""
_RATE_LIMIT_WITHIN_S: Final = 3600


@lru_cache(maxsize=1024)
def provider_key(provider: str) -> str:
    """The one spelling under which a provider's state is kept (`CB-1`, `PC-5`)."""
    return provider.strip().lower()


def is_network_failure(story: Story) -> bool:
    """There was no HTTP answer, and not because it was slow: `CB-13`, `CB-18`."""
    return story.answer.status == 0 and (story.verdict.kind == "network" or story.answer.fault == "timeout:connect")


def counted_status(story: Story) -> int:
    """The status under which a failure counts: restated (`CB-11`), or what stands for one (`CB-13`)."""
    if is_network_failure(story):
        return 502
    return _DEAD_ORIGIN.get(story.verdict.status, story.verdict.status)


def counts_against_provider(story: Story, settings: CircuitBreaker) -> bool:
    """`CB-11` to `CB-16`. Aborts never come here: `failed` is not told of them (`CB-14`)."""
    verdict = story.verdict
    if verdict.kind == "concurrency_limited" or verdict.scope == "request":
        return False
    provider = provider_key(story.attempt.target.connection.provider)
    statuses = settings.counted_statuses_by_provider.get(provider, settings.counted_statuses)
    status = counted_status(story)
    if verdict.breaker:
        # A rule may say so of a status that no list knows; a status that the operator took off the list is off.
        return status in statuses or status not in _USUAL
    return status in statuses and status not in _USUAL


def failure_kind(story: Story) -> FailureKind:
    """`CB-52`, `CB-53`. The verdict has read the phrases; a declared window is one in the words that `CB-54` names."""
    verdict = story.verdict
    if verdict.status != 429:
        return "transient"
    if verdict.kind == "credits_exhausted" or verdict.terminal:
        return "quota_exhausted"
    hint = verdict.retry_after
    told = hint is not None and any(word in hint.source.lower() for word in ("retrydelay", "retry in"))
    if hint is not None and told and hint.seconds < _RATE_LIMIT_WITHIN_S:
        return "rate_limit"
    return "quota_exhausted" if verdict.kind == "quota_exhausted" else "rate_limit"


# ---------------------------------------------------------------- classes


def is_private_host(host: str) -> bool:
    """This machine, or an address of a private network."""
    if is_loopback(host):
        return True
    try:
        return ip_address(host.partition("%")[0].strip("[]")).is_private
    except ValueError:
        return False


def class_of(provider: Provider, connections: Iterable[Connection]) -> Category:
    """Which figures hold: the pack's category, but `local` when every configured connection goes to a private address."""
    urls = [c.base_url or "" for c in connections if provider_key(c.provider) == provider_key(provider.id)]
    if urls and all(is_private_host(urlsplit(url).hostname or "") for url in urls):
        return "local"
    return provider.category


def tells_kinds(provider: Provider, connections: Sequence[Connection], wanted: bool | None, category: Category) -> bool:
    """Whether an upstream's hints about kinds are trusted at the breaker (`CB-49`, `CB-50`).

    Unset means: yes, unless the provider is local, or reached only at addresses that are not its own (a gateway that
    somebody hosts, a proxy between) or through an upstream proxy.
    """
    if wanted is not None:
        return wanted
    if category == "local" or not provider.hosts:
        return False
    mine = [c for c in connections if provider_key(c.provider) == provider_key(provider.id)]
    return not mine or any(c.base_url is None and c.via is None for c in mine)
