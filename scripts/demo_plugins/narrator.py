"""Tells the demo what happened: a plugin like any other, and an example of one with state.

`stories` grows by every failed attempt of the call; `on_failed` is called with each at once.
"""

from __future__ import annotations

from collections.abc import Callable

from omniroute_addon import hookimpl
from omniroute_addon.model import Attempt, ModelCall, Story

VERSION = "1.0"


class Narrator:
    """Listens to one call."""

    def __init__(self) -> None:
        self.stories: list[Story] = []
        self.winner: Attempt | None = None
        self.on_failed: Callable[[Story], None] = lambda story: None

    @hookimpl
    def failed(self, call: ModelCall, story: Story, now: float) -> None:
        self.stories.append(story)
        self.on_failed(story)

    @hookimpl
    def succeeded(self, call: ModelCall, attempt: Attempt, now: float) -> None:
        self.winner = attempt


plugin = Narrator()
