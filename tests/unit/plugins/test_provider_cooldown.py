"""The optional window of providers and streak of connections."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omniroute_addon.plugins.provider_cooldown import ProviderCooldown

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.model import ResetOrder, Target
from omniroute_addon.provider_settings import ApiKeyWindow, LocalWindow, OauthWindow, ProviderCooldownSettings
from omniroute_addon.provider_window import Streak, Window
from omniroute_addon.settings import Settings, resolve_settings
from omniroute_addon.store.memory import MemoryStore
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

T0 = 1_800_000_000_000
OAUTH, API = OauthWindow(), ApiKeyWindow()
ON = ProviderCooldownSettings(enabled=True)
A, B = make_target("a"), make_target("b")
OTHER = make_target(make_connection("z", provider="groq"))


def failing(*at_s: float, figures: Any = OAUTH) -> Window:
    window = Window()
    for seconds in at_s:
        window = window.after_failure(figures, T0 + round(seconds * 1000))
    return window


class Proxy:
    """The plugin with a clock in the test's hand; time is seconds since the start."""

    def __init__(self, *, store: MemoryStore | None = None, enabled: bool = True, **settings: Any) -> None:
        self.seconds = 0.0
        self.store = store or MemoryStore()
        self.plugin = ProviderCooldown()
        self.core = Core(
            config=Config(),
            packs=SimpleNamespace(providers={p.id: p for p in (make_provider(), make_provider("groq"))}),  # type: ignore[arg-type]
            rules=None,  # type: ignore[arg-type]
            store=self.store,
        )
        self.configure(enabled=enabled, **settings)

    def configure(self, **settings: Any) -> None:
        self.core.config = Config(settings=Settings.model_validate({"provider_cooldown": settings}))
        self.plugin.start(core=self.core)

    @property
    def now(self) -> float:
        return T0 / 1000 + self.seconds

    def excluded(self, *targets: Target) -> dict[str, float]:
        found = self.plugin.exclude(targets=targets or (A, B), now=self.now)
        assert {e.label for e in found} <= {"provider_cooldown"}
        return {e.target.connection.id: round((e.until or 0) - T0 / 1000, 3) for e in found}

    def fail(self, target: Target = A, *, kind: str = "server_error", status: int = 503, **verdict: Any) -> None:
        counts = status in (408, 500, 502, 503, 504)
        fields = {"status": status, "scope": "provider", "breaker": counts, **verdict}
        story = make_story(make_attempt(target), answer=make_answer(status), verdict=make_verdict(kind, **fields))
        self.plugin.failed(call=make_call(), story=story, now=self.now)

    def succeed(self, target: Target = A) -> None:
        self.plugin.succeeded(attempt=make_attempt(target), now=self.now)


# ---------------------------------------------------------------- the window of a provider


def test_the_tenth_failure_of_an_oauth_provider_cools_for_five_minutes() -> None:
    """PC-7, PC-8, PC-11, PC-13, PC-27, edge 1"""
    nine = failing(*range(9))
    assert nine.remaining_ms(OAUTH, T0 + 8_000) == 0
    ten = nine.after_failure(OAUTH, T0 + 9_000)
    assert ten.remaining_ms(OAUTH, T0 + 9_000) == 300_000
    assert ten.remaining_ms(OAUTH, T0 + 308_999) == 1
    assert ten.remaining_ms(OAUTH, T0 + 309_000) == 0
    assert ten.remaining_ms(OAUTH, T0 + 10**9) == 0


def test_the_figures_of_the_other_classes() -> None:
    """PC-9, PC-10"""
    api, local = failing(*range(15), figures=API), failing(0, 1, figures=LocalWindow())
    assert (api.cooling_until_ms(API), local.cooling_until_ms(LocalWindow())) == (T0 + 614_000, T0 + 61_000)
    assert failing(*range(14), figures=API).cooling_until_ms(API) == 0


def test_ten_failures_over_sixteen_minutes_do_not_cool() -> None:
    """PC-12, edge 2"""
    assert failing(*(n * 106 for n in range(10))).cooling_until_ms(OAUTH) == 0


@pytest.mark.parametrize(("age_ms", "cools"), [(900_000, False), (899_999, True)])
def test_a_failure_exactly_as_old_as_the_window_does_not_count(age_ms: int, cools: bool) -> None:
    """PC-12, edge 3"""
    window = failing(0, *[1] * 8).after_failure(OAUTH, T0 + age_ms)
    assert bool(window.cooling_until_ms(OAUTH)) is cools


def test_failures_while_cooling_do_not_extend_it() -> None:
    """PC-14, edge 5"""
    ten = failing(*range(10))
    assert ten.after_failure(OAUTH, T0 + 100_000) == ten


def test_after_cooling_the_window_begins_empty() -> None:
    """PC-16, edge 6"""
    again = failing(*range(10)).after_failure(OAUTH, T0 + 309_000)
    assert again == Window((T0 + 309_000,)) and again.cooling_until_ms(OAUTH) == 0


def test_a_setting_holds_for_what_is_there_at_the_next_query() -> None:
    """PC-30"""
    four = failing(0, 1, 2, 3)
    strict = OauthWindow(provider_failure_threshold=3, provider_cooldown_ms=60_000)
    assert four.cooling_until_ms(OAUTH) == 0 and four.cooling_until_ms(strict) == T0 + 62_000


def test_a_clock_turned_back_cools_nobody() -> None:
    assert failing(*range(10)).remaining_ms(OAUTH, T0) == 0
    assert Streak(1, T0).remaining_ms(ON, T0 - 1) == 0


@given(st.lists(st.integers(0, 2_000), max_size=60))
def test_the_window_against_a_plain_model(gaps: list[int]) -> None:
    """PC-7, PC-11 to PC-14, PC-16: counted by hand, cooling remembered instead of derived."""
    figures = OauthWindow(provider_failure_threshold=3, provider_failure_window_ms=2_000, provider_cooldown_ms=3_000)
    window, seen, until, now = Window(), [], 0, T0
    for gap in gaps:
        now += gap
        if now >= until:
            if until:
                seen, until = [], 0
            seen = [at for at in seen if now - at < 2_000] + [now]
            if len(seen) == 3:
                until = now + 3_000
        window = window.after_failure(figures, now)
        assert window.remaining_ms(figures, now) == max(0, until - now)


# ---------------------------------------------------------------- the streak of a connection


def test_the_delays_of_a_streak() -> None:
    """PC-18, PC-19"""
    seconds = [Streak(n, T0).delay_ms(ON) // 1000 for n in range(9)]
    assert seconds == [0, 5, 10, 20, 40, 80, 160, 300, 300]


@pytest.mark.parametrize(
    ("least", "most", "count", "wanted"),
    [(0, 300_000, 5, 0), (5_000, 1_000, 3, 5_000), (5_000, 300_000, 10**9, 300_000)],
)
def test_the_edges_of_a_streak(least: int, most: int, count: int, wanted: int) -> None:
    """PC-18, edges 10, 11, 12"""
    settings = ProviderCooldownSettings(min_retry_cooldown_ms=least, max_retry_cooldown_ms=most)
    assert Streak(count, T0).delay_ms(settings) == wanted


# ---------------------------------------------------------------- the plugin


def test_it_is_off_unless_somebody_switches_it_on() -> None:
    """PC-1, PC-2, edge 9"""
    assert Settings().provider_cooldown.enabled is False
    for text, wanted in (("TRUE", True), ("1", True), ("Yes", True), ("on", True), ("off", False), ("perhaps", False)):
        assert resolve_settings(None, {"PROVIDER_COOLDOWN_ENABLED": text}, {})[0].provider_cooldown.enabled is wanted
    proxy = Proxy(enabled=False)
    for _ in range(20):
        proxy.fail()
    proxy.succeed()
    assert proxy.excluded() == {} and proxy.plugin.entries() == 0
    proxy.configure(enabled=True)
    assert proxy.excluded() == {}


def test_switching_it_off_forgets_everything() -> None:
    """PC-3"""
    proxy = Proxy()
    proxy.fail()
    assert proxy.plugin.entries() == 2
    proxy.configure(enabled=False)
    assert proxy.plugin.entries() == 0


def test_a_connection_that_failed_is_passed_by_and_its_sibling_is_not() -> None:
    """PC-4, PC-18, PC-23, edge 7"""
    proxy = Proxy()
    proxy.fail()
    assert proxy.excluded(A, B) == {"a": 5.0}
    proxy.seconds = 5
    assert proxy.excluded(A, B) == {}
    proxy.fail()
    assert proxy.excluded(A, B) == {"a": 15.0}


def test_a_provider_whose_window_is_full_is_passed_by() -> None:
    """PC-9, PC-23, PC-27"""
    proxy = Proxy()
    for number in range(15):
        proxy.fail(make_target(f"c{number}"))
    assert proxy.excluded(A, B, OTHER) == {"a": 600.0, "b": 600.0}
    proxy.seconds = 600
    assert proxy.excluded(A, B, OTHER) == {}


def test_a_single_target_is_never_held_back() -> None:
    """PC-25; several that all cool are left to the engine, which tells the earliest end (PC-26)."""
    proxy = Proxy()
    proxy.fail(A)
    proxy.fail(B)
    assert proxy.excluded(A) == {}
    assert proxy.excluded(A, B) == {"a": 5.0, "b": 5.0}


def test_a_success_clears_the_connection_and_the_provider() -> None:
    """PC-15, PC-20, PC-21, edge 4"""
    proxy = Proxy()
    for number in range(14):
        proxy.fail(make_target(f"c{number}"))
    proxy.fail(A, kind="rate_limit", status=429, scope="connection")
    proxy.succeed(A)
    assert proxy.excluded(A, B) == {}
    proxy.fail(make_target("c14"))
    assert proxy.excluded(A, B) == {}
    assert proxy.plugin.status(proxy.now)[0]["connectionId"] == "c0"  # siblings keep their streaks


def test_only_the_providers_own_failures_fill_its_window() -> None:
    """PC-17, edge 8"""
    proxy = Proxy()
    for number in range(50):
        proxy.fail(make_target(f"c{number}"), kind="rate_limit", status=429, scope="connection")
    assert proxy.excluded(A, B) == {}
    assert proxy.excluded(make_target("c0"), B) == {"c0": 5.0}


def test_what_is_neither_the_accounts_nor_the_providers_fault_is_not_recorded() -> None:
    """A07"""
    proxy = Proxy()
    proxy.fail(kind="overloaded", status=529)
    proxy.fail(kind="model_not_found", status=404, scope="model")
    assert proxy.plugin.entries() == 0


def test_disable_cooling_and_nobody_in_particular_have_no_streak() -> None:
    """PC-22, PC-24"""
    proxy = Proxy()
    stubborn = make_target(make_connection("s", disable_cooling=True))
    nameless = make_target(make_connection("client", own=True, secret=None))
    proxy.fail(stubborn)
    proxy.fail(nameless)
    assert proxy.excluded(stubborn, nameless) == {}
    assert proxy.plugin.entries() == 1
    for number in range(13):
        proxy.fail(make_target(f"c{number}"))
    assert proxy.excluded(stubborn, nameless) == {"s": 600.0, "client": 600.0}


@pytest.mark.parametrize("provider", ["", "unknown", "UNKNOWN"])
def test_a_failure_of_nobody_is_ignored(provider: str) -> None:
    """PC-5"""
    proxy = Proxy()
    proxy.fail(make_target(make_connection(provider=provider)))
    assert proxy.plugin.entries() == 0


def test_two_spellings_share_one_entry() -> None:
    """Edge 13"""
    proxy = Proxy()
    proxy.fail(make_target(make_connection("a", provider="OpenAI")))
    assert proxy.excluded(A, B) == {"a": 5.0}


def test_nothing_survives_a_restart() -> None:
    """PC-6"""
    proxy = Proxy()
    proxy.fail()
    assert proxy.store.table("provider_cooldown").keep is False


def test_dead_entries_are_removed_but_none_within_its_own_window() -> None:
    """PC-28, edge 14"""
    proxy = Proxy(api_key={"provider_failure_window_ms": 7_200_000})
    proxy.fail()
    proxy.seconds = 1_800
    proxy.fail(OTHER)
    assert {key for key, _ in proxy.plugin.table.scan()} == {"openai", "groq", "groq:z"}
    proxy.seconds = 7_200
    proxy.fail(OTHER, kind="rate_limit", status=429, scope="connection")
    assert {key for key, _ in proxy.plugin.table.scan()} == {"groq", "groq:z"}


def test_entries_are_bounded_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """PC-28: among them are clients' own credentials, which anybody can make up."""
    monkeypatch.setattr("omniroute_addon.plugins.provider_cooldown._MOST", 5)
    proxy = Proxy()
    for number in range(20):
        proxy.seconds = number
        proxy.fail(make_target(make_connection(f"client:{number:02}", own=True)))
    assert proxy.plugin.entries() <= 7
    assert {"openai", "openai:client:19"} <= {key for key, _ in proxy.plugin.table.scan()}


def test_what_cools_can_be_seen_and_cleared() -> None:
    """PC-29"""
    proxy = Proxy()
    for number in range(15):
        proxy.fail(make_target(f"c{number % 2}"))
    proxy.seconds = 1
    glm = {"provider": "openai", "connectionId": None}
    assert proxy.plugin.status(proxy.now)[0] == {
        **glm,
        "failureCount": 15,
        "remainingMs": 599_000,
        "until": T0 + 600_000,
    }
    assert [e["connectionId"] for e in proxy.plugin.status(proxy.now)] == [None, "c0", "c1"]
    assert proxy.plugin.entries() == 3
    timers = proxy.plugin.timers(proxy.now)
    assert [(t.part, t.connection, t.listed) for t in timers][:2] == [
        ("provider", None, "providerCooldowns"),
        ("connection", "c0", "providerCooldowns"),
    ]
    assert proxy.plugin.reset(ResetOrder(part="model")) == []
    one = ResetOrder(part="connection", connections=frozenset({"c0"}))
    assert [c.connection for c in proxy.plugin.reset(one)] == ["c0"]
    assert [c.part for c in proxy.plugin.reset(ResetOrder(part="provider", provider="groq"))] == []
    assert len(proxy.plugin.reset(ResetOrder(part="provider"))) == 2
    assert proxy.plugin.status(proxy.now) == [] and proxy.excluded(A, B) == {}


def test_the_variables_of_the_delays() -> None:
    environ = {"PROVIDER_COOLDOWN_MIN_MS": "99999999", "PROVIDER_COOLDOWN_MAX_MS": "1e3"}
    settings = resolve_settings(None, environ, {})[0].provider_cooldown
    assert (settings.min_retry_cooldown_ms, settings.max_retry_cooldown_ms) == (3_600_000, 1_000)
