"""One model of one connection is left out while the connection serves its others."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.model_lockout import ModelLockout

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, RetryAfter, RuleRef, Story, Target
from omniroute_addon.model_lockout.book import LockBook, Place
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

PER_MODEL = frozenset({"per_model_quota"})
FAMILIES = {"codex": {"spark": ("*spark*", "*bengalfox*"), "codex": ("*",)}}
CALL = make_call()


def target(model: str = "m1", name: str = "a", provider: str = "openai", **fields: Any) -> Target:
    return make_target(make_connection(name, provider=provider, **fields), model=model)


def codex(model: str, name: str = "c") -> Target:
    return target(model, name, "codex")


class Proxy:
    """One plugin with a clock in the test's hand; time is seconds since the start."""

    def __init__(
        self, *, store: Store | None = None, connections: Any = (), plugins: Any = None, **lockout: Any
    ) -> None:
        self.clock = ManualClock()
        self.start = self.clock.time
        providers = {
            "openai": make_provider(),
            "codex": make_provider("codex", category="oauth", traits=PER_MODEL),
            "gemini": make_provider("gemini", traits=PER_MODEL),
            "openrouter": make_provider("openrouter", traits=frozenset({"passthrough_models"})),
            "ollama": make_provider("ollama", category="local"),
        }
        settings = {"model_lockout": lockout, "plugins": plugins or {}}
        self.core = Core(
            config=Config(connections=tuple(connections), settings=Settings.model_validate(settings)),
            packs=SimpleNamespace(providers=providers, quota_families=FAMILIES),  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=store or MemoryStore(),
        )
        self.plugin = ModelLockout()
        self.plugin.start(core=self.core)

    @property
    def now(self) -> float:
        return self.clock.time

    def at(self, seconds: float) -> None:
        self.clock.set(self.start + seconds)

    def excluded(self, *targets: Target) -> list[tuple[str, str, float]]:
        found = self.plugin.exclude(targets=targets, now=self.now)
        return [(e.target.model, e.label, round((e.until or 0) - self.start, 3)) for e in found]

    def locked(self, *targets: Target) -> list[str]:
        return [model for model, _, _ in self.excluded(*targets)]

    def fail(
        self,
        to: Target,
        kind: str = "rate_limit",
        *,
        status: int = 429,
        wait_s: float | None = None,
        source: str = "header:retry-after",
        file: str = "rules/_generic.yaml",
        rule: str = "r",
        answer: Any = None,
        **verdict: Any,
    ) -> Story:
        hint = RetryAfter(seconds=wait_s, source=source) if wait_s is not None else None
        scope = "provider" if kind in ("server_error", "overloaded", "timeout", "network") else "connection"
        story = make_story(
            make_attempt(to, started_at=self.now),
            answer=answer or make_answer(status),
            verdict=make_verdict(
                kind,
                **{
                    "retry_after": hint,
                    "status": status,
                    "rule": RuleRef(id=rule, file=file),
                    "scope": scope,
                    **verdict,
                },
            ),
        )
        self.plugin.failed(call=CALL, story=story, now=self.now)
        return story

    def succeed(self, to: Target) -> None:
        self.plugin.succeeded(attempt=make_attempt(to, started_at=self.now))

    def reset(self, *connections: str, part: Any = "model", **order: Any) -> int:
        """How many keys it cleared."""
        named = frozenset(connections) if connections else None
        return len(self.plugin.reset(ResetOrder(part=part, connections=named, **order)))

    @property
    def shown(self) -> list[dict[str, Any]]:
        return [dict(timer.row) for timer in self.plugin.timers(self.now)]


# ---------------------------------------------------------------- scope


def test_a_limit_of_codex_blocks_the_family_but_not_the_other_one() -> None:
    """ML-1, ML-3, ML-8, ML-9, FC-84, edge case 1"""
    proxy = Proxy()
    proxy.fail(codex("gpt-5.6-luna"))
    targets = (codex("gpt-5.5"), codex("gpt-5.6-luna"), codex("gpt-5.3-codex-spark"), codex("gpt-5.5", "other"))
    assert proxy.locked(*targets) == ["gpt-5.5", "gpt-5.6-luna"]
    assert [e.target.connection.id for e in proxy.plugin.exclude(targets=targets, now=proxy.now)] == ["c", "c"]


def test_a_server_fault_blocks_the_exact_model_alone() -> None:
    """ML-5, FC-78, edge case 1"""
    proxy = Proxy()
    proxy.fail(codex("gpt-5.6-luna"), "server_error", status=502)
    assert proxy.excluded(codex("gpt-5.5"), codex("gpt-5.6-LUNA ")) == [("gpt-5.6-LUNA ", "model_lockout", 120.0)]


def test_of_several_locks_the_one_that_ends_last_is_told() -> None:
    """ML-8"""
    proxy = Proxy()
    proxy.fail(codex("m"), "server_error", status=502, wait_s=900)
    proxy.fail(codex("m"), wait_s=300)
    assert proxy.excluded(codex("m")) == [("m", "model_lockout", 900.0)]


def test_another_spelling_of_the_provider_is_the_same_lock() -> None:
    """ML-2, edge case 3: packs know one spelling; what is left is letter case"""
    proxy = Proxy()
    proxy.fail(target("m", "x", "openrouter"))
    assert proxy.locked(target("m", "x", "OpenRouter")) == ["m"]


def test_two_connections_with_one_key_hold_locks_of_their_own() -> None:
    """ML-1, edge case 14"""
    proxy = Proxy()
    one, two = (codex("m", name) for name in ("one", "two"))
    proxy.fail(one)
    assert proxy.locked(two) == []


# ---------------------------------------------------------------- when


def test_switch_off_a_provider_that_counts_per_model_locks_and_another_does_not() -> None:
    """ML-15, ML-17, edge case 16"""
    proxy = Proxy()
    for to in (target(), target(provider="gemini"), target(provider="openrouter"), target(provider="ollama")):
        proxy.fail(to)
    assert sorted((i["provider"], i["origin"]) for i in proxy.shown) == [
        ("gemini", "per_model_quota"),
        ("ollama", "per_model_quota"),
        ("openrouter", "per_model_quota"),
    ]


def test_switch_on_the_listed_statuses_lock() -> None:
    """ML-16, ML-18, ML-20"""
    proxy = Proxy(enabled=True, error_codes=[429, 500, 503])
    proxy.fail(target("a"))
    proxy.fail(target("b"), "server_error", status=503)
    proxy.fail(target("c"), "server_error", status=502)
    proxy.fail(target("d"), "server_error", status=500)
    proxy.fail(target("e"), "overloaded", status=503)
    proxy.fail(target("f"), "quota_exhausted")
    proxy.fail(target("g"), "auth_invalid", status=401, terminal=True)
    proxy.fail(target("h"), "network", status=502, answer=make_answer(0))
    assert sorted((i["model"], i["reason"]) for i in proxy.shown) == [
        ("a", "rate_limited"),
        ("b", "server_error"),
        ("e", "model_capacity"),
        ("f", "quota_exhausted"),
    ]
    assert {i["origin"] for i in proxy.shown} == {"switch"}


def test_a_lock_without_a_model_is_never_written() -> None:
    """ML-13, ML-14"""
    proxy = Proxy(enabled=True)
    for provider in ("openai", "codex"):
        proxy.fail(target("", provider=provider))
    assert proxy.shown == []


def test_nothing_is_locked_while_the_breaker_blocks_the_provider() -> None:
    """ML-19"""
    proxy = Proxy()
    proxy.core.store.table("circuit_breaker").update("codex", lambda _: {"state": "OPEN"})
    proxy.fail(codex("m"))
    assert proxy.shown == []
    proxy.core.store.table("circuit_breaker").update("codex", lambda _: {"state": "CLOSED"})
    proxy.fail(codex("m"))
    assert len(proxy.shown) == 1


def test_a_bare_500_an_empty_turn_and_a_dead_address_never_lock() -> None:
    """ML-20, ML-21"""
    proxy = Proxy(enabled=True)
    for _ in range(4):
        proxy.fail(codex("m"), "server_error", status=500)
        proxy.fail(codex("m"), "server_error", status=502, answer=make_answer(0, fault="empty"))
        proxy.fail(codex("m"), "network", status=502, answer=make_answer(0))
        proxy.fail(codex("m"), "overloaded", status=529)
    assert proxy.shown == []


def test_a_fault_after_output_locks_at_the_third_time() -> None:
    """ML-21"""
    proxy = Proxy()
    for number in range(3):
        assert proxy.shown == []
        proxy.at(number)
        proxy.fail(codex("m"), "server_error", status=502, answer=make_answer(502, phase="stream"))
    assert [i["reason"] for i in proxy.shown] == ["server_error"]


@pytest.mark.parametrize(
    ("kind", "status", "more", "wanted"),
    [
        ("model_not_found", 404, {"scope": "model"}, "not_found"),
        ("model_not_found", 410, {"scope": "model"}, "not_found"),
        ("quota_exhausted", 403, {}, "quota_exhausted"),
        ("rate_limit", 400, {}, "rate_limited"),
        ("model_access_denied", 403, {"scope": "model"}, "forbidden"),
        ("forbidden", 403, {}, "forbidden"),
        ("credits_exhausted", 402, {"terminal": True, "rule": "payment-required"}, "credits"),
        ("credits_exhausted", 402, {"terminal": True}, None),
        ("forbidden", 403, {"terminal": True}, None),
        ("forbidden", 403, {"scope": "egress_ip"}, None),
        ("server_error", 504, {}, "server_error"),
        ("concurrency_limited", 429, {}, None),
    ],
)
def test_the_reason_of_a_lock(kind: str, status: int, more: dict[str, Any], wanted: str | None) -> None:
    """ML-23, ML-24, ML-51, ML-52, ML-54, CC-78, edge case 15 of `spec/03`"""
    proxy = Proxy()
    proxy.fail(target(provider="gemini"), kind, status=status, **more)
    assert [i["reason"] for i in proxy.shown] == ([wanted] if wanted else [])


def test_a_wrong_address_at_the_connection_is_no_missing_model() -> None:
    """ML-22, edge case 17: scope `request` never comes here; a door that moved is the connection's"""
    proxy = Proxy()
    proxy.fail(target(provider="gemini"), "model_not_found", status=404, scope="connection")
    assert proxy.shown == []


def test_the_providers_own_rule_knows_that_the_whole_account_is_meant() -> None:
    """FC-75: a fault of the account is not narrowed to a model"""
    proxy = Proxy()
    proxy.fail(target(provider="openrouter"), "quota_exhausted", file="rules/openrouter.yaml")
    assert proxy.shown == []


def test_a_rule_that_ties_a_limit_to_a_model_locks_it_for_as_long_as_it_says() -> None:
    """FC-31, FC-77, ML-53; the wait of a limit is exact"""
    proxy = Proxy()
    proxy.fail(target("a"), scope="model", wait_s=7)
    proxy.fail(target("b"), scope="model")
    proxy.fail(target("c"), "overloaded", scope="model", status=400, cooldown_s=300.0, file="rules/openai.yaml")
    proxy.fail(target("d"), "overloaded", scope="model", status=503)
    proxy.fail(target("e"), "overloaded", scope="model", status=503, file="rules/openai.yaml")
    proxy.fail(target("f"), "model_access_denied", scope="model", status=403, file="rules/openai.yaml")
    proxy.fail(target("g"), "model_access_denied", scope="model", status=403)
    proxy.fail(target("h"), "credits_exhausted", scope="model", status=402, file="rules/openai.yaml")
    proxy.fail(target("i"), "model_not_found", scope="model", status=404, file="rules/openai.yaml")
    assert proxy.excluded(*(target(m) for m in "abcdefghi")) == [
        ("a", "model_lockout", 7.0),
        ("b", "model_lockout", 3.0),
        ("c", "model_lockout", 300.0),
        ("f", "model_unavailable", 3.0),
        ("h", "model_unavailable", 3.0),
        ("i", "model_unavailable", 3.0),
    ]
    assert {i["origin"] for i in proxy.shown} == {"rule"}


def test_switch_on_an_overload_of_a_model_locks_it_but_a_busy_moment_does_not() -> None:
    proxy = Proxy(enabled=True)
    proxy.fail(target("a"), "overloaded", scope="model", status=503)
    proxy.fail(target("b"), "concurrency_limited", scope="model")
    assert proxy.excluded(target("a"), target("b")) == [("a", "model_lockout", 120.0)]


def test_of_a_provider_that_counts_per_address_no_model_is_locked() -> None:
    """EL-11, edge case 8 of `spec/07`"""
    proxy = Proxy(enabled=True)
    proxy.fail(target("m", "g", "opencode-go"), reason="rate_limit_exceeded")
    assert proxy.shown == []


# ---------------------------------------------------------------- how long, recovery


def test_lasting_reasons_have_a_label_of_their_own() -> None:
    """ML-55"""
    proxy = Proxy()
    proxy.fail(codex("m"), "quota_exhausted")
    [exclusion] = proxy.plugin.exclude(targets=[codex("m")], now=proxy.now)
    assert (exclusion.label, exclusion.detail) == ("model_unavailable", "m: quota_exhausted (r)")


def test_a_wait_in_a_header_is_exact_and_one_in_prose_is_capped() -> None:
    """ML-31, edge case 9"""
    proxy = Proxy()
    proxy.fail(codex("a", "x"), wait_s=331_067)
    proxy.fail(codex("b", "y"), wait_s=331_067, source="text:try again in 92 hours")
    assert [i["remainingMs"] for i in proxy.shown] == [331_067_000, 1_800_000]
    assert [bool(i["estimatedResetAt"]) for i in proxy.shown] == [False, True]


def test_it_ends_by_itself_and_is_not_listed_then() -> None:
    """ML-41, ML-57, edge case 22"""
    proxy = Proxy()
    proxy.fail(codex("m"))
    proxy.at(119.999)
    assert proxy.locked(codex("m")) == ["m"] and len(proxy.shown) == 1
    proxy.at(120)
    assert proxy.locked(codex("m")) == [] and proxy.shown == []


def test_the_window_of_a_run_is_the_reset_timeout_of_the_class() -> None:
    """ML-38"""
    for to, window in ((codex("m"), 60), (target("m", provider="gemini"), 30)):
        for late, count in ((0, 2), (0.01, 1)):
            proxy = Proxy()
            proxy.fail(to)
            proxy.at(120 + window + late)
            proxy.fail(to)
            assert [i["failureCount"] for i in proxy.shown] == [count]


def test_a_success_helps_the_whole_family_and_frees_an_exact_lock_too() -> None:
    """ML-42, ML-43, ML-46, edge cases 6 and 7"""
    proxy = Proxy()
    for at in (0, 120, 360):
        proxy.at(at)
        proxy.fail(codex("gpt-5.6-luna"))
    proxy.fail(codex("gpt-5.5"), "server_error", status=502)
    proxy.at(361)
    proxy.succeed(codex("gpt-5.5"))
    assert [(i["failureCount"], i["modelFamily"]) for i in proxy.shown] == [(1, "codex")]
    proxy.succeed(codex("gpt-5.5"))
    assert proxy.shown == [] and repr(proxy.plugin.book) == "<LockBook keys=0>"
    proxy.succeed(codex("gpt-5.5"))


def test_a_success_by_another_path_with_the_same_key_counts() -> None:
    """A06"""
    mine = target("m", "mine", "gemini")
    proxy = Proxy(connections=[mine.connection])
    proxy.fail(mine)
    proxy.at(1)
    proxy.succeed(target("m", "client:x", "gemini", own=True, secret=make_secret("sk-mine")))
    assert proxy.shown == []


# ---------------------------------------------------------------- restart, bounds, people


def test_which_locks_survive_a_restart(tmp_path: Path) -> None:
    """ML-47, edge case 15, decided per reason: what a quota or an empty purse says"""
    store = opened(tmp_path / "state.db")
    proxy = Proxy(store=store)
    proxy.fail(target("q", provider="gemini"), "quota_exhausted", wait_s=9000)
    proxy.fail(target("c", provider="gemini"), "credits_exhausted", status=402, terminal=True, rule="payment-required")
    proxy.fail(target("r", provider="gemini"), wait_s=9000)
    proxy.fail(target("f", provider="gemini"), "forbidden", status=403, wait_s=9000)
    store.close()
    store = opened(tmp_path / "state.db")
    again = Proxy(store=store)
    assert sorted(i["model"] for i in again.shown) == ["c", "q"]
    assert again.locked(target("q", provider="gemini")) == ["q"]
    again.at(1)
    again.succeed(target("q", provider="gemini"))
    store.close()
    store = opened(tmp_path / "state.db")
    assert [i["model"] for i in Proxy(store=store).shown] == ["c"]
    assert Proxy(store=store, persist=False).core.store.table("model_lockout_kept").get("x") is None
    store.close()
    store = opened(tmp_path / "state.db")
    assert Proxy(store=store).shown == []
    store.close()


def test_what_ended_during_the_restart_is_dropped_and_a_reload_keeps_everything() -> None:
    kept = MemoryStore()
    Proxy(store=kept).fail(target("q", provider="gemini"), "quota_exhausted", wait_s=9000)
    rows = dict(kept.table("model_lockout_kept").scan())
    fresh = MemoryStore()
    for key, value in rows.items():
        fresh.table("model_lockout_kept").update(key, lambda _, v=value: {**v, "until": 5.0})
        fresh.table("model_lockout_kept").update("garbage", lambda _: {"until": "soon"})
    proxy = Proxy(store=fresh)
    assert proxy.shown == [] and list(fresh.table("model_lockout_kept").scan()) == []
    proxy.fail(codex("m"))
    proxy.plugin.start(core=proxy.core)
    assert proxy.locked(codex("m")) == ["m"]


def test_a_lock_that_changes_its_reason_is_kept_or_not_by_the_new_one() -> None:
    proxy = Proxy()
    to = target("m", provider="gemini")
    kept = proxy.core.store.table("model_lockout_kept")
    proxy.fail(to, "quota_exhausted")
    assert len(list(kept.scan())) == 1
    proxy.fail(to, wait_s=90_000)
    assert list(kept.scan()) == []
    assert [i["reason"] for i in proxy.shown] == ["rate_limited"]


def test_the_store_is_bounded_and_keeps_what_ends_last() -> None:
    """ML-48"""
    book, proxy = LockBook(MemoryStore()), Proxy()
    for number in range(20):
        proxy.at(number)
        proxy.fail(codex(f"m{number}", f"c{number}"), wait_s=1000 + number)
    for key, lock, place in proxy.plugin.book.rows():
        book.change(key, lambda _, kept=lock: kept, place)
    book.change("old", lambda _: None, Place(provider="p", connection="c", model="m"))
    book.make_room(proxy.now, most=21)
    assert len(list(book.rows())) == 20
    book.make_room(proxy.now, most=20)
    assert {place.model for _, _, place in book.rows()} == {f"m{n}" for n in range(2, 20)}
    book.make_room(proxy.now + 1e9, most=5)
    assert list(book.rows()) == []
    book.forget("nobody")


def test_clients_own_credentials_make_room_before_others() -> None:
    """ML-48: anybody can make one up, and they must not push out what an operator's connections have learned."""
    book, proxy = LockBook(MemoryStore()), Proxy()
    for number in range(20):
        proxy.fail(codex(f"m{number}", f"client:{number}" if number % 2 else f"c{number}"), wait_s=1000 + number)
    for key, lock, place in proxy.plugin.book.rows():
        book.change(key, lambda _, kept=lock: kept, place)
    book.make_room(proxy.now, most=12)
    assert {place.connection[0:2] for _, _, place in book.rows()} == {"c0", "c2", "c4", "c6", "c8", "c1", "cl"}
    assert sum(place.connection.startswith("client") for _, _, place in book.rows()) == 1


@pytest.mark.parametrize(("length", "locks"), [(200, 1), (201, 0), (1_000_000, 0)])
def test_a_name_that_is_no_models_is_not_remembered(length: int, locks: int) -> None:
    """The client chooses it; memory and disk stay bounded."""
    proxy = Proxy()
    proxy.fail(codex("m" * length), wait_s=1000)
    assert len(proxy.shown) == locks


def test_a_person_removes_locks_with_any_model_name() -> None:
    """ML-45, ML-58, ML-59, edge case 13"""
    proxy = Proxy()
    odd = target("acme/x:free", "g", "gemini")
    proxy.fail(odd)
    proxy.fail(odd, "server_error", status=502)
    proxy.fail(codex("gpt-5.6-luna"))
    proxy.fail(codex("gpt-5.6-luna", "other"))
    assert proxy.reset("g", model="other") == 0
    assert proxy.reset("g", model="acme/x:free") == 2
    assert proxy.reset("g", model="acme/x:free") == 0
    assert proxy.reset("c", model="gpt-5.5", provider="codex") == 1, "the family goes with any of its models"
    assert proxy.reset(provider="gemini") == 0
    assert proxy.reset(provider="Codex") == 1
    assert proxy.shown == []
    proxy.fail(odd)
    assert proxy.reset(part="provider") == 0
    assert proxy.reset(part="all") == 1


def test_after_a_reset_the_model_may_fail_again_at_once() -> None:
    """ML-49, edge case 18"""
    proxy = Proxy()
    proxy.fail(codex("m"))
    proxy.reset("c", part="connection")
    proxy.fail(codex("m"))
    assert [i["failureCount"] for i in proxy.shown] == [1]


def test_what_is_shown_holds_every_field_and_no_credential() -> None:
    """ML-50, ML-57"""
    proxy = Proxy()
    proxy.fail(codex("gpt-5.6-luna"))
    [shown] = proxy.shown
    assert (shown["scope"], shown["connectionId"], shown["modelFamily"]) == ("connection-model", "c", "codex")
    assert (shown["until"], shown["remainingMs"]) == (round((proxy.start + 120) * 1000), 120_000)
    assert "#" not in str(shown) and "sk-c" not in str(shown)


def test_garbage_in_the_store_locks_nobody() -> None:
    proxy = Proxy()
    proxy.fail(codex("m"))
    [key] = [k for k, _, _ in proxy.plugin.book.rows()]
    proxy.core.store.table("model_lockout").update(key, lambda v: {**v, "until": "soon"})
    assert proxy.locked(codex("m")) == [] and proxy.shown == []


def test_before_the_start_nothing_is_there() -> None:
    with pytest.raises(AssertionError, match="start"):
        _ = ModelLockout().book
    with pytest.raises(AssertionError, match="start"):
        _ = ModelLockout().core
