"""Status restatement: a thin way to the rules of the packs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from omniroute_addon.plugins.restatement import StatusRestatement, plugin

from omniroute_addon import hookimpl
from omniroute_addon.model import Restatement, RuleRef
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.testing.calls import make_answer, make_call, make_connection, make_target
from omniroute_addon.verdicts import RuleBook

LIE = Restatement(from_status=403, status=429, retry_after_s=60.0, rule=RuleRef(id="lie"))


class Rules:
    """Remembers what it was asked."""

    def __init__(self, answer: Restatement | None) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    def restate(self, answer: Any, *, provider: str | None, dialect: str | None) -> Restatement | None:
        self.asked.append((answer, provider, dialect))
        return self.answer


def started(rules: Any) -> tuple[StatusRestatement, Any]:
    core: Any = SimpleNamespace(rules=rules)
    mechanism = StatusRestatement()
    mechanism.start(core)
    return mechanism, core


@pytest.mark.parametrize("told", [LIE, None])
def test_sr_1_the_rules_of_the_connections_provider_are_asked_in_the_calls_dialect(told: Any) -> None:
    """SR-1: the provider that answered, which a route may have made another than the one that the client meant."""
    rules, answer = Rules(told), make_answer(403)
    mechanism, _ = started(rules)
    target = make_target(make_connection("a", provider="router"))
    assert mechanism.restate(call=make_call(dialect="anthropic-messages"), target=target, answer=answer) is told
    assert rules.asked == [(answer, "router", "anthropic-messages")]


def test_after_a_reload_the_new_rules_are_asked() -> None:
    mechanism, core = started(Rules(None))
    core.rules = Rules(LIE)
    assert mechanism.restate(call=make_call(), target=make_target(), answer=make_answer(403)) is LIE


def test_a_users_plugin_is_asked_first() -> None:
    host, other = PluginHost(), Restatement(from_status=403, status=503, retry_after_s=None, rule=RuleRef(id="mine"))
    mechanism, _ = started(Rules(LIE))
    user = SimpleNamespace(restate=hookimpl(lambda answer: other if answer.body else None))
    host.register(user, name="mine")
    host.register(mechanism, name="restatement", origin="bundled")
    arguments = {"call": make_call(), "target": make_target()}
    assert host.first("restate", **arguments, answer=make_answer(403, "x")) is other
    assert host.first("restate", **arguments, answer=make_answer(403)) is LIE


def test_sr_2_sr_21_a_quota_that_says_forbidden_is_a_429_by_the_bundled_rules() -> None:
    """SR-2, SR-21 to SR-24: end to end with the real pack, and an honest 403 of the same provider stays one."""
    packs, _ = load_packs([PackFolder(path=bundled_rules(), label="rules")])
    mechanism, _ = started(RuleBook.build(packs.rules, categories={}))
    target = make_target(make_connection("a", provider="agentrouter"))
    lie = make_answer(403, '{"error":{"message":"用户额度不足"}}')
    told = mechanism.restate(call=make_call(), target=target, answer=lie)
    assert told is not None and (told.from_status, told.status) == (403, 429)
    honest = make_answer(403, '{"error":{"message":"无权访问模型"}}')
    assert mechanism.restate(call=make_call(), target=target, answer=honest) is None


def test_the_module_hands_out_one_mechanism() -> None:
    assert isinstance(plugin, StatusRestatement)
