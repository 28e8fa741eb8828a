"""From an answer's bytes to the timers: bundled rules, cooldown, lockout and breaker together.

The edge cases of `spec/05` and `spec/06` that are about what a verdict does, beside what it says.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from omniroute_addon.plugins.circuit_breaker import CircuitBreaker
from omniroute_addon.plugins.connection_cooldown import ConnectionCooldown
from omniroute_addon.plugins.model_lockout import ModelLockout

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.model import Answer, Target, Verdict
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.settings import Settings
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.testing.calls import make_attempt, make_call, make_connection, make_story, make_target
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.verdicts import OperatorRule, RuleBook

PACKS = load_packs([PackFolder(path=bundled_rules(), label="rules")])[0]
CATEGORIES = {name: provider.category for name, provider in PACKS.providers.items()}
CHALLENGE = "<html><script src='/cdn-cgi/challenge-platform/x'></script>access denied</html>"


class Scene:
    """One connection of a provider, and what its answers do to it. Times are seconds since the start."""

    def __init__(self, provider: str, *, rules: Any = None, disable_cooling: bool = False, **settings: Any) -> None:
        self.clock = ManualClock()
        self.start = self.clock.time
        self.connection = make_connection("a", provider=provider, disable_cooling=disable_cooling)
        book = RuleBook.build(PACKS.rules, categories=CATEGORIES, operator={provider: rules or []})
        self.core = Core(
            config=Config(connections=(self.connection,), settings=Settings.model_validate(settings)),
            packs=PACKS,
            rules=book,
            clock=self.clock.clock,
            store=MemoryStore(),
        )
        self.cooldown, self.lockout, self.breaker = ConnectionCooldown(), ModelLockout(), CircuitBreaker()
        for plugin in (self.cooldown, self.lockout, self.breaker):
            plugin.start(core=self.core)

    def target(self, model: str = "m") -> Target:
        return make_target(self.connection, model=model)

    def answered(self, status: int, body: Any = "", *, model: str = "m", headers: Any = None) -> Verdict:
        """What the engine does with a failed attempt."""
        raw = (body if isinstance(body, str) else json.dumps(body)).encode()
        answer = Answer(status=status, body=raw, headers=headers or {})
        now = self.clock.time
        verdict = self.core.rules.judge(answer, provider=self.connection.provider, dialect="openai-chat", now=now)
        attempt = make_attempt(self.target(model), started_at=now)
        story = make_story(attempt, answer=answer, verdict=verdict, ended_at=now)
        if verdict.scope != "request":
            for plugin in (self.cooldown, self.lockout, self.breaker):
                plugin.failed(call=make_call(), story=story, now=now)
        return verdict

    def out(self, model: str = "m") -> dict[str, float | None]:
        """Why a model cannot be had here now, and for how many seconds; empty when it can."""
        targets, now = [self.target(model)], self.clock.time
        found = [*self.cooldown.exclude(targets=targets, now=now), *self.lockout.exclude(targets=targets, now=now)]
        return {e.label: e.until and round(e.until - now, 3) for e in found}

    @property
    def level(self) -> int:
        return next((rest.level for _, rest, _ in self.cooldown.book.rows()), 0)

    @property
    def votes(self) -> int:
        """Failures that the provider's breaker counts."""
        return sum(int(shown["failureCount"]) for shown in self.breaker.status(self.clock.time))


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


# ---------------------------------------------------------------- spec/05


@pytest.mark.parametrize("hints", [True, False])
def test_edge_5_a_months_limit_rests_until_it_renews(hints: bool) -> None:
    """FC-24, FC-87: 13 days with hints on; with hints off too, because a reset is a fact and no hint"""
    scene = Scene("opencode-zen", connection_cooldown={"api_key": {"use_upstream_retry_hints": hints}})
    scene.answered(429, error("Monthly usage limit reached. Resets in 13 days"))
    assert scene.out() == {"connection_cooldown": 13 * 86_400}


@pytest.mark.parametrize("provider", ["openai", "kimi-coding"])
def test_a_plans_window_without_a_time_rests_an_hour_in_every_class(provider: str) -> None:
    """FC-24"""
    scene = Scene(provider)
    scene.answered(429, error("You have reached your usage limit."))
    assert scene.out() == {"connection_cooldown": 3600}


def test_edge_9_a_model_without_permission_is_locked_and_the_connection_serves_its_others() -> None:
    """SR-31, SR-32, ML-34: the rule's 6 h end at the longest lock, half an hour"""
    scene = Scene("agentrouter")
    scene.answered(403, error("无权访问模型"))
    assert scene.out() == {"model_unavailable": 1800}
    assert scene.lockout.timers(scene.clock.time)[0].reason == "forbidden"
    assert scene.out("other") == {}
    scene = Scene("deepseek")
    assert scene.answered(403, error("无权访问模型")).terminal is False
    assert scene.out("other") == {}, "nor does another provider's connection pay for one model"


def test_edge_11_an_operators_rule_cools_the_connection_of_any_provider() -> None:
    """FC-58, FC-59, FC-60: no allowlist stands before it, and its scope is honoured"""
    own = OperatorRule(status=403, match="monthly allowance used", scope="connection", cooldown_ms=3_600_000)
    scene = Scene("together", rules=[own])
    scene.answered(403, error("Your MONTHLY allowance used up, account has been suspended"))
    assert scene.out() == {"connection_cooldown": 3600}


def test_edge_14_a_challenge_page_bans_no_login() -> None:
    """FC-70"""
    scene = Scene("codex")
    for _ in range(3):
        scene.answered(403, CHALLENGE)
        scene.clock.advance(30)
    assert "connection_terminal" not in scene.out()


def test_edge_16_a_401_about_a_model_expires_no_login() -> None:
    scene = Scene("opencode-go")
    scene.answered(401, error("Model grok-4.6 is not supported for format oa-compat"))
    assert "connection_terminal" not in scene.out("other")


@pytest.mark.parametrize("body", [error("file-abc does not exist", code="model_not_found"), error("field required")])
def test_edge_17_what_the_request_asked_for_changes_no_state(body: Any) -> None:
    """FC-7, FC-67, FC-79"""
    scene = Scene("openai")
    scene.answered(404 if "file" in str(body) else 400, body)
    assert (scene.out(), scene.level, scene.votes) == ({}, 0, 0)


def test_edge_18_a_service_that_is_not_running_rests_five_seconds_and_votes_for_no_breaker() -> None:
    """FC-15"""
    scene = Scene("openai")
    scene.answered(503, "overloaded", headers={"x-omni-fallback-hint": "connection_cooldown"})
    assert (scene.out(), scene.level, scene.votes) == ({"connection_cooldown": 5}, 0, 0)
    scene.answered(503, "overloaded")
    assert scene.votes == 1, "the same answer without the header does"


def test_edge_19_a_concurrency_limit_rests_as_long_as_it_says_and_climbs_no_ladder() -> None:
    """FC-28"""
    scene = Scene("openai")
    scene.answered(429, error("concurrency limit"), headers={"retry-after": "7"})
    assert (scene.out(), scene.level, scene.votes) == ({"connection_cooldown": 7}, 0, 0)


def test_edge_23_a_ban_is_not_softened_by_the_rule_that_rests_a_quota() -> None:
    """FC-75, SR-36"""
    scene = Scene("agentrouter")
    scene.answered(403, error("your account has been suspended"))
    assert scene.out() == {"connection_terminal": None}


def test_edge_24_where_nothing_cools_the_model_is_locked_instead() -> None:
    """FC-75, SR-37"""
    scene = Scene("agentrouter", disable_cooling=True)
    scene.answered(403, error("用户额度不足"))
    assert list(scene.out()) == ["model_unavailable"] and scene.out("other") == {}


# ---------------------------------------------------------------- spec/06


def test_edges_6_and_7_the_client_is_told_a_minute_and_we_pause_by_the_ladder() -> None:
    """SR-24, SR-26, SR-33, SR-34: the whole connection, for a while"""
    scene = Scene("agentrouter")
    pauses = []
    for _ in range(4):
        verdict = scene.answered(403, error("用户额度不足"))
        assert verdict.restatement is not None and verdict.restatement.retry_after_s == 60
        pauses.append(scene.out("another")["connection_cooldown"])
        scene.clock.advance(pauses[-1] or 0)
    assert pauses == [3, 6, 12, 24]
    assert scene.out() == {}, "SR-35: it ends by itself"


def test_edge_6_the_upstreams_own_wait_is_kept_inside_too() -> None:
    """SR-22, SR-25"""
    scene = Scene("agentrouter")
    verdict = scene.answered(403, error("用户额度不足"), headers={"retry-after": "25"})
    assert verdict.restatement is not None and verdict.restatement.retry_after_s == 25
    assert scene.out() == {"connection_cooldown": 25}


def test_edge_8_a_restated_quota_neither_bans_nor_votes() -> None:
    """SR-28, SR-35"""
    scene = Scene("agentrouter")
    for _ in range(9):
        scene.answered(403, error("用户额度不足"))
        scene.clock.advance(600)
    assert (scene.votes, scene.out()) == (0, {})
