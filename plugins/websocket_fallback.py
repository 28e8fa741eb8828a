"""WebSocket fallback: Codex is asked to speak HTTP where another connection could take over (`clients.md`, 9).

Inside a WebSocket nothing can be tried elsewhere, and a rate limit that is told there is fatal for Codex. Where the
client's own credential is the only one there is nothing to win, and its WebSocket passes untouched.
"""

from __future__ import annotations

from omniroute_addon import hookimpl
from omniroute_addon.core import Core


class WebsocketFallback:
    """The mechanism. It keeps no state but the setting."""

    def __init__(self) -> None:
        self._mode = "auto"

    @hookimpl
    def start(self, core: Core) -> None:
        self._mode = core.config.settings.websocket_model_calls

    @hookimpl
    def upgrade(self, alternatives: bool) -> bool | None:
        return self._mode == "refuse" or (self._mode == "auto" and alternatives)


plugin = WebsocketFallback()
