"""A stream whose hooks may be answered on the spot (`hooks_at_once.py`), instead of by a task and an event."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from mitmproxy.http import HTTPFlow
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import HttpStream

Commands = Generator[commands.Command, Any, None]


@dataclass
class OmnirouteResumeHook(commands.StartHook):
    """Nobody listens: mitmproxy waits after every hook until its flow is not intercepted any more."""

    flow: HTTPFlow
    name = "omniroute_resume"


class ShortcutStream(HttpStream):
    """`HttpStream`; a hook that `run_hook` has answered never leaves it."""

    run_hook: ClassVar[Callable[[commands.StartHook], bool] | None] = None
    """Answers a hook on the spot and says True, or does nothing. None: mitmproxy's way is the only one."""

    def handle_event(self, event: events.Event) -> Commands:
        # A plain function that hands out a generator: it runs for every event of every exchange.
        said = super().handle_event(event)
        return said if type(self).run_hook is None else self._without_answered_hooks(said)

    def _without_answered_hooks(self, said: Commands) -> Commands:
        run = type(self).run_hook
        while True:
            answered: commands.StartHook | None = None
            for command in said:
                blocks = command.blocking is self and isinstance(command, commands.StartHook)
                if run is not None and blocks and run(command):  # type: ignore[arg-type]
                    answered = command  # type: ignore[assignment]  # the layer says nothing more until it has its answer
                else:
                    yield command
            if answered is None:
                return
            if (stopped := self._stopped()) is not None:
                yield stopped
                return
            said = super().handle_event(events.HookCompleted(answered))

    def _stopped(self) -> commands.StartHook | None:
        """A handler intercepted the flow: wait, in place of the hook that was answered, until somebody lets it go."""
        if self._paused is None or not self.flow.intercepted:
            return None
        waiting = OmnirouteResumeHook(self.flow)
        waiting.blocking = self  # type: ignore[assignment]  # as mitmproxy does
        self._paused = self._paused._replace(command=waiting)
        return waiting
