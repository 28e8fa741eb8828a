"""A connection that failed rests, for as long as it should, and comes back by itself; one that is out waits for a person."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.errors import NotAdmitted
from omniroute_addon.model import Kind, ResetOrder, RetryAfter, RuleRef, Story, Target
from omniroute_addon.settings import Settings
from omniroute_addon.store import Store
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.store.sqlite import opened
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_connection,
    make_provider,
    make_secret,
    make_story,
    make_target,
    make_verdict,
)
from omniroute_addon.testing.clock import ManualClock

A, B = make_target("a"), make_target("b")
ACCOUNT = make_target(make_connection("o", provider="anthropic"))
OWN = make_target(make_connection("client:1", own=True))
OWN_RULE, SHARED_RULE = RuleRef(id="r", file="rules/openai.yaml"), RuleRef(id="r", file="rules/_generic.yaml")
CALL = make_call()


class Proxy:
    """One plugin with a clock in the test's hand; time is seconds since the start."""

    def __init__(
        self, *, store: Store | None = None, targets: tuple[Target, ...] = (A, B, ACCOUNT), **settings: Any
    ) -> None:
        self.clock = ManualClock()
        self.start = self.clock.time
        self.core = Core(
            config=self.config(targets, settings),
            packs=SimpleNamespace(  # type: ignore[arg-type]
                providers={
                    "openai": make_provider(),
                    "anthropic": make_provider("anthropic", category="oauth"),
                    "opencode-go": make_provider("opencode-go", traits=frozenset({"passthrough_models"})),
                }
            ),
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=store or MemoryStore(),
        )
        self.plugin = ConnectionCooldown()
        self.plugin.start(core=self.core)

    @staticmethod
    def config(targets: tuple[Target, ...], settings: dict[str, Any]) -> Config:
        connections = tuple(t.connection for t in targets)
        return Config(connections=connections, settings=Settings.model_validate(settings))

    def reload(self, *targets: Target, **settings: Any) -> None:
        self.core.config = self.config(targets, settings)
        self.plugin.start(core=self.core)

    @property
    def now(self) -> float:
        return self.clock.time

    def at(self, seconds: float) -> None:
        self.clock.set(self.start + seconds)

    def reset(self, *connections: str, part: Any = "connection", **order: Any) -> list[str | None]:
        """Whom it cleared."""
        named = frozenset(connections) if connections else None
        return [c.connection for c in self.plugin.reset(ResetOrder(part=part, connections=named, **order))]

    def excluded(self, *targets: Target) -> list[tuple[str, str, float | None]]:
        found = self.plugin.exclude(targets=targets or (A,), now=self.now)
        return [(e.target.connection.id, e.label, e.until and round(e.until - self.start, 3)) for e in found]

    def story(
        self,
        kind: str = "rate_limit",
        *,
        to: Target = A,
        wait_s: float | None = None,
        status: int = 429,
        fault: Any = None,
        **verdict: Any,
    ) -> Story:
        hint = RetryAfter(seconds=wait_s, source="header:retry-after") if wait_s is not None else None
        return make_story(
            make_attempt(to, started_at=self.now),
            answer=make_answer(0 if kind == "network" else status, fault=fault),
            verdict=make_verdict(kind, **{"retry_after": hint, "status": status, "rule": SHARED_RULE, **verdict}),
            ended_at=self.now,
        )

    def fail(self, kind: str = "rate_limit", **more: Any) -> None:
        self.plugin.failed(call=CALL, story=self.story(kind, **more), now=self.now)

    def succeed(self, to: Target = A, *, began: float | None = None, call: Any = CALL) -> None:
        started_at = self.now if began is None else self.start + began
        self.plugin.succeeded(call=call, attempt=make_attempt(to, started_at=started_at), now=self.now)

    def refuse(self, to: Target = A) -> None:
        """The whole of a request that the upstream refused for the way of calling."""
        story = self.story("request_rejected", to=to, scope="request", status=403)
        self.plugin.finish(call=CALL, stories=[story], now=self.now)

    def rest(self, target: Target = A) -> Any:
        [found] = [r for k, r, _ in self.plugin.book.rows() if k.startswith(target.connection.id)]
        return found


# ---------------------------------------------------------------- resting


def test_excluded_exactly_while_resting() -> None:
    """CC-7, CC-8"""
    proxy = Proxy()
    proxy.fail()
    proxy.at(2.999)
    assert proxy.excluded(A, B) == [("a", "connection_cooldown", 3.0)]
    assert proxy.plugin.exclude(targets=[A], now=proxy.now)[0].detail == "rate_limit (r)"
    proxy.at(3)
    assert proxy.excluded(A, B) == []
    assert proxy.rest().status == "unavailable", "nobody wrote anything"


def test_when_all_rest_the_earliest_end_can_be_told() -> None:
    """CC-10, edge case 23"""
    proxy = Proxy()
    proxy.fail(wait_s=50)
    proxy.fail(to=B, wait_s=20)
    assert min(until or 0 for _, _, until in proxy.excluded(A, B)) == 20.0


def test_the_clients_own_credential_rests_but_is_never_out_and_never_refused() -> None:
    """`spec/README.md` rule 4"""
    proxy = Proxy()
    proxy.fail("auth_invalid", to=OWN, terminal=True, status=401)
    assert proxy.excluded(OWN) == [("client:1", "connection_cooldown", 3.0)]
    for _ in range(4):
        proxy.refuse(OWN)
    proxy.at(3)
    assert proxy.excluded(OWN) == []
    assert proxy.plugin.admit(call=CALL, target=OWN, now=proxy.now) is None


@pytest.mark.parametrize("kind", ["overloaded", "context_overflow", "model_not_found"])
def test_what_is_not_the_accounts_fault_cools_nothing(kind: Kind) -> None:
    """A07, FC-70"""
    proxy = Proxy()
    proxy.fail(kind, scope="model" if kind == "model_not_found" else "provider")
    assert proxy.excluded() == []


@pytest.mark.parametrize("kind", ["network", "timeout", "server_error"])
def test_a_dead_address_is_not_asked_again_at_once(kind: Kind) -> None:
    proxy = Proxy()
    proxy.fail(kind, scope="provider", status=502)
    assert proxy.excluded() != []


@pytest.mark.parametrize("fault", ["empty", "half_tool_call"])
def test_one_bad_turn_of_a_model_is_only_written_down(fault: str) -> None:
    """ST-72"""
    proxy = Proxy()
    proxy.fail("server_error", scope="provider", fault=fault, status=502)
    assert (proxy.excluded(), proxy.rest().code) == ([], 502)


@pytest.mark.parametrize("fault", ["timeout:idle", "timeout:readiness"])
def test_a_stalled_stream_is_written_down_and_cools_only_when_wanted(fault: str) -> None:
    """FC-10, CC-45, CC-46, CC-47"""
    proxy = Proxy()
    proxy.fail("timeout", scope="provider", fault=fault, status=504)
    assert (proxy.excluded(), proxy.rest().level) == ([], 0)
    proxy = Proxy(connection_cooldown={"stream_stall": True})
    proxy.fail("timeout", scope="provider", fault=fault, status=504)
    assert proxy.excluded() == [("a", "connection_cooldown", 3.0)]


def test_a_concurrency_limit_pauses_a_second() -> None:
    """CC-40, CC-41, CC-42: the rules have read the phrases, and a quota phrase wins there (CC-44)"""
    proxy = Proxy(connection_cooldown={"concurrency_ms": 1500})
    proxy.fail("concurrency_limited")
    assert proxy.excluded() == [("a", "connection_cooldown", 1.5)]


def test_a_hint_beyond_its_ceiling_ends_there_and_the_next_request_finds_out() -> None:
    """CC-31: the ceiling, and the re-probe at it"""
    proxy = Proxy(max_hint_ms=60_000)
    proxy.fail(wait_s=331_067)
    assert proxy.excluded() == [("a", "connection_cooldown", 60.0)]
    proxy.at(60)
    assert proxy.excluded() == []
    proxy.fail(wait_s=331_007)
    assert proxy.excluded() == [("a", "connection_cooldown", 120.0)]


def test_an_ignored_wait_of_an_oauth_account_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """CC-22, Beyond the reference"""
    proxy = Proxy()
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            proxy.fail(to=ACCOUNT, wait_s=600)
    assert proxy.excluded(ACCOUNT) == [("o", "connection_cooldown", 5.0)]
    assert sum("not used for this class" in r.message for r in caplog.records) == 1


def test_with_the_model_lockout_off_a_limit_of_a_gateway_rests_the_connection() -> None:
    gateway = make_target(make_connection("g", provider="opencode-go"))
    for off, wanted in ([], []), (["model_lockout"], [("g", "connection_cooldown", 3.0)]):
        proxy = Proxy(targets=(gateway,), plugins={"disabled": off}, egress_lock={"providers": []})
        proxy.fail(to=gateway)
        assert proxy.excluded(gateway) == wanted


# ---------------------------------------------------------------- success


def test_a_success_clears_what_failed_before_it_began() -> None:
    """CC-48, CC-49"""
    proxy = Proxy()
    proxy.at(10)
    proxy.fail()
    proxy.succeed(began=9)
    assert proxy.excluded() != []
    proxy.at(11)
    proxy.succeed()
    assert proxy.excluded() == []
    assert list(proxy.plugin.book.rows()) == [], "nothing is left, so nothing is written next time"


def test_a_success_by_another_path_clears_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """A06: a client used the very key that a connection holds"""
    proxy = Proxy()
    proxy.fail(wait_s=18_000)
    proxy.at(600)
    client = make_target(make_connection("client:k", own=True, secret=make_secret("sk-a")))
    elsewhere = make_target(make_connection("client:k", own=True, provider="groq", secret=make_secret("sk-a")))
    proxy.succeed(elsewhere)
    assert proxy.excluded() != []
    with caplog.at_level(logging.INFO):
        proxy.succeed(client)
    assert proxy.excluded() == []
    assert "connection changed: connection=a" in caplog.text


# ---------------------------------------------------------------- out


def test_a_terminal_connection_is_passed_by_without_end() -> None:
    """CC-11, CC-50"""
    proxy = Proxy()
    proxy.fail("account_banned", terminal=True, status=403)
    proxy.at(1e6)
    proxy.succeed()
    assert proxy.excluded() == [("a", "connection_terminal", None)]
    assert "account_banned" in proxy.plugin.exclude(targets=[A], now=proxy.now)[0].detail


def test_a_request_that_chose_it_before_it_was_out_goes_elsewhere() -> None:
    """CC-38"""
    proxy = Proxy()
    proxy.fail("account_banned", terminal=True, status=403)
    refused = proxy.plugin.admit(call=CALL, target=A, now=proxy.now)
    assert refused is not None
    with pytest.raises(NotAdmitted, match="banned, needs a person"):
        next(refused.__await__())


def test_three_refusals_in_a_row_ban_and_any_other_answer_ends_the_row() -> None:
    """CC-51, CC-60, CC-61, CC-62, edge case 12"""
    proxy = Proxy()
    for number in range(2):
        proxy.at(10 * number)
        proxy.refuse()
    assert proxy.excluded() == [("a", "connection_cooldown", 15.0)]
    assert proxy.rest().error_type == "rate_limit_exceeded"
    proxy.at(20)
    proxy.succeed()
    for number in (3, 4):
        proxy.at(10 * number)
        proxy.refuse()
    proxy.at(50)
    proxy.fail("network", scope="provider")
    proxy.at(60)
    proxy.refuse()
    assert proxy.excluded() == [("a", "connection_terminal", None)], "a transport failure is no answer"


@pytest.mark.parametrize("between", ["failed", "finish"])
def test_another_failure_of_the_upstream_ends_the_row_of_refusals(between: str) -> None:
    """CC-62"""
    proxy = Proxy()
    for number in range(4):
        proxy.at(10 * number)
        proxy.refuse()
        proxy.at(10 * number + 5)
        if number == 1 and between == "failed":
            proxy.fail()
        elif number == 1:
            story = proxy.story("invalid_request", scope="request", status=400)
            proxy.plugin.finish(call=CALL, stories=[story], now=proxy.now)
    assert proxy.rest().status == "unavailable"


def test_a_refusal_that_a_rule_ties_to_the_connection_counts_the_same_and_zero_never_bans() -> None:
    """CC-60"""
    proxy = Proxy(connection_cooldown={"refusals_before_ban": 0})
    for number in range(5):
        proxy.at(10 * number)
        proxy.fail("request_rejected", scope="connection", status=403)
    assert proxy.excluded() == [("a", "connection_cooldown", 45.0)]


def test_words_of_the_operator_mean_a_ban_from_the_next_answer_on() -> None:
    """CC-59, CC-66"""
    proxy = Proxy()
    proxy.fail(message="Your workspace was FROZEN today")
    assert proxy.rest().status == "unavailable"
    proxy.reload(A, B, connection_cooldown={"custom_banned_signals": ["was frozen"]})
    proxy.fail(message="Your workspace was FROZEN today")
    assert proxy.rest().status == "banned"
    proxy.fail(message="was frozen", to=OWN)
    assert not proxy.rest(OWN).terminal


def test_a_word_of_201_characters_is_refused() -> None:
    """CC-66, edge case 18"""
    for word, fits in (("x" * 200, True), ("x" * 201, False), ("", False)):
        try:
            Settings.model_validate({"connection_cooldown": {"custom_banned_signals": [word]}})
            assert fits
        except ValueError:
            assert not fits


def test_an_expired_oauth_login_gets_three_tries_by_itself_and_a_success_brings_it_back() -> None:
    """CC-71, CC-72, CC-73"""
    proxy = Proxy()
    proxy.fail("auth_invalid", to=ACCOUNT, terminal=True, status=401)
    assert proxy.excluded(ACCOUNT) == [("o", "connection_terminal", 300.0)]
    proxy.at(300)
    assert proxy.excluded(ACCOUNT) == []
    first, second = make_call(model="m1"), make_call(model="m2")
    assert proxy.plugin.admit(call=first, target=ACCOUNT, now=proxy.now) is None
    assert proxy.plugin.admit(call=second, target=ACCOUNT, now=proxy.now) is not None, "one try at a time"
    assert proxy.excluded(ACCOUNT) == [("o", "connection_terminal", 900.0)]
    proxy.plugin.failed(call=first, story=proxy.story("auth_invalid", to=ACCOUNT, terminal=True), now=proxy.now)
    proxy.succeed(ACCOUNT, call=first)
    assert proxy.rest(ACCOUNT).status == "expired", "that try had failed"
    proxy.at(900)
    assert proxy.plugin.admit(call=second, target=ACCOUNT, now=proxy.now) is None
    proxy.succeed(ACCOUNT, call=second)
    assert proxy.excluded(ACCOUNT) == []


def test_tries_survive_a_restart_and_end_for_good() -> None:
    """CC-72, edge case 14"""
    store = MemoryStore()
    proxy = Proxy(store=store)
    proxy.fail("auth_invalid", to=ACCOUNT, terminal=True, status=401)
    for at in (300, 900, 2100):
        again = Proxy(store=store)
        again.at(at)
        call = make_call()
        assert again.plugin.admit(call=call, target=ACCOUNT, now=again.now) is None
        again.plugin.finish(call=call, stories=[], now=again.now)
    again.at(1e7)
    assert again.excluded(ACCOUNT) == [("o", "connection_terminal", None)]


def test_an_expired_api_key_waits_for_a_person() -> None:
    proxy = Proxy()
    proxy.fail("auth_invalid", terminal=True, status=401)
    assert proxy.excluded() == [("a", "connection_terminal", None)]


# ---------------------------------------------------------------- restart, reload, people


def test_everything_survives_a_restart(tmp_path: Path) -> None:
    """CC-1, CC-55"""
    store = opened(tmp_path / "state.db")
    proxy = Proxy(store=store)
    proxy.fail(wait_s=500, message="slow down")
    proxy.fail("credits_exhausted", to=B, terminal=True, status=402)
    before = [proxy.rest(A), proxy.rest(B)]
    store.close()
    store = opened(tmp_path / "state.db")
    again = Proxy(store=store)
    assert [again.rest(A), again.rest(B)] == before
    assert again.excluded(A, B) == [("a", "connection_cooldown", 500.0), ("b", "connection_terminal", None)]
    store.close()


def test_a_new_key_starts_clean_and_what_the_operator_took_away_is_not_shown() -> None:
    """CC-55"""
    proxy = Proxy()
    proxy.fail("auth_invalid", terminal=True, status=401)
    proxy.fail(to=B)
    proxy.fail(to=OWN)
    new = make_target(make_connection("a", secret=make_secret("sk-new")))
    assert proxy.excluded(new) == []
    proxy.reload(new)
    assert [k.partition("#")[0] for k, _, _ in proxy.plugin.book.rows()] == ["b", "client:1"]
    assert [timer.connection for timer in proxy.plugin.timers(proxy.now)] == ["client:1"]
    assert proxy.reset("b") == []
    assert [k.partition("#")[0] for k, _, _ in proxy.plugin.book.rows()] == ["client:1"]


def test_a_connection_that_comes_back_finds_its_timer() -> None:
    """A key file that cannot be read for a moment takes the connection out of the configuration."""
    proxy = Proxy()
    proxy.fail(to=B, wait_s=500)
    proxy.reload(A)
    proxy.reload(A, B)
    assert proxy.excluded(B) == [("b", "connection_cooldown", 500.0)]


def test_who_is_out_stays_out_while_his_credential_cannot_be_read() -> None:
    proxy = Proxy()
    proxy.fail("auth_invalid", terminal=True, status=401)
    proxy.reload(B)
    proxy.reload(A, B)
    assert proxy.excluded() == [("a", "connection_terminal", None)]


def test_a_reset_clears_timers_and_a_terminal_state_only_when_named() -> None:
    """A06, CC-57, EL-33, ML-60, ML-62"""
    proxy = Proxy()
    proxy.fail(wait_s=18_000)
    proxy.fail("account_banned", to=B, terminal=True, status=403)
    proxy.fail(to=ACCOUNT, wait_s=18_000)
    assert [(t.connection, t.state, t.terminal) for t in proxy.plugin.timers(proxy.now)] == [
        ("a", "cooling", False),
        ("b", "banned", True),
        ("o", "cooling", False),
    ]
    assert proxy.reset("a") == ["a"]
    assert proxy.reset("a") == proxy.reset("nobody") == []
    assert proxy.reset(provider="openai") == []
    assert proxy.reset(part="provider") == proxy.reset(part="model") == []
    assert proxy.reset(part="all") == ["o"]
    assert proxy.excluded(A, B, ACCOUNT) == [("b", "connection_terminal", None)]
    assert proxy.reset("b", terminal=True) == ["b"]
    assert proxy.plugin.timers(proxy.now) == []


def test_what_is_shown_holds_no_credential() -> None:
    """ML-60, edge case 21 of `spec/04`"""
    proxy = Proxy()
    proxy.fail(wait_s=30)
    [timer] = proxy.plugin.timers(proxy.now)
    shown = timer.row
    assert (timer.reason, timer.rule, timer.hint) == ("rate_limit", "r", "header:retry-after")
    assert (shown["remainingMs"], shown["backoffLevel"], shown["terminal"]) == (30_000, 0, False)
    assert (
        shown["cause"] == "rate_limit (r)" and "sk-a" not in str(shown) and A.connection.secret.digest not in str(shown)
    )  # type: ignore[union-attr]


def test_a_passed_test_clears_even_a_terminal_state_and_a_failed_one_is_written_down() -> None:
    """CC-55, CC-83, CC-84, FC-74"""
    proxy = Proxy()
    proxy.fail("account_banned", terminal=True, status=403)
    proxy.plugin.tested(A.connection, proxy.now)
    assert proxy.excluded() == []
    banned = proxy.story("account_banned", terminal=True, status=403)
    proxy.plugin.tested(A.connection, proxy.now, banned)
    assert (proxy.excluded(), proxy.rest().code, proxy.rest().status) == ([], 403, "active")
    proxy.reload(A, connection_cooldown={"probe_can_disable": True})
    proxy.plugin.tested(A.connection, proxy.now, banned)
    assert proxy.excluded() == [("a", "connection_terminal", None)]


def test_clients_own_credentials_do_not_fill_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniroute_addon.plugins.connection_cooldown.MOST", 20)
    monkeypatch.setattr("omniroute_addon.cooldown.book.MOST", 20)
    proxy = Proxy()
    proxy.fail()
    for number in range(100):
        proxy.at(number)
        proxy.fail(to=make_target(make_connection(f"client:{number:03}", own=True)))
    kept = [k for k, _, _ in proxy.plugin.book.rows()]
    assert len(kept) <= 22 and any(k.startswith("a#") for k in kept) and any("099" in k for k in kept)


def test_before_the_start_nothing_is_there() -> None:
    with pytest.raises(AssertionError, match="start"):
        _ = ConnectionCooldown().book
    with pytest.raises(AssertionError, match="start"):
        _ = ConnectionCooldown().core
