"""WebSocket fallback: Codex is asked to speak HTTP where another connection could take over (`clients.md`, 9).

Inside a WebSocket nothing can be tried elsewhere, and a rate limit that is told there is fatal for Codex. Where the
client's own credential is the only one there is nothing to win, and its WebSocket passes untouched; so does that of a
client that is not known to go on over HTTP (`websocket_refusal` in its profile).
"""

from __future__ import annotations

from omniroute_addon import hookimpl
from omniroute_addon.core import Core
from omniroute_addon.model import ModelCall


class WebsocketFallback:
    """The mechanism. It keeps no state."""

    def __init__(self) -> None:
        self._core: Core | None = None

    @hookimpl
    def start(self, core: Core) -> None:
        self._core = core

    @hookimpl
    def upgrade(self, call: ModelCall, alternatives: bool) -> bool | None:
        if self._core is None:
            return None
        mode = self._core.config.settings.websocket_model_calls
        if mode != "auto":
            return mode == "refuse"
        profile = self._core.clients.profiles.get(call.client_profile)
        return alternatives and profile is not None and profile.websocket_refusal is not None


plugin = WebsocketFallback()
