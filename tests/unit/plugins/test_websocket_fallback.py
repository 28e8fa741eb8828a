"""Which WebSockets are turned away (`clients.md` 9): where there is something to win, or as the operator says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.websocket_fallback import WebsocketFallback

from omniroute_addon.settings import Settings


@pytest.mark.parametrize(
    ("mode", "alternatives", "wanted"),
    [
        ("auto", True, True),
        ("auto", False, False),
        ("refuse", True, True),
        ("refuse", False, True),
        ("pass", True, False),
    ],
)
def test_the_setting_decides(mode: Any, alternatives: bool, wanted: bool) -> None:
    plugin = WebsocketFallback()
    core: Any = SimpleNamespace(config=SimpleNamespace(settings=Settings(websocket_model_calls=mode)))
    plugin.start(core=core)
    assert plugin.upgrade(alternatives=alternatives) is wanted
