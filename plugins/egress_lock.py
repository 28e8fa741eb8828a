"""Egress lock: a provider counts per outgoing address, so a used-up quota rests every connection behind it (`spec/07`).

Some free plans know no accounts: their 429 is about the address that asked. Without this, rotation would spend one
certain failure on each account behind it. Only for providers on the operator's list (`egress_lock.providers`).

The failing connection itself is cooled by the connection cooldown, which comes first and knows such a failure by the
same question (`failure_effects.fires_egress`); here its siblings get the same end: never one that rests already, never
one that is out, and no step on their ladders. Every such rest ends by itself, like any other (`EL-31` to `EL-33`).
"""

from __future__ import annotations

import logging

from omniroute_addon import hookimpl
from omniroute_addon.connection_key import connection_key
from omniroute_addon.cooldown.book import ConnectionBook
from omniroute_addon.cooldown.steps import cooled
from omniroute_addon.core import Core
from omniroute_addon.egress.seen import Seen, egress_of, siblings_of
from omniroute_addon.failure_effects import fires_egress
from omniroute_addon.model import Attempt, Connection, Story
from omniroute_addon.provider_failure import provider_key

log = logging.getLogger(__name__)


class EgressLock:
    """The mechanism. Its state is in the store."""

    def __init__(self) -> None:
        self._core: Core | None = None
        self._book: ConnectionBook | None = None
        self._seen: Seen | None = None
        self._providers: frozenset[str] = frozenset()
        """One list for trigger and lookup (`EL-5`)."""

    @hookimpl
    def start(self, core: Core) -> None:
        settings = core.config.settings.egress_lock
        self._core, self._book, self._seen = core, ConnectionBook(core.store), Seen(core.store)
        self._providers = frozenset(settings.providers)
        self._seen.forget_old(core.clock.now(), settings.window_ms)

    @hookimpl(trylast=True)
    def failed(self, story: Story, now: float) -> None:
        """After the connection cooldown (`EL-15`)."""
        assert self._core
        connection, config = story.attempt.target.connection, self._core.config
        self._note(connection, now)
        if fires_egress(story, config.settings) and story.answer.fault is None:
            self._cool_siblings(story, now)

    @hookimpl
    def succeeded(self, attempt: Attempt, now: float) -> None:
        self._note(attempt.target.connection, now)

    def _note(self, connection: Connection, now: float) -> None:
        assert self._core and self._seen
        if provider_key(connection.provider) in self._providers:
            self._seen.note(connection, now, self._core.config.settings.egress_lock.window_ms)

    def _cool_siblings(self, story: Story, now: float) -> None:
        assert self._core and self._book and self._seen
        failing, config, book = story.attempt.target.connection, self._core.config, self._book
        rest = book.get(connection_key(failing))
        if rest.terminal or rest.until <= now:
            return
        address, window_ms = egress_of(failing), config.settings.egress_lock.window_ms
        siblings = siblings_of(
            failing, config.connections, self._seen, providers=self._providers, now=now, window_ms=window_ms
        )
        count = 0
        with self._core.store.transaction():
            for key, provider in siblings.items():
                before, after = book.change(
                    key,
                    lambda sibling: cooled(
                        sibling,
                        until=rest.until,
                        error=f"shared egress quota, used up by {failing.id}",
                        error_type=story.verdict.reason,
                        cause=f"shared egress quota of {failing.id} ({story.verdict.rule.id})",
                        rule=story.verdict.rule.id,
                        hint=rest.hint,
                        label="egress_lock",
                        now=now,
                    ),
                    provider=provider,
                )
                count += after != before
        log.info("egress lock: address=%s siblings=%d seconds=%.0f", address, count, rest.until - now)


plugin = EgressLock()
