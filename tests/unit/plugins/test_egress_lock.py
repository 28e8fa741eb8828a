"""A provider counts per outgoing address: a used-up quota rests every connection behind it."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown
from omniroute_addon.plugins.egress_lock import EgressLock
from omniroute_addon.plugins.model_lockout import ModelLockout

from omniroute_addon.config import Config
from omniroute_addon.cooldown.rest import Rest
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, RetryAfter, Target
from omniroute_addon.settings import Settings, resolve_settings
from omniroute_addon.store import Store
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.store.sqlite import opened
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_connection,
    make_provider,
    make_story,
    make_target,
    make_verdict,
)
from omniroute_addon.testing.clock import ManualClock

CALL = make_call()


def target(name: str, provider: str = "opencode-go", **fields: Any) -> Target:
    return make_target(make_connection(name, provider=provider, **fields))


A, B, C, FAR = target("a"), target("b"), target("c", "opencode-cli"), target("d", via="http://user:pw@far.example:3128")
PAID = target("p", "openai")


class Proxy:
    """The three plugins as the host asks them; time is seconds since the start."""

    def __init__(self, *targets: Target, store: Store | None = None, **settings: Any) -> None:
        self.clock = ManualClock()
        self.start = self.clock.time
        packs = SimpleNamespace(
            providers={
                "opencode-go": make_provider("opencode-go", traits=frozenset({"passthrough_models"})),
                "opencode-cli": make_provider("opencode-cli"),
                "openai": make_provider(),
            },
            quota_families={},
        )
        self.core = Core(
            config=Config(
                connections=tuple(t.connection for t in targets or (A, B, C, FAR, PAID)),
                settings=Settings.model_validate(settings),
            ),
            packs=packs,  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            clock=self.clock.clock,
            store=store or MemoryStore(),
        )
        self.cooldown, self.lockout, self.lock = ConnectionCooldown(), ModelLockout(), EgressLock()
        for plugin in (self.cooldown, self.lockout, self.lock):
            plugin.start(core=self.core)

    @property
    def now(self) -> float:
        return self.clock.time

    def at(self, seconds: float) -> None:
        self.clock.set(self.start + seconds)

    def seen(self, *targets: Target) -> None:
        """Each has an attempt that ended well."""
        for to in targets:
            self.lock.succeeded(attempt=make_attempt(to), now=self.now)

    def fail(
        self, to: Target = A, kind: str = "quota_exhausted", *, wait_s: float | None = None, **verdict: Any
    ) -> None:
        hint = RetryAfter(seconds=wait_s, source="header:retry-after") if wait_s is not None else None
        fields = {"status": 429, "reason": "quota_exhausted", "retry_after": hint, **verdict}
        story = make_story(
            make_attempt(to, started_at=self.now),
            answer=make_answer(fields["status"]),
            verdict=make_verdict(kind, **fields),
        )
        for plugin in (self.lockout, self.cooldown):
            plugin.failed(call=CALL, story=story, now=self.now)
        self.lock.failed(story=story, now=self.now)

    def resting(self) -> dict[str, float]:
        """Connection id -> seconds until it is free, of all that rest."""
        return {
            key.partition("#")[0]: round(rest.until - self.now, 3)
            for key, rest, _ in self.cooldown.book.rows()
            if rest.until > self.now
        }

    def rest(self, to: Target) -> Rest:
        [found] = [r for k, r, _ in self.cooldown.book.rows() if k.startswith(to.connection.id + "#")]
        return found


def test_everybody_behind_the_address_rests_and_nobody_else() -> None:
    """EL-1, EL-13, EL-16, EL-18, EL-19, EL-25, edge cases 1 and 5; through another proxy is another address"""
    proxy = Proxy()
    proxy.seen(A, B, C, FAR, PAID)
    proxy.fail(wait_s=500)
    assert proxy.resting() == {"a": 500.0, "b": 500.0, "c": 500.0}
    failing, sibling = proxy.rest(A), proxy.rest(B)
    assert (failing.code, failing.error_type) == (429, "quota_exhausted") and "shared egress quota" in failing.error
    assert (sibling.status, sibling.code, sibling.error_type) == ("unavailable", 429, "quota_exhausted")
    assert "shared egress quota" in sibling.error
    labels = {e.label for e in proxy.cooldown.exclude(targets=[A, B, C], now=proxy.now)}
    assert labels == {"egress_lock"}
    assert {(t.mechanism, t.row["cause"]) for t in proxy.cooldown.timers(proxy.now)} == {("egress_lock", "egress_lock")}


def test_a_connection_that_was_not_seen_at_the_address_is_left_alone() -> None:
    """EL-15, EL-17, edge case 2"""
    proxy = Proxy()
    proxy.fail()
    assert set(proxy.resting()) == {"a"}


def test_a_record_of_exactly_the_window_counts() -> None:
    """EL-17, edge case 3"""
    for late, wanted in ((0.0, {"a", "b"}), (0.001, {"a"})):
        proxy = Proxy()
        proxy.seen(B)
        proxy.at(86_400 + late)
        proxy.fail()
        assert set(proxy.resting()) == wanted
        proxy.lock.start(core=proxy.core)
        assert (len(list(proxy.core.store.table("egress_seen").scan())) == 2) is (late == 0.0)


def test_a_configured_address_needs_no_history() -> None:
    """Beyond the reference: the configured address comes before what was seen"""
    one, two = target("one", via="http://Proxy.example:3128"), target("two", via="http://proxy.example:3128")
    other, tls = target("other", via="http://proxy.example:3129"), target("tls", via="https://proxy.example")
    proxy = Proxy(one, two, other, tls)
    proxy.fail(one)
    assert set(proxy.resting()) == {"one", "two"}


def test_a_connection_that_moved_away_is_not_cooled_for_where_it_was() -> None:
    """EL-17, edge case 13"""
    moved = target("b", via="http://proxy.example:3128")
    proxy = Proxy(A, moved)
    proxy.seen(B)
    proxy.fail()
    assert set(proxy.resting()) == {"a"}
    proxy.seen(moved)
    assert len(dict(proxy.core.store.table("egress_seen").scan())["b#" + str(B.connection.secret.digest)]["seen"]) == 2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("quota_exhausted", {"status": 403}),
        ("quota_exhausted", {"status": 400}),
        ("credits_exhausted", {"status": 402, "terminal": True}),
        ("server_error", {"status": 503, "reason": "server_error", "scope": "provider"}),
        ("quota_exhausted", {"terminal": True}),
        ("credits_exhausted", {}),
        ("overloaded", {"reason": "model_capacity", "scope": "model"}),
        ("concurrency_limited", {"reason": "concurrency_limited"}),
    ],
)
def test_what_does_not_fire(kind: str, fields: dict[str, Any]) -> None:
    """EL-6, EL-8, EL-9, edge case 7"""
    proxy = Proxy()
    proxy.seen(A, B, C)
    proxy.fail(kind=kind, **fields)
    assert set(proxy.resting()) <= {"a"}


def test_a_plain_rate_limit_fires_like_a_quota() -> None:
    """EL-7"""
    proxy = Proxy()
    proxy.seen(B)
    proxy.fail(kind="rate_limit", reason="rate_limit_exceeded")
    assert proxy.resting() == {"a": 3.0, "b": 3.0}
    assert (proxy.rest(A).level, proxy.rest(B).level) == (1, 0), "edge case 15"


def test_the_connection_rests_and_no_model_is_locked() -> None:
    """EL-10, EL-11, EL-12, edge cases 8 and 9"""
    proxy = Proxy(A, model_lockout={"enabled": True})
    proxy.fail()
    assert set(proxy.resting()) == {"a"}
    assert proxy.lockout.timers(proxy.now) == []


def test_a_duration_of_zero_becomes_two_minutes() -> None:
    """EL-14"""
    proxy = Proxy()
    proxy.seen(B)
    proxy.fail(cooldown_s=0.0)
    assert proxy.resting() == {"a": 120.0, "b": 120.0}


def test_who_rests_or_is_out_is_never_changed() -> None:
    """EL-22, EL-23, EL-24, EL-29, edge case 4"""
    for wait_s in (50.0, 5000.0):
        proxy = Proxy()
        proxy.seen(A, B, C)
        proxy.fail(C, kind="account_banned", status=403, terminal=True, reason="auth_error")
        proxy.fail(B, kind="quota_exhausted", status=403, wait_s=wait_s)
        if proxy.resting() == {}:  # a gateway's limit locks a model; make the connection rest
            proxy.fail(B, kind="network", status=502, reason="server_error", scope="provider")
        before = proxy.rest(B), proxy.rest(C)
        proxy.fail(wait_s=500)
        assert (proxy.rest(B), proxy.rest(C)) == before
        assert proxy.rest(C).status == "banned"


def test_disable_cooling_keeps_a_connection_out_of_it_on_both_sides() -> None:
    """EL-6, EL-26, CC-54, edge case 10"""
    free = target("f", disable_cooling=True)
    proxy = Proxy(A, B, free)
    proxy.seen(A, B, free)
    proxy.fail(free)
    assert proxy.resting() == {}
    proxy.fail(A)
    assert set(proxy.resting()) == {"a", "b"}


def test_two_siblings_that_fail_at_once_do_not_extend_each_other() -> None:
    """EL-27, edge case 12"""
    proxy = Proxy()
    proxy.seen(A, B)
    proxy.fail(A)
    proxy.fail(B)
    proxy.fail(A)
    assert proxy.resting() == {"a": 3.0, "b": 3.0}
    assert (proxy.rest(A).level, proxy.rest(B).level) == (1, 0)


def test_a_success_frees_only_itself_and_time_frees_the_rest() -> None:
    """EL-31, EL-32"""
    proxy = Proxy()
    proxy.seen(A, B, C)
    proxy.fail(wait_s=50)
    proxy.at(1)
    proxy.cooldown.succeeded(call=CALL, attempt=make_attempt(B, started_at=proxy.now), now=proxy.now)
    assert set(proxy.resting()) == {"a", "c"}
    proxy.at(50)
    assert proxy.resting() == {}


def test_a_reset_frees_whom_it_names() -> None:
    """EL-33"""
    proxy = Proxy()
    proxy.seen(A, B)
    proxy.fail(wait_s=50)
    proxy.cooldown.reset(ResetOrder(part="connection", connections=frozenset({"b"})))
    assert set(proxy.resting()) == {"a"}


def test_the_operator_decides_about_the_list() -> None:
    """EL-2, EL-4, EL-5, EL-14, edge case 14"""
    proxy = Proxy(egress_lock={"providers": [" OpenAI "]})
    other = target("q", "openai")
    proxy.seen(B, PAID, other)
    proxy.fail(A)
    assert set(proxy.resting()) == set(), "a gateway's limit is its model's"
    proxy.fail(PAID)
    assert set(proxy.resting()) == {"p", "q"}
    proxy = Proxy(egress_lock={"providers": []})
    proxy.seen(A, B)
    assert list(proxy.core.store.table("egress_seen").scan()) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, ["opencode-go", "opencode-cli"]),
        ("  ", ["opencode-go", "opencode-cli"]),
        ("none", []),
        ("OFF", []),
        ("0", []),
        ("false", []),
        (" a , B ,", ["a", "b"]),
    ],
)
def test_the_list_in_the_environment(text: str | None, wanted: list[str]) -> None:
    """EL-2, EL-3, edge case 6"""
    environ = {} if text is None else {"OMNIROUTE_EGRESS_IP_LOCK_PROVIDERS": text}
    settings, _, warnings = resolve_settings(None, environ, {})
    assert (settings.egress_lock.providers, warnings) == (wanted, [])


def test_one_line_tells_of_each_firing_without_the_proxys_credentials(caplog: pytest.LogCaptureFixture) -> None:
    """EL-20, EL-21, EL-30"""
    proxy = Proxy(FAR, target("e", via="http://x:y@far.example:3128"))
    with caplog.at_level(logging.INFO, logger="omniroute_addon.plugins.egress_lock"):
        proxy.fail(FAR, wait_s=50)
    assert [r.getMessage() for r in caplog.records if "egress" in r.name] == [
        "egress lock: address=proxy far.example:3128 siblings=1 seconds=50"
    ]


def test_a_disk_that_fails_costs_nothing(tmp_path: Path) -> None:
    """EL-28, edge case 11: the store never raises because of a disk, and memory is right"""
    (tmp_path / "file").write_text("no folder")
    proxy = Proxy(store=opened(tmp_path / "file" / "state.db"))
    proxy.seen(A, B)
    proxy.fail(wait_s=50)
    assert proxy.core.store.trouble
    assert proxy.resting() == {"a": 50.0, "b": 50.0}
    proxy.core.store.close()


def test_clients_own_credentials_do_not_fill_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omniroute_addon.egress.seen.MOST", 20)
    proxy = Proxy()
    proxy.seen(A, B)
    for number in range(100):
        proxy.at(number)
        proxy.seen(target(f"client:{number:03}", own=True))
    kept = [key for key, _ in proxy.core.store.table("egress_seen").scan()]
    assert len(kept) <= 24 and {key.partition("#")[0] for key in kept} >= {"a", "b", "client:099"}


def test_with_the_connection_cooldown_off_nothing_happens() -> None:
    proxy = Proxy()
    proxy.seen(A, B)
    story = make_story(make_attempt(A), verdict=make_verdict("quota_exhausted", reason="quota_exhausted"))
    proxy.lock.failed(story=story, now=proxy.now)
    assert proxy.resting() == {}
