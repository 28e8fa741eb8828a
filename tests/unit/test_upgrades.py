"""A WebSocket at a model's door (`clients.md` 9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_scene import PATH, Scene, connections, headers

from omniroute_addon.exchange import Reply
from omniroute_addon.upgrades import is_websocket, upgrade_reply


@pytest.mark.parametrize(
    ("method", "header", "wanted"),
    [
        ("GET", "websocket", True),
        ("GET", "h2c, WebSocket", True),
        ("GET", "h2c", False),
        ("GET", "", False),
        ("POST", "websocket", False),
    ],
)
def test_what_opens_a_websocket(method: str, header: str, wanted: bool) -> None:
    assert is_websocket(method, header) is wanted


def ask(scene: Scene, path: str = PATH, *, trusted: bool = True) -> Reply | None:
    return upgrade_reply(
        scene.core,
        scene.engine.plugins,
        host="api.openai.com",
        port=443,
        path=path,
        headers=headers(user_agent="codex_exec/1"),
        peer="127.0.0.1",
        agent="ada",
        trusted=trusted,
    )


def asked(scene: Scene, answer: bool | None = True) -> list[tuple[Any, ...]]:
    heard: list[tuple[Any, ...]] = []

    def upgrade(call: Any, alternatives: bool) -> bool | None:
        heard.append((call.provider, call.dialect, call.agent, alternatives))
        return answer

    scene.plug(upgrade=upgrade)
    return heard


def test_a_plugin_is_told_of_the_door_and_its_alternatives() -> None:
    scene = Scene(connections=connections("a"))
    heard = asked(scene)
    reply = ask(scene)
    assert reply and reply.status == 426
    assert json.loads(reply.body)["error"]["code"] == "websocket_not_offered"
    assert (b"upgrade", b"HTTP/1.1") in reply.headers
    assert heard == [("openai", "openai-chat", "ada", True)]


def test_a_peer_that_may_use_no_configured_connection_has_no_alternatives() -> None:
    scene = Scene(connections=connections("a"))
    heard = asked(scene, answer=False)
    assert ask(scene, trusted=False) is None
    assert heard[0][-1] is False


def test_nobody_is_asked_about_another_path() -> None:
    scene = Scene(connections=connections("a"))
    heard = asked(scene)
    assert ask(scene, "/v1/realtime") is None and heard == []


@pytest.mark.parametrize("answer", [None, False])
def test_without_a_yes_it_passes(answer: bool | None) -> None:
    scene = Scene(connections=connections("a"))
    assert ask(scene) is None
    asked(scene, answer)
    assert ask(scene) is None
