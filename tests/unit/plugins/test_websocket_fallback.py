"""Which WebSockets are turned away (`clients.md` 9): where there is something to win, or as the operator says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.websocket_fallback import WebsocketFallback

from omniroute_addon.model import ClientProfile, ModelCall
from omniroute_addon.settings import Settings

PROFILES = {"codex": ClientProfile(id="codex", websocket_refusal=426), "other": ClientProfile(id="other")}


@pytest.mark.parametrize(
    ("mode", "client", "alternatives", "wanted"),
    [
        ("auto", "codex", True, True),
        ("auto", "codex", False, False),
        ("auto", "other", True, False),
        ("auto", "gone", True, False),
        ("refuse", "codex", True, True),
        ("refuse", "other", False, True),
        ("pass", "codex", True, False),
    ],
)
def test_the_setting_decides(mode: Any, client: str, alternatives: bool, wanted: bool) -> None:
    plugin = WebsocketFallback()
    call = ModelCall(provider="p", dialect="openai-responses", model="", stream=True, client_profile=client)
    assert plugin.upgrade(call=call, alternatives=alternatives) is None
    config = SimpleNamespace(settings=Settings(websocket_model_calls=mode))
    core: Any = SimpleNamespace(config=config, clients=SimpleNamespace(profiles=PROFILES))
    plugin.start(core=core)
    assert plugin.upgrade(call=call, alternatives=alternatives) is wanted
