"""What is decided at a request's head: the parts that no live proxy shows (`tests/proxy/test_agents.py` has the rest)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from engine_scene import PATH, Scene, connections
from mitmproxy.http import Response
from mitmproxy.test import tflow

from omniroute_addon.agents import Caller, token_hash
from omniroute_addon.entrance import Entrance
from omniroute_addon.wire import HIDDEN

TOKEN = "planted-token"
AGENTS = {"ada": token_hash(TOKEN)}


def scene(*, required: bool = True) -> Scene:
    made = Scene(connections=connections("a"), settings={"require_agent": required})
    object.__setattr__(made.core.config, "agents", AGENTS)
    return made


def flow(login: str | None = None, **fields: Any) -> Any:
    made = tflow.tflow()
    made.request.host, made.request.port, made.request.path = "api.openai.com", 443, PATH
    for name, value in fields.items():
        setattr(made.request, name, value)
    if login is not None:
        made.request.headers["proxy-authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return made


def test_a_connect_says_who_calls_in_its_tunnel() -> None:
    s, tunnel = scene(), flow(f"ada:{TOKEN}", method="CONNECT")
    Entrance(s.engine).connect(tunnel)
    assert tunnel.response is None and tunnel.request.headers["proxy-authorization"] == HIDDEN
    inside = flow()
    inside.client_conn = tunnel.client_conn
    Entrance(s.engine).request(inside)
    assert inside.response is None
    caller = s.engine.callers.of(inside, inside.client_conn)
    assert caller is not None and caller.name == "ada"


def test_whom_mitmproxy_has_refused_is_not_asked_again() -> None:
    s, refused = scene(), flow(f"ada:{TOKEN}")
    refused.response = Response.make(407)
    Entrance(s.engine).connect(refused)
    Entrance(s.engine).request(refused)
    assert s.engine.callers.of(refused, refused.client_conn) is None


def test_a_replay_is_the_operators_own() -> None:
    s, replayed = scene(), flow()
    replayed.is_replay = "request"
    Entrance(s.engine).request(replayed)
    assert replayed.response is None


def test_a_token_that_proved_somebody_does_not_travel_on() -> None:
    s, plain = scene(), flow(f"ada:{TOKEN}")
    Entrance(s.engine).request(plain)
    assert plain.response is None and "proxy-authorization" not in plain.request.headers


def test_without_a_demand_and_a_login_nothing_is_remembered() -> None:
    s, plain = scene(required=False), flow()
    Entrance(s.engine).request(plain)
    assert s.engine.callers.of(plain, plain.client_conn) is None


@pytest.mark.parametrize("token", [TOKEN, "wrong"])
def test_a_socks_login_is_one_like_any_other(token: str, caplog: pytest.LogCaptureFixture) -> None:

    class Client: ...

    s, client = scene(), Client()
    fine = token == TOKEN
    assert Entrance(s.engine).login(client, "ada", token) is fine
    assert (s.engine.callers.of(client, client) == Caller(name="ada", proof=AGENTS["ada"])) is fine
    assert TOKEN not in caplog.text


def test_a_refusal_names_nobodys_token(caplog: pytest.LogCaptureFixture) -> None:
    s, plain = scene(), flow("ada:planted-wrong")
    Entrance(s.engine).request(plain)
    assert plain.response.status_code == 407
    assert plain.request.headers["proxy-authorization"] == HIDDEN
    assert "wrong token for agent 'ada'" in caplog.text and "planted-wrong" not in caplog.text
