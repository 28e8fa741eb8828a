"""The engine's decisions, one by one: who is asked, in which order, and what follows from the answers."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from engine_scene import (
    BODY,
    PATH,
    START,
    Scene,
    bad_request,
    connections,
    elsewhere,
    headers,
    overloaded,
    raw,
    server_fault,
    wait_for,
)
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.clients.book import ClientBook
from omniroute_addon.clients.merge import build_clients
from omniroute_addon.clients.profile_files import read_profile
from omniroute_addon.config import Config
from omniroute_addon.consequences import origin
from omniroute_addon.exchange import Exchange, Pause, Reply, Send
from omniroute_addon.model import Auth, Endpoint, Exclusion, Restatement, RuleRef, Target
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import (
    make_answer,
    make_connection,
    make_exclusion,
    make_provider,
    make_target,
    make_verdict,
)
from omniroute_addon.wire import as_mapping

NETWORK = make_answer(0, b"connection refused", phase="connect", fault="connect_failed")
LIMIT = make_verdict("rate_limit")


def ids(ex: Exchange) -> list[str]:
    return [t.connection.id for t in ex.targets]


def sent_headers(step: Send) -> dict[str, str]:
    return as_mapping(step.outgoing.headers)


# ---------------------------------------------------------------- tls, identify


def test_tls_is_opened_for_hosts_of_packs_and_where_a_plugin_says_so() -> None:
    scene = Scene()
    assert scene.engine.decrypts("api.openai.com", 443)
    assert not scene.engine.decrypts("bank.example", 443)
    scene.plug(intercept=lambda host, port: {"bank.example": True, "api.openai.com": False}.get(host))
    assert scene.engine.decrypts("bank.example", 443)
    assert not scene.engine.decrypts("api.openai.com", 443)
    assert not scene.engine.decrypts("other.example", 443)


def test_a30_only_a_post_to_a_door_of_a_provider_is_ours() -> None:
    engine = Scene().engine
    assert engine.is_ours("POST", "api.openai.com", 443, PATH)
    assert not engine.is_ours("GET", "api.openai.com", 443, PATH)
    assert not engine.is_ours("POST", "api.openai.com", 443, "/v1/models")
    assert not engine.is_ours("POST", "bank.example", 443, PATH)


@pytest.mark.parametrize("fields", [{"method": "GET"}, {"path": "/v1/models"}])
def test_a30_what_is_no_model_call_is_not_ours(fields: dict[str, str]) -> None:
    scene = Scene()
    request = scene.request(**fields)
    assert scene.engine.identify(request, host="api.openai.com", peer=None, trusted=True) is None
    assert scene.engine.identify(scene.request(), host="bank.example", peer=None, trusted=True) is None


@pytest.mark.parametrize(
    "fields", [{"body": b"{not json"}, {"body": b"[]"}, {"headers": headers(content_encoding="gzip")}]
)
def test_a21_a_body_that_cannot_be_read_goes_to_the_provider_as_it_is(
    fields: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A21: the provider's own words about a malformed request are better than ours."""
    caplog.set_level(logging.INFO)
    scene = Scene(connections("a"))
    assert scene.engine.identify(scene.request(**fields), host="api.openai.com", peer=None, trusted=True) is None
    assert "not a readable openai-chat request to api.openai.com" in caplog.text


def test_a_call_is_described_as_far_as_it_had_to_be_understood() -> None:
    ex = Scene(settings={"deadline_ms": 5_000}).call(peer="10.0.0.7", trusted=False)
    call = ex.call
    assert (call.provider, call.dialect, call.model, call.stream) == ("openai", "openai-chat", "gpt-5.4", False)
    assert (call.session, call.tools, call.history_items, call.body_bytes) == ("prompt-cache:s1", 1, 1, len(BODY))
    assert (call.client, call.trusted) == ("10.0.0.7", False)
    assert (ex.started_at, ex.deadline_at, ex.body) == (START, START + 5.0, BODY)


def test_a_plugin_may_describe_a_call_anew_and_sees_no_credential() -> None:
    scene, seen = Scene(), []

    def identify(call: Any, headers: dict[str, str]) -> Any:
        seen.append(headers)
        return replace(call, session="mine")

    scene.plug(identify=identify)
    fields = headers(authorization="Bearer sk-client", x_api_key="sk-client", cookie="c=1", x_team="red")
    ex = scene.call(headers=fields)
    assert ex.call.session == "mine"
    assert seen == [{"x-team": "red"}]


def test_a_plugin_without_an_opinion_on_a_call_leaves_it() -> None:
    scene = Scene()
    scene.plug(identify=lambda call: None)
    assert scene.call().call.session == "prompt-cache:s1"


# ---------------------------------------------------------------- resolve


def test_without_connections_the_clients_own_credential_is_asked_under_its_own_name() -> None:
    ex = Scene().call(path=f"{PATH}?key=AIza-secret&alt=sse")
    (own,) = ex.targets
    assert own.connection.own and own.connection.id.startswith("client:")
    assert own.url == f"https://api.openai.com:443{PATH}"
    assert "sk-client" not in repr(ex.targets) and "AIza" not in repr(ex.targets)


def test_a_client_without_a_credential_has_a_connection_too() -> None:
    (own,) = Scene().call(headers=()).targets
    assert (own.connection.id, own.connection.secret, own.connection.own) == ("client", None, True)


def test_in_transparent_mode_the_name_that_the_client_meant_stands_for_the_address() -> None:
    scene = Scene()
    step = scene.send(ex := scene.call(host="2001:db8::1"))
    assert ex.targets[0].url == f"https://api.openai.com:443{PATH}"
    assert step.outgoing.host == "2001:db8::1"


def test_an_address_of_ipv6_makes_a_readable_url() -> None:
    provider = make_provider(hosts=("2001:db8::1",))
    scene = Scene(providers=(provider,))
    ex = scene.call(host="2001:db8::1", meant="2001:db8::1")
    assert ex.targets[0].url == f"https://[2001:db8::1]:443{PATH}"
    scene.engine.watch(ex, scene.send(ex))


def test_configured_connections_come_first_and_the_own_credential_where_the_settings_put_it() -> None:
    assert ids(Scene(connections("a", "b")).call()) == ["a", "b"]
    last = ids(Scene(connections("a", "b"), {"own_credential": "last"}).call())
    assert last[:2] == ["a", "b"] and last[2].startswith("client:")


def test_an_untrusted_peer_gets_only_its_own_credential() -> None:
    """`design.md` §7.1: not even a plugin can hand it a configured one."""
    scene = Scene(connections("a"))
    scene.plug(resolve=lambda call, targets: [make_target("a")])
    ex = scene.call(trusted=False)
    assert [t.connection.own for t in ex.targets] == [True]
    assert sent_headers(scene.send(ex))["authorization"] == "Bearer sk-client"


def test_a_plugin_may_choose_the_targets() -> None:
    scene = Scene(connections("a", "b"))
    scene.plug(resolve=lambda call, targets: [t for t in targets if t.connection.id == "b"])
    assert ids(scene.call()) == ["b"]


def _nothing(targets: Any) -> Iterator[Target]:
    yield from ()


@pytest.mark.parametrize("resolve", [lambda targets: [], lambda targets: None, lambda targets: 1 / 0, _nothing])
def test_an_empty_answer_or_a_fault_leaves_the_targets_as_they_are(resolve: Any) -> None:
    scene = Scene(connections("a", "b"))
    scene.plug(resolve=resolve)
    assert ids(scene.call()) == ["a", "b"]


def test_the_doors_own_way_of_a_credential_wins_over_the_providers() -> None:
    door = Endpoint(dialect="openai-chat", url=f"https://api.openai.com{PATH}", auth=Auth(header="api-key"))
    usual = Auth(header="x-api-key")
    assert Scene(providers=(make_provider(auth=usual),)).call().targets[0].auth == usual
    assert Scene(providers=(make_provider(auth=usual, endpoints=(door,)),)).call().targets[0].auth == door.auth


# ---------------------------------------------------------------- rotation (A24)


@pytest.mark.parametrize("kind", ["auth_invalid", "credits_exhausted", "forbidden", "rate_limit"])
def test_a24_each_connection_is_asked_once_and_left_for_good(kind: str) -> None:
    """A24: rotation is bounded by the number of keys, whatever the budget for tries in place."""
    scene = Scene(connections(*"abcdef"), verdicts=[make_verdict(kind)])
    assert scene.play(scene.call(), raw=raw(429))[:-1] == list("abcdef")


def test_a24_the_sixth_key_serves() -> None:
    scene = Scene(connections(*"abcdef"), verdicts=[make_verdict("auth_invalid", status=401, terminal=True)])
    ex = scene.call()
    for name in "abcde":
        assert scene.send(ex).attempt.target.connection.id == name
        scene.engine.failed(ex, make_answer(401), raw(401))
    step = scene.send(ex)
    assert (step.attempt.target.connection.id, step.attempt.number, step.attempt.tries) == ("f", 6, 1)
    scene.engine.finish(ex, status=200, good=True)
    assert scene.heard[-2:] == [("succeeded", 6, START), ("finish", 5, 200, START)]


@given(st.integers(0, 4), st.lists(st.sampled_from(["same", "other", "connection", "fault"]), min_size=1, max_size=4))
def test_a24_the_number_of_attempts_is_bounded_whatever_comes(budget: int, sorts: list[str]) -> None:
    """A24: never more attempts than targets plus the one budget for tries in place."""
    verdicts = {"same": overloaded(), "other": make_verdict(scope="model"), "connection": LIMIT}
    verdicts["fault"] = server_fault()
    scene = Scene(connections(*"abcd"), {"retries_in_place": budget}, verdicts=[verdicts[s] for s in sorts])
    asked = scene.play(scene.call(), make_answer(529), raw(529))[:-1]
    assert len(asked) <= 4 + budget
    firsts = list(dict.fromkeys(asked))
    assert firsts == sorted(firsts), "a target that was left came back"


def test_what_is_said_of_a_model_leaves_the_connections_other_targets() -> None:
    """A03."""
    target = make_target("a")
    scene = Scene(connections("a"), verdicts=[make_verdict("model_not_found", scope="model")])
    scene.plug(resolve=lambda targets: [target, replace(target, model="gpt-5.4-mini")])
    assert scene.play(scene.call(), raw=raw())[:-1] == ["a", "a"]


@pytest.mark.parametrize("scope", ["connection", "egress_ip"])
def test_what_is_said_of_a_connection_spends_all_its_targets(scope: str) -> None:
    target = make_target("a")
    scene = Scene(connections("a"), verdicts=[make_verdict(scope=scope)])
    scene.plug(resolve=lambda targets: [target, make_target("b"), replace(target, model="gpt-5.4-mini")])
    assert scene.play(scene.call(), raw=raw())[:-1] == ["a", "b"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
@pytest.mark.parametrize("kind", ["server_error", "overloaded"])
def test_a24_a_server_fault_stays_at_its_origin_and_stops_after_the_budget(kind: str, status: int) -> None:
    """A24: the fault is the provider's, so other keys at the same address are not burnt."""
    scene = Scene((*connections(*"abc"), elsewhere("z")), verdicts=[server_fault(kind=kind)])
    assert scene.play(scene.call(), make_answer(status), raw(status))[:-1] == ["a", "a", "a", "z"]


def test_a24_a_gateway_that_gives_up_waiting_is_left_before_it_is_tried_again() -> None:
    """A24: 504 means slow for everybody there; another address comes first, the budget is spent where nothing is left."""
    verdict = make_verdict("timeout", scope="provider", status=504, retry_same=True)
    scene = Scene((*connections(*"abc"), elsewhere("z")), verdicts=[verdict])
    assert scene.play(scene.call(), make_answer(504), raw(504))[:-1] == ["a", "z", "z", "z"]


@pytest.mark.parametrize(
    ("status", "phase", "kind"),
    [
        (529, "body", "overloaded"),
        (505, "body", "server_error"),
        (500, "stream", "server_error"),
        (500, "body", "forbidden"),
    ],
)
def test_a24_what_may_be_one_keys_trouble_lets_the_other_keys_try(status: int, phase: Any, kind: str) -> None:
    scene = Scene(connections(*"abc"), verdicts=[server_fault(kind=kind, retry_same=False)])
    assert scene.play(scene.call(), make_answer(status, phase=phase), raw(status))[:-1] == ["a", "b", "c"]


def test_what_we_found_wrong_ourselves_goes_elsewhere_at_once_and_blames_no_address() -> None:
    """An empty or cut 200 says nothing about the other keys of the provider."""
    scene = Scene(connections("a", "b"), verdicts=[server_fault()])
    assert scene.play(scene.call(), make_answer(502, fault="empty"), raw(502))[:-1] == ["a", "b"]


def test_a21_a_body_that_is_too_large_for_one_key_is_too_large_for_all_at_that_address() -> None:
    """A21."""
    verdict = make_verdict("payload_too_large", scope="request", status=413)
    scene = Scene((*connections("a", "b"), elsewhere("z")), verdicts=[verdict])
    assert scene.play(scene.call(), make_answer(413), raw(413)) == ["a", "z", "413"]


def test_a24_an_origin_is_scheme_host_and_port() -> None:
    scene = Scene(connections("a"), {"retries_in_place": 0}, verdicts=[server_fault()])
    urls = ["https://h/1", "https://h/2", "http://h/1", "https://h:8443/1", "https://g/1"]
    scene.plug(resolve=lambda targets: [make_target(str(i), url=url) for i, url in enumerate(urls)])
    assert scene.play(scene.call(), make_answer(500), raw(500))[:-1] == ["0", "2", "3", "4"]


def test_a21_the_requests_own_fault_ends_the_call_at_once() -> None:
    """A21: forwarded once, no state is told, and the client reads the provider's own bytes."""
    scene = Scene(connections(*"abc"), verdicts=[bad_request()])
    ex = scene.call()
    scene.plug(wait=lambda: 1.0)
    scene.send(ex)
    body = b'{"error": {"message": "malformed"}} \xff'
    scene.engine.failed(ex, make_answer(400, body), raw(400, body, headers(content_type="application/json")))
    reply = scene.engine.advance(ex)
    assert isinstance(reply, Reply)
    assert (reply.status, reply.body, reply.attempt) == (400, body, 1)
    assert scene.heard == []


def test_a_failure_is_learnt_by_everybody_unless_it_is_the_requests_own() -> None:
    scene = Scene(connections("a", "b"), verdicts=[LIMIT, make_verdict("content_policy", scope="request")])
    ex = scene.call()
    scene.send(ex)
    scene.clock.advance(2)
    scene.engine.failed(ex, make_answer(), raw())
    scene.send(ex)
    scene.engine.failed(ex, make_answer(), raw())
    assert scene.heard == [("failed", "rate_limit", START + 2)]
    assert [s.ended_at for s in ex.stories] == [START + 2] * 2


def test_a_story_keeps_no_body() -> None:
    scene = Scene(connections("a"), verdicts=[LIMIT])
    ex = scene.call()
    scene.send(ex)
    scene.engine.failed(ex, make_answer(429, b"a long story"), raw())
    assert ex.stories[0].answer == make_answer(429)


def test_a_failed_attempt_is_logged_with_what_a_person_greps_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(connections("a"), verdicts=[LIMIT])
    ex = scene.call()
    scene.send(ex)
    scene.engine.failed(ex, NETWORK, None)
    wanted = "provider=openai model=gpt-5.4 connection=a attempt=1 status=connect_failed kind=rate_limit"
    assert f"attempt failed: {wanted} scope=connection rule=test" in caplog.text


# ---------------------------------------------------------------- in place (A07)


def test_a07_an_overload_is_tried_in_place_first_and_then_elsewhere() -> None:
    """A07: two tries in place, then the next connection; the budget is one for the whole call."""
    scene = Scene(connections("a", "b"), verdicts=[overloaded()])
    ex = scene.call()
    assert scene.play(ex, make_answer(529), raw(529))[:-1] == ["a", "a", "a", "b"]
    assert [s.attempt.tries for s in ex.stories] == [1, 2, 3, 1]
    assert [s.attempt.number for s in ex.stories] == [1, 2, 3, 4]


@pytest.mark.parametrize(("chance", "pauses"), [(0.0, [0.25, 0.5, 1.0, 1.0]), (0.999, [0.5, 1.0, 2.0, 2.0])])
def test_a07_the_pause_doubles_to_its_bound_and_half_of_it_is_chance(chance: float, pauses: list[float]) -> None:
    """A07: jitter lies between half of the step and the whole step."""
    settings = {"retries_in_place": 4, "retry_pause_ms": 500, "retry_pause_max_ms": 2000}
    scene = Scene(connections("a"), settings, verdicts=[overloaded()])
    scene.clock.chance = chance
    ex = scene.call()
    seen = []
    for _ in pauses:
        scene.send(ex)
        scene.engine.failed(ex, make_answer(529), raw(529))
        step = scene.engine.advance(ex)
        assert isinstance(step, Pause) and step.permit is None
        seen.append(step.seconds)
    assert seen == pytest.approx(pauses, rel=0.01)


def test_a07_a_short_retry_after_is_waited_for_in_place_and_never_shortened() -> None:
    scene = Scene(connections("a", "b"), verdicts=[overloaded(retry_after=wait_for(8.0))])
    ex = scene.call()
    scene.send(ex)
    scene.engine.failed(ex, make_answer(529), raw(529))
    step = scene.engine.advance(ex)
    assert isinstance(step, Pause) and 8.0 <= step.seconds <= 8.25


def test_a07_a_retry_after_longer_than_the_longest_pause_is_not_waited_for_in_place() -> None:
    scene = Scene(connections("a", "b"), verdicts=[overloaded(retry_after=wait_for(8.001))])
    assert scene.play(scene.call(), make_answer(529), raw(529))[:-1] == ["a", "b"]


def test_no_budget_no_try_in_place() -> None:
    scene = Scene(connections("a"), {"retries_in_place": 0}, verdicts=[overloaded()])
    assert scene.play(scene.call(), make_answer(529), raw(529))[:-1] == ["a"]


def test_an_error_inside_a_stream_is_not_tried_in_place() -> None:
    scene = Scene(connections("a", "b"), verdicts=[overloaded()])
    assert scene.play(scene.call(), make_answer(200, phase="stream"), raw(529))[:-1] == ["a", "b"]


@pytest.mark.parametrize("kind", ["network", "timeout"])
def test_a_dead_address_is_left_first_and_tried_again_only_when_nothing_else_is_left(kind: str) -> None:
    scene = Scene(connections("a", "b"), verdicts=[make_verdict(kind, scope="provider", status=502, retry_same=True)])
    ex = scene.call()
    assert scene.play(ex, NETWORK)[:-1] == ["a", "b", "b", "b"]
    assert scene.clock.now() > START + 0.25 + 0.5


def test_a_declared_wait_holds_for_a_slow_gateway_too() -> None:
    """A 504 with `Retry-After: 60` is not tried again half a second later."""
    verdict = make_verdict("timeout", status=504, retry_same=True, retry_after=wait_for(60))
    scene = Scene(connections("a"), verdicts=[verdict])
    assert scene.play(scene.call(), make_answer(504), raw(504))[:-1] == ["a"]


def test_what_the_last_verdict_says_decides_about_the_last_try() -> None:
    scene = Scene(connections("a", "b"), verdicts=[make_verdict("network", scope="provider"), LIMIT])
    assert scene.play(scene.call(), NETWORK)[:-1] == ["a", "b"]


# ---------------------------------------------------------------- exclude, own credential, order


def test_an_excluded_connection_is_not_asked_while_another_is_free() -> None:
    scene = Scene(connections("a", "b", "c"), verdicts=[LIMIT])
    scene.plug(exclude=lambda targets: [make_exclusion(t) for t in targets if t.connection.id == "a"])
    scene.plug(exclude=lambda targets: [make_exclusion(t) for t in targets if t.connection.id == "b"])
    assert scene.play(scene.call(), raw=raw())[:-1] == ["c"]


def test_exclusions_are_asked_for_again_before_every_choice_and_of_what_is_left() -> None:
    scene, seen = Scene(connections("a", "b"), verdicts=[LIMIT]), []

    def exclude(targets: Any, now: float) -> None:
        seen.append(([t.connection.id for t in targets], now))
        scene.clock.advance(1)

    scene.plug(exclude=exclude)
    scene.play(scene.call(), raw=raw())
    assert seen == [(["a", "b"], START), (["b"], START + 1)]


def test_a_fault_of_one_plugin_excludes_nothing() -> None:
    scene = Scene(connections("a"))
    scene.plug(exclude=lambda: 1 / 0)
    assert scene.send(scene.call()).attempt.target.connection.id == "a"


def test_rule_4_the_own_credential_is_sent_when_all_else_is_excluded_whatever_a_timer_says() -> None:
    """`spec/README.md`, rule 4."""
    scene = Scene(connections("a"), {"own_credential": "last"}, verdicts=[LIMIT])
    scene.plug(exclude=lambda targets: [make_exclusion(t, until=START + 1e6) for t in targets])
    asked = scene.play(scene.call(), raw=raw())
    assert len(asked) == 2 and asked[0].startswith("client:")


def test_rule_4_an_excluded_own_credential_gives_way_to_a_free_connection() -> None:
    scene = Scene(connections("a"), {"own_credential": "first"})
    scene.plug(exclude=lambda targets: [make_exclusion(t) for t in targets if t.connection.own])
    assert scene.send(scene.call()).attempt.target.connection.id == "a"


def test_a_pool_that_rests_is_refused_locally_with_its_earliest_end() -> None:
    scene = Scene(connections("a", "b"))
    until = {"a": START + 90.5, "b": START + 30.2}
    scene.plug(exclude=lambda targets: [make_exclusion(t, until=until[t.connection.id]) for t in targets])
    reply = scene.reply(scene.call())
    assert (reply.status, as_mapping(reply.headers)["retry-after"]) == (429, "31")
    assert b"all_targets_cooling_down" in reply.body


def test_a_plugin_orders_and_is_not_asked_for_one() -> None:
    scene, seen = Scene(connections("a", "b", "c"), verdicts=[LIMIT]), []

    def order(call: Any, targets: Any, now: float) -> Any:
        seen.append([t.connection.id for t in targets])
        return targets[::-1]

    scene.plug(order=order)
    assert scene.play(scene.call(), raw=raw())[:-1] == ["c", "b", "a"]
    assert seen == [["a", "b", "c"], ["a", "b"]]


@pytest.mark.parametrize(
    "order", [lambda targets: [make_target("foreign")], lambda targets: [], lambda targets: None, lambda: 1 / 0]
)
def test_an_order_without_a_usable_target_is_no_order(order: Any) -> None:
    scene = Scene(connections("a", "b"))
    scene.plug(order=order)
    assert scene.send(scene.call()).attempt.target.connection.id == "a"


def test_an_order_may_not_bring_in_what_is_excluded_or_foreign() -> None:
    scene, everything = Scene(connections("a", "b", "c")), []
    scene.plug(
        resolve=lambda targets: [*everything] if everything.extend(targets) else None,
        exclude=lambda targets: [make_exclusion(t) for t in targets if t.connection.id == "a"],
        order=lambda targets: [make_target("foreign"), everything[0], everything[2]],
    )
    assert scene.send(scene.call()).attempt.target.connection.id == "c"


def test_what_an_order_forgets_is_still_tried() -> None:
    scene = Scene(connections("a", "b", "c"), verdicts=[LIMIT])
    scene.plug(order=lambda targets: [t for t in targets if t.connection.id == "c"])
    assert scene.play(scene.call(), raw=raw())[:-1] == ["c", "a", "b"]


# ---------------------------------------------------------------- security


def test_without_verified_tls_no_configured_credential_leaves() -> None:
    """`design.md` §7.4: only to this machine, with the operator's consent, or the client's own."""
    pool = (
        *connections("far"),
        make_connection("near", base_url="http://127.0.0.1:9"),
        make_connection("allowed", allow_insecure=True),
    )
    scene = Scene(pool, {"own_credential": "last"}, verdicts=[LIMIT])
    scene.engine.verified_tls = False
    ex = scene.call()
    asked = scene.play(ex, raw=raw())[:-1]
    assert asked[:2] == ["near", "allowed"] and asked[2].startswith("client:") and len(asked) == 3
    assert [(e.target.connection.id, e.label) for e in ex.exclusions] == [("far", "unverified_tls")]
    assert "allow_insecure" in ex.exclusions[0].detail


def test_without_verified_tls_a_pool_alone_is_refused_with_the_reason() -> None:
    scene = Scene(connections("a"))
    scene.engine.verified_tls = False
    assert b"ssl_insecure is on" in scene.reply(scene.call()).body


# ---------------------------------------------------------------- admit


class Bare:
    """An awaitable and nothing else."""

    def __await__(self) -> Iterator[None]:
        yield from ()


class Permit(Bare):
    """A task that remembers how often it was let go."""

    def __init__(self) -> None:
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1


def test_a_permit_is_waited_for_before_the_target_is_sent() -> None:
    scene, permits = Scene(connections("a")), [Permit(), Permit()]
    scene.plug(admit=lambda target: permits[1])
    scene.plug(admit=lambda target: permits[0])
    scene.plug(admit=lambda target: None)
    ex = scene.call()
    assert scene.engine.advance(ex) == Pause(permit=permits[0])  # type: ignore[arg-type]
    assert scene.engine.advance(ex) == Pause(permit=permits[1])  # type: ignore[arg-type]
    assert isinstance(scene.engine.advance(ex), Send)


def test_a_target_without_its_permit_is_passed_by_and_named() -> None:
    scene, asked = Scene(connections("a", "b", "c"), verdicts=[LIMIT]), []

    def admit(target: Target) -> Any:
        asked.append(target.connection.id)
        return None if target.connection.id == "c" else Permit()

    scene.plug(admit=admit)
    ex = scene.call()
    for _ in "ab":
        assert isinstance(scene.engine.advance(ex), Pause)
        scene.engine.not_admitted(ex, "queue is full")
    assert scene.send(ex).attempt.target.connection.id == "c"
    assert asked == ["a", "b", "c"]
    named = [(e.target.connection.id, e.label, e.detail) for e in ex.exclusions]
    assert named == [("a", "not_admitted", "queue is full"), ("b", "not_admitted", "queue is full")]


async def _queue() -> None:
    return None


@pytest.mark.parametrize("end", ["refused", "finished"])
@pytest.mark.filterwarnings("error")
def test_permits_that_nobody_waits_for_are_let_go(end: str) -> None:
    """A queue would else hand its place to a request that has moved on (`A27`: no leak of permits)."""
    scene, task = Scene(connections("a")), Permit()
    waiting = [_queue(), Bare(), task, Permit()]
    for permit in waiting:
        scene.plug(admit=lambda permit=permit: permit)
    ex = scene.call()
    assert scene.engine.advance(ex) == Pause(permit=waiting[-1])  # type: ignore[arg-type]
    if end == "refused":
        scene.engine.not_admitted(ex, "full")
    else:
        scene.engine.finish(ex, status=0, good=False)
    assert (task.cancelled, ex.permits) == (1, [])


def test_a_refusal_that_comes_too_late_changes_nothing() -> None:
    scene = Scene(connections("a", "b"))
    ex = scene.call()
    scene.engine.not_admitted(ex, "late")
    assert scene.send(ex).attempt.target.connection.id == "a"


# ---------------------------------------------------------------- prepare


def test_a_plugin_sets_replaces_and_deletes_headers_of_the_copy_and_sees_no_credential() -> None:
    scene, seen = Scene(connections("a")), {}

    def prepare(headers: dict[str, str]) -> None:
        seen.update(headers)
        headers["X-Team"] = "research"
        headers["x-old"] = "new"
        del headers["x-gone"]
        headers.update({"host": "evil", "Content-Length": "7", "connection": "x", "transfer-encoding": "chunked"})
        headers["content-encoding"] = "gzip"

    scene.plug(prepare=prepare)
    fields = headers(authorization="Bearer sk-client", x_old="old", x_gone="1", x_kept="2")
    sent = sent_headers(scene.send(scene.call(headers=fields)))
    assert seen == {"x-old": "old", "x-gone": "1", "x-kept": "2"}
    assert (sent["x-team"], sent["x-old"], sent["x-kept"]) == ("research", "new", "2")
    assert "x-gone" not in sent and "connection" not in sent and "content-encoding" not in sent
    assert (sent["host"], sent["content-length"], sent["authorization"]) == (
        "api.openai.com",
        str(len(BODY)),
        "Bearer sk-a",
    )


def test_a_fault_in_prepare_changes_nothing() -> None:
    scene = Scene(connections("a"))
    scene.plug(prepare=lambda headers: 1 / 0)
    assert sent_headers(scene.send(scene.call()))["content-type"] == "application/json"


def test_the_body_goes_as_the_clients_own_object_while_nothing_had_to_change() -> None:
    scene = Scene(connections("a"))
    ex = scene.call()
    assert scene.send(ex).outgoing.body is ex.incoming.body


def test_another_model_name_changes_nothing_else_of_the_body() -> None:
    scene = Scene((make_connection("a", rename={"gpt-5.4": "my-gpt"}),))
    assert scene.send(scene.call()).outgoing.body == BODY.replace(b"gpt-5.4", b"my-gpt")


def test_a_model_that_only_the_path_names_is_written_into_the_body() -> None:
    """Azure's older door."""
    scene = Scene(connections("a"))
    ex = scene.call()
    ex.model_in_path = True
    ex.body = b'{"messages": []}'
    assert b'"gpt-5.4"' in scene.send(ex).outgoing.body


def test_a_coded_body_goes_plain_to_a_connection_and_as_it_came_to_the_own_credential() -> None:
    coded = gzip.compress(BODY)
    fields = headers(authorization="Bearer sk-client", content_encoding="gzip")
    scene = Scene(connections("a"), {"own_credential": "last"}, verdicts=[LIMIT])
    ex = scene.call(headers=fields, body=coded)
    pool = scene.send(ex)
    assert pool.outgoing.body == BODY and "content-encoding" not in sent_headers(pool)
    scene.engine.failed(ex, make_answer(), raw())
    own = scene.send(ex)
    assert own.outgoing.body is coded and sent_headers(own)["content-encoding"] == "gzip"


# ---------------------------------------------------------------- alternatives and the watch


def test_a_send_says_whether_something_else_could_be_tried() -> None:
    """Rule 4: deadlines end an attempt only then."""
    scene = Scene(connections("a", "b", "c"), verdicts=[LIMIT])
    scene.plug(exclude=lambda targets: [make_exclusion(t) for t in targets if t.connection.id == "c"])
    ex = scene.call()
    assert scene.send(ex).alternatives
    scene.engine.failed(ex, make_answer(), raw())
    assert not scene.send(ex).alternatives


def test_the_watch_knows_the_attempts_deadlines() -> None:
    scene = Scene(connections("a", "b"), {"deadline_ms": 5_000})
    ex = scene.call()
    scene.clock.advance(1)
    watch = scene.engine.watch(ex, scene.send(ex))
    deadlines = watch.deadlines
    assert (deadlines.started_at, deadlines.call_deadline_at) == (START + 1, START + 5)
    assert (deadlines.alternatives, deadlines.call, watch.dialect) == (True, ex.call, ex.dialect)
    assert deadlines.settings is scene.core.config.settings


def trusted(scene: Scene, ex: Exchange | None = None) -> bool:
    ex = ex or scene.call()
    return scene.engine.watch(ex, scene.send(ex)).trusted


def test_st_63_only_the_providers_own_door_over_verified_tls_is_trusted() -> None:
    """ST-63."""
    assert trusted(Scene(connections("a")))
    assert trusted(Scene())  # the own credential, at the provider's own name
    assert not trusted(Scene((elsewhere("a"),)))
    assert not trusted(Scene((make_connection("a", base_url="http://api.openai.com"),)))
    assert not trusted(Scene(connections("a"), providers=(make_provider(traits=frozenset({"passthrough_models"})),)))
    insecure = Scene(connections("a", allow_insecure=True))
    insecure.engine.verified_tls = False
    assert not trusted(insecure)


def test_st_63_in_transparent_mode_the_name_counts_not_the_address() -> None:
    """ST-63: the client's own credential at the provider's own name, dialled by address."""
    scene = Scene()
    assert trusted(scene, scene.call(host="203.0.113.5"))


def test_st_63_a_connection_at_another_providers_door_or_of_a_lost_provider_is_not_trusted() -> None:
    """ST-63."""
    other = make_provider("other")
    scene = Scene(connections("a"), providers=(make_provider(), other))
    scene.plug(resolve=lambda targets: [replace(targets[0], url=f"https://api.other.com{PATH}")])
    assert not trusted(scene)
    lost = Scene(connections("a"))
    ex = lost.call()
    lost.core.packs = replace(lost.core.packs, providers={})  # type: ignore[type-var]
    assert not trusted(lost, ex)


# ---------------------------------------------------------------- deadline and waiting


def test_the_deadline_over_all_attempts_ends_the_rotation() -> None:
    scene = Scene(connections("a", "b", "c"), {"deadline_ms": 10_000}, verdicts=[LIMIT])
    ex = scene.call()
    scene.send(ex)
    scene.clock.advance(9.999)
    scene.engine.failed(ex, make_answer(), raw())
    assert scene.send(ex).attempt.target.connection.id == "b"
    scene.clock.advance(0.001)
    scene.engine.failed(ex, make_answer(), raw())
    assert isinstance(scene.engine.advance(ex), Reply)


def test_the_first_attempt_is_made_however_late_it_is() -> None:
    scene = Scene(connections("a"), {"deadline_ms": 10_000})
    ex = scene.call()
    scene.clock.advance(60)
    assert isinstance(scene.engine.advance(ex), Send)


def test_a_try_in_place_after_the_deadline_is_not_made() -> None:
    scene = Scene(connections("a"), {"deadline_ms": 1_000}, verdicts=[overloaded()])
    ex = scene.call()
    scene.send(ex)
    scene.engine.failed(ex, make_answer(529), raw(529))
    assert isinstance(scene.engine.advance(ex), Pause)
    scene.clock.advance(1)
    assert isinstance(scene.engine.advance(ex), Reply)


def resting(scene: Scene, until: float) -> None:
    """Every target is excluded until then."""
    scene.plug(exclude=lambda targets, now: [make_exclusion(t, until=until) for t in targets if now < until])


def test_a_plugin_may_wait_for_a_target_to_come_back() -> None:
    scene, seen = Scene(connections("a")), []
    resting(scene, START + 3)

    def wait(call: Any, exclusions: Any, now: float) -> float:
        seen.append([e.label for e in exclusions])
        return float(exclusions[0].until - now)

    scene.plug(wait=wait)
    ex = scene.call()
    assert isinstance(scene.next(ex), Send)
    assert (scene.clock.now(), seen) == (START + 3, [["connection_cooldown"]])


@pytest.mark.parametrize(("asked", "given"), [(1e9, 10.0), (-5, 0.0), (2, 2.0)])
def test_a_wait_is_bounded_by_the_deadline_over_all_attempts(asked: float, given: float) -> None:
    scene = Scene(connections("a"), {"deadline_ms": 10_000})
    resting(scene, START + 1e9)
    scene.plug(wait=lambda: asked)
    ex = scene.call()
    scene.engine.advance(ex)
    assert ex.waited == [given]


def test_a_plugin_that_always_says_in_no_time_does_not_spin_for_ever() -> None:
    scene, waits = Scene(connections("a")), []
    resting(scene, START + 1e9)
    scene.plug(wait=lambda: waits.append(1) or 0.0)
    assert scene.reply(scene.call()).status == 429
    assert len(waits) == 100


def test_after_the_deadline_nothing_is_waited_for() -> None:
    scene = Scene(connections("a"), {"deadline_ms": 10_000})
    resting(scene, START + 1e9)
    scene.plug(wait=lambda: 4.0)
    ex = scene.call()
    assert scene.reply(ex).status == 429
    assert (scene.clock.now(), ex.waited) == (START + 10, [4.0, 4.0, 2.0])


def test_a_plugin_that_waits_for_nothing_gives_up() -> None:
    scene = Scene(connections("a"))
    resting(scene, START + 5)
    scene.plug(wait=lambda: None)
    assert isinstance(scene.engine.advance(scene.call()), Reply)


# ---------------------------------------------------------------- stale, restate, classify


def test_a_connection_that_was_closed_meanwhile_is_nobodys_failure() -> None:
    scene = Scene(connections("a", "b"))
    ex = scene.call()
    scene.send(ex)
    scene.engine.stale(ex)
    again = scene.engine.advance(ex)
    assert isinstance(again, Send)
    assert (again.attempt.target.connection.id, again.attempt.number, ex.stories) == ("a", 2, [])
    assert scene.heard == []


def test_a_restatement_is_what_the_verdict_is_made_from() -> None:
    """SR-2, FC-1: restate runs first, once, and classify is given what it said."""
    told = Restatement(from_status=403, status=429, retry_after_s=60, rule=RuleRef(id="lie"))
    scene, seen = Scene(connections("a")), []

    def classify(call: Any, target: Any, answer: Any, restatement: Any, now: float) -> Any:
        seen.append((target.connection.id, answer.status, restatement, now))
        return make_verdict(status=restatement.status, restatement=restatement)

    scene.plug(restate=lambda call, target, answer: told, classify=classify)
    ex = scene.call()
    scene.send(ex)
    verdict = scene.engine.failed(ex, make_answer(403), raw(403))
    assert seen == [("a", 403, told, START)] and verdict.restatement is told


@pytest.mark.parametrize(
    ("status", "kind", "shown", "other", "same", "breaker"),
    [
        (0, "network", 502, True, False, True),
        (302, "invalid_request", 502, False, False, False),
        (400, "invalid_request", 400, False, False, False),
        (401, "invalid_request", 401, True, False, False),
        (402, "invalid_request", 402, True, False, False),
        (403, "invalid_request", 403, True, False, False),
        (404, "invalid_request", 404, True, False, False),
        (408, "invalid_request", 408, True, False, False),
        (413, "invalid_request", 413, False, False, False),
        (422, "invalid_request", 422, False, False, False),
        (429, "rate_limit", 429, True, False, False),
        (500, "server_error", 500, True, True, True),
        (503, "server_error", 503, True, True, True),
        (529, "server_error", 529, True, True, False),
    ],
)
def test_without_rules_the_status_alone_decides_carefully(
    status: int, kind: str, shown: int, other: bool, same: bool, breaker: bool
) -> None:
    """`style.md` §6: deleting every plugin leaves a working proxy, which then blames nobody."""
    scene = Scene(connections("a"))
    ex = scene.call()
    scene.send(ex)
    verdict = scene.engine.failed(ex, make_answer(status), None)
    assert (verdict.kind, verdict.status, verdict.retry_other) == (kind, shown, other)
    assert (verdict.retry_same, verdict.breaker, verdict.scope, verdict.terminal) == (same, breaker, "request", False)
    assert scene.heard == [] and verdict.rule.id == "status-only"


# ---------------------------------------------------------------- repair


def test_a29_a_request_that_only_this_account_refuses_is_repaired_once() -> None:
    """A29: the same target gets the repaired body; if that fails too, nothing is repaired again."""
    repair = bad_request(repair="signed_reasoning")
    scene, seen = Scene(connections("a", "b"), verdicts=[repair]), []

    def mend(call: Any, target: Target, verdict: Any, body: bytes) -> bytes:
        seen.append((target.connection.id, verdict, body))
        return b'{"model": "gpt-5.4", "repaired": 1}'

    scene.plug(repair=mend)
    ex = scene.call()
    assert scene.play(ex, make_answer(400), raw(400)) == ["a", "a", "400"]
    assert seen == [("a", repair, BODY)]
    assert [s.attempt.tries for s in ex.stories] == [1, 2]


@pytest.mark.parametrize("own", ["never", "first"])
def test_a29_the_repaired_body_is_what_goes_on_the_wire(own: str) -> None:
    """A29: also to the client's own credential, and never under the coding of what the client sent."""
    scene = Scene(connections("a"), {"own_credential": own}, verdicts=[bad_request(repair="signed_reasoning")])
    scene.plug(repair=lambda: b"{}")
    ex = scene.call(body=gzip.compress(BODY), headers=headers(content_encoding="gzip"))
    scene.send(ex)
    scene.engine.failed(ex, make_answer(400), raw(400))
    step = scene.send(ex)
    assert (step.outgoing.body, step.attempt.tries) == (b"{}", 2)
    assert "content-encoding" not in sent_headers(step)


def test_a29_without_a_plugin_that_can_repair_the_failure_stands() -> None:
    """A29."""
    scene = Scene(connections("a", "b"), verdicts=[bad_request(repair="signed_reasoning")])
    scene.plug(repair=lambda: None)
    assert scene.play(scene.call(), make_answer(400), raw(400)) == ["a", "400"]
    scene = Scene(connections("a"), verdicts=[bad_request()])
    scene.plug(repair=lambda: b"{}")
    assert scene.play(scene.call(), make_answer(400), raw(400)) == ["a", "400"]


def test_an_answer_that_quotes_a_configured_key_is_cleaned_before_anybody_reads_it() -> None:
    seen: list[bytes] = []
    scene = Scene(connections("a"))
    scene.plug(classify=lambda answer: seen.append(answer.body))
    ex = scene.call()
    scene.send(ex)
    scene.engine.failed(ex, make_answer(429, b"bad key sk-a"), raw(429, b"bad key sk-a"))
    scene.engine.failed_after_commit(ex, make_answer(0, b"bad key sk-a"))
    assert b"sk-a" not in b"".join(seen) and b"sk-a" not in ex.raw[1].body


# ---------------------------------------------------------------- after commit, finish


def test_st_35_what_breaks_after_commit_is_recorded_and_decides_nothing() -> None:
    """ST-35."""
    scene = Scene(connections("a"), verdicts=[LIMIT])
    ex = scene.call()
    scene.send(ex)
    verdict = scene.engine.failed_after_commit(ex, make_answer(200, b"data: {}", phase="stream"))
    assert verdict is LIMIT
    assert scene.heard == [("failed", "rate_limit", START)]
    assert (len(ex.stories), ex.spent, ex.final, ex.last_verdict) == (1, set(), False, None)


@pytest.mark.parametrize("good", [True, False])
def test_st_124_a_request_is_finished_exactly_once(good: bool) -> None:
    """ST-124."""
    scene = Scene(connections("a"))
    ex = scene.call()
    scene.send(ex)
    scene.clock.advance(2)
    for status in (200, 0, 502):
        scene.engine.finish(ex, status=status, good=good)
    success = [("succeeded", 1, START + 2)] if good else []
    assert scene.heard == [*success, ("finish", 0, 200, START + 2)]
    assert (ex.finished, ex.status) == (True, 200)


def test_st_126_a_client_that_leaves_before_an_attempt_is_nobodys_failure_or_success() -> None:
    """ST-126, FC-4."""
    scene = Scene(connections("a"))
    scene.engine.finish(scene.call(), status=0, good=True)
    assert scene.heard == [("finish", 0, 0, START)]


def test_a_reload_changes_the_figures_of_the_next_step() -> None:
    scene = Scene(connections("a"), {"retries_in_place": 0}, verdicts=[overloaded()])
    ex = scene.call()
    scene.core.config = Config(settings=Settings(retries_in_place=1))
    assert scene.play(ex, make_answer(529), raw(529))[:-1] == ["a", "a"]


def test_exclusions_of_a_plugin_name_targets_of_this_call_or_mean_nothing() -> None:
    scene = Scene(connections("a"))
    scene.plug(exclude=lambda targets: [Exclusion(target=make_target("foreign"), label="x")])
    assert scene.send(scene.call()).attempt.target.connection.id == "a"


def test_an_origin_is_the_same_with_and_without_its_usual_port() -> None:
    """A24: the client's own URL names the port, a pool's does not."""
    own, pool = (make_target(url=url) for url in ("https://h.example:443/a", "https://h.example/b"))
    assert origin(own) == origin(pool) == ("https", "h.example", 443)
    assert origin(make_target(url="http://h.example/")) == ("http", "h.example", 80)


# ---------------------------------------------------------------- the client program


def _robots() -> ClientBook:
    text = "{id: robot, when: {user_agent: robot/*}, session: {headers: [x-run]}, side_paths: [/v1/chat/completions]}"
    calm = "{id: calm, when: {user_agent: calm/*}, session: {headers: [x-run]}}"
    sources = [read_profile(t.encode(), file="x.yaml")[0] for t in (text, calm)]
    return build_clients([[s for s in sources if s]])[0]


def test_the_client_program_is_recognised_and_seen_by_plugins() -> None:
    scene = Scene()
    scene.core.clients = _robots()
    ex = scene.engine.identify(
        scene.request(headers=headers(user_agent="calm/1", x_run="r-1")),
        host="api.openai.com",
        peer=None,
        trusted=True,
        agent="me",
    )
    assert ex is not None
    assert (ex.profile.id, ex.call.client_profile, ex.call.session, ex.call.agent) == (
        "calm",
        "calm",
        "header:r-1",
        "me",
    )
    assert (scene.call().profile.id, scene.call().call.client_profile) == ("default", "default")


def test_a_plugin_may_choose_the_profile() -> None:
    scene = Scene()
    scene.core.clients = _robots()
    scene.plug(identify=lambda call: replace(call, client_profile="calm"))
    assert scene.call().profile.id == "calm"


def test_a_side_path_of_a_client_is_never_ours() -> None:
    scene = Scene()
    scene.core.clients = _robots()
    incoming = scene.request(headers=headers(user_agent="robot/1"))
    assert scene.engine.identify(incoming, host="api.openai.com", peer=None, trusted=True) is None
