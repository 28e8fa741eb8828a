"""Which targets could serve a call, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omniroute_addon.model import Auth, Connection, Endpoint, Login, ModelCall, Provider, Target
from omniroute_addon.secrets import secret_of
from omniroute_addon.targets import OwnCredential, Pool, Route, allows, renamed, targets_for

OPENAI = Provider(
    id="openai",
    name="OpenAI",
    hosts=("api.openai.com",),
    category="api_key",
    endpoints=(Endpoint(dialect="openai-chat", url="https://api.openai.com/v1/chat/completions"),),
    auth=Auth(),
    headers={"x-a": "provider", "x-b": "provider"},
)
ROUTER = replace(
    OPENAI,
    id="router",
    endpoints=(
        Endpoint(dialect="openai-chat", url="https://router.example/v1/chat/completions"),
        Endpoint(
            dialect="gemini",
            url="https://router.example/v1beta/models/{model}:{method}",
            auth=Auth(header="x-goog-api-key", scheme=""),
        ),
    ),
)
GATE = replace(
    OPENAI, id="gate", endpoints=(Endpoint(dialect="openai-chat", url="https://{host}/v1/chat/completions"),)
)
PROVIDERS = {p.id: p for p in (OPENAI, ROUTER, GATE)}
CALL = ModelCall(provider="openai", dialect="openai-chat", model="gpt-5", stream=True)
OWN = Target(
    connection=Connection(id="client:abc", provider="openai", own=True),
    dialect="openai-chat",
    url="https://api.openai.com:443/v1/chat/completions",
    model="gpt-5",
    auth=Auth(),
)
A = Connection(id="a", provider="openai")
B = Connection(id="b", provider="openai", priority=-1)
R = Connection(id="r", provider="router")


def ids(
    *connections: Connection,
    call: ModelCall = CALL,
    own: Target | None = OWN,
    routes: tuple[Route, ...] = (),
    own_credential: OwnCredential = "last",
    provided: frozenset[str] = frozenset(),
) -> list[str]:
    found = targets_for(
        call,
        own,
        pool=Pool(connections),
        routes=routes,
        providers=PROVIDERS,
        own_credential=own_credential,
        provided=provided,
    )
    return [target.connection.id for target in found]


def test_without_connections_the_clients_own_credential_is_the_only_target() -> None:
    assert ids() == ["client:abc"]
    assert ids(own_credential="never") == ["client:abc"]
    assert ids(own=None) == []


def test_connections_come_by_priority_then_as_configured() -> None:
    assert ids(A, B, replace(A, id="c")) == ["b", "a", "c", "client:abc"]


@pytest.mark.parametrize(
    ("where", "wanted"), [("last", ["a", "client:abc"]), ("first", ["client:abc", "a"]), ("never", ["a"])]
)
def test_the_setting_places_the_clients_own_credential(where: OwnCredential, wanted: list[str]) -> None:
    assert ids(A, own_credential=where) == wanted
    assert ids(A, own=None, own_credential=where) == ["a"]


def test_only_the_providers_own_connections_qualify_without_a_route() -> None:
    assert ids(R, A) == ["a", "client:abc"]


def test_only_connections_that_speak_the_dialect_qualify() -> None:
    call = replace(CALL, dialect="anthropic-messages")
    assert ids(A, call=call) == ["client:abc"]
    assert ids(A, R, call=call, routes=(Route(provider="*", model="*", connections=("a", "r")),)) == ["client:abc"]


def test_models_allow_by_glob() -> None:
    assert ids(replace(A, models=("gpt-4*", "gpt-5"))) == ["a", "client:abc"]
    assert ids(replace(A, models=("gpt-4*",))) == ["client:abc"]
    assert allows(A, "anything")
    assert not allows(replace(A, models=("GPT-5",)), "gpt-5")


def test_an_exact_rename_wins_over_globs_which_count_in_their_order() -> None:
    connection = replace(A, rename={"gpt-*": "any", "gpt-5*": "five", "gpt-5": "exact"})
    assert [renamed(connection, m) for m in ("gpt-5", "gpt-5-mini", "o3")] == ["exact", "any", "o3"]


def test_a_route_decides_alone_and_in_its_own_order() -> None:
    routes = (
        Route(provider="openai", model="gpt-4*", connections=("a",)),
        Route(provider="openai", model="gpt-5*", connections=("r", "client", "gone", "a")),
        Route(provider="*", model="*", connections=("b",)),
    )
    assert ids(A, B, R, routes=routes, own_credential="never") == ["r", "client:abc", "a"]
    assert ids(A, B, R, routes=routes, own=None) == ["r", "a"]
    assert ids(A, B, R, routes=routes, call=replace(CALL, model="o3")) == ["b"]
    assert ids(A, B, R, routes=routes, call=replace(CALL, provider="router")) == ["b"]


def test_a_route_with_nothing_usable_falls_back_to_the_clients_own_credential() -> None:
    routes = (Route(provider="*", model="*", connections=("gone",)),)
    assert ids(routes=routes) == ["client:abc"]
    assert ids(routes=routes, own_credential="never") == []


def test_never_holds_also_when_no_connection_can_be_used() -> None:
    """The operator's word: a key that is missing today must not send the client's own key instead."""
    assert ids(own_credential="never", provided=frozenset({"openai"})) == []
    assert ids(own_credential="never", provided=frozenset({"anthropic"})) == ["client:abc"]
    assert ids(own_credential="last", provided=frozenset({"openai"})) == ["client:abc"]


def test_a_provider_that_went_away_or_needs_a_base_url_gives_no_target() -> None:
    assert ids(replace(A, provider="gone"), call=replace(CALL, provider="gone"), own=None) == []
    gate = Connection(id="g", provider="gate")
    call = replace(CALL, provider="gate")
    assert ids(gate, call=call, own=None) == []
    assert ids(replace(gate, base_url="https://gate.example"), call=call, own=None) == ["g"]


def test_a_target_says_where_how_and_under_which_name() -> None:
    connection = Connection(
        id="r", provider="router", base_url="http://127.0.0.1:9", rename={"m": "n"}, headers={"x-b": "mine"}
    )
    call = replace(CALL, provider="router", dialect="gemini", model="m")
    (target,) = targets_for(call, None, pool=Pool([connection]), routes=(), providers=PROVIDERS, own_credential="last")
    assert target.url == "http://127.0.0.1:9/v1beta/models/n:streamGenerateContent"
    assert target.model == "n"
    assert target.auth == Auth(header="x-goog-api-key", scheme="")
    assert dict(target.headers) == {"x-a": "provider", "x-b": "mine"}
    assert (target.connection, target.dialect) == (connection, "gemini")


def test_the_way_of_a_credential_depends_on_its_sort() -> None:
    """A Claude subscription's token goes as a bearer with a word on a list header; an API key goes as the pack says."""
    login = Login(prefix="tok-", auth=Auth(), values={"x-beta": "oauth"})
    plain = Auth(header="x-api-key", scheme="")
    endpoint = Endpoint(dialect="openai-chat", url="https://h.example/v1/chat/completions")
    provider = Provider(
        id="p", name="p", hosts=("h.example",), category="api_key", endpoints=(endpoint,), auth=plain, logins=(login,)
    )
    call = ModelCall(provider="p", dialect="openai-chat", model="m", stream=False)
    token, key = (Connection(id=v, provider="p", secret=secret_of(v)) for v in ("tok-1", "key-1"))
    first, second = targets_for(
        call, None, pool=Pool((token, key)), routes=(), providers={"p": provider}, own_credential="never"
    )
    assert (first.auth, first.listed, first.unlisted) == (Auth(), {"x-beta": "oauth"}, {})
    assert (second.auth, second.listed, second.unlisted) == (plain, {}, {"x-beta": frozenset({"oauth"})})
