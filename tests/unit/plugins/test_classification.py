"""Failure classification: a thin way to the rules of the packs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from omniroute_addon.plugins.classification import FailureClassification, plugin

from omniroute_addon import hookimpl
from omniroute_addon.model import Restatement, RuleRef, Verdict
from omniroute_addon.pack_files import PackFolder
from omniroute_addon.packs import bundled_rules, load_packs
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.testing.calls import make_answer, make_call, make_connection, make_target, make_verdict
from omniroute_addon.verdicts import RuleBook

LIE = Restatement(from_status=403, status=429, retry_after_s=60.0, rule=RuleRef(id="lie"))


class Rules:
    """Remembers what it was asked."""

    def __init__(self, verdict: Verdict) -> None:
        self.verdict = verdict
        self.asked: list[tuple[Any, ...]] = []

    def classify(self, answer: Any, *, provider: Any, dialect: Any, restatement: Any, now: float) -> Verdict:
        self.asked.append((answer, provider, dialect, restatement, now))
        return self.verdict


def started(rules: Any) -> tuple[FailureClassification, Any]:
    core: Any = SimpleNamespace(rules=rules)
    mechanism = FailureClassification()
    mechanism.start(core)
    return mechanism, core


def ask(mechanism: FailureClassification, **fields: Any) -> Verdict:
    defaults = {"call": make_call(), "target": make_target(), "answer": make_answer(403), "restatement": None}
    return mechanism.classify(**{**defaults, "now": 7.0, **fields})


def test_fc_1_the_rules_of_the_connections_provider_are_asked_in_the_calls_dialect() -> None:
    """FC-1: with the restatement, if any, and the injected time."""
    rules, answer = Rules(make_verdict()), make_answer(403)
    mechanism, _ = started(rules)
    target = make_target(make_connection("a", provider="router"))
    verdict = ask(mechanism, call=make_call(dialect="gemini"), target=target, answer=answer, restatement=LIE)
    assert verdict is rules.verdict
    assert rules.asked == [(answer, "router", "gemini", LIE, 7.0)]


def test_after_a_reload_the_new_rules_are_asked() -> None:
    mechanism, core = started(Rules(make_verdict()))
    core.rules = Rules(make_verdict("overloaded"))
    assert ask(mechanism).kind == "overloaded"


def test_a_users_plugin_is_asked_first() -> None:
    """FC-16"""
    host, other = PluginHost(), make_verdict("content_policy")
    mechanism, _ = started(Rules(make_verdict()))
    host.register(SimpleNamespace(classify=hookimpl(lambda answer: other if answer.body else None)), name="mine")
    host.register(mechanism, name="classification", origin="bundled")
    arguments: dict[str, Any] = {"call": make_call(), "target": make_target(), "restatement": None, "now": 0.0}
    assert host.first("classify", **arguments, answer=make_answer(403, "x")) is other
    assert host.first("classify", **arguments, answer=make_answer(403)).kind == "rate_limit"


def test_whatever_comes_there_is_a_verdict_by_the_bundled_rules() -> None:
    """SR-23: a restated status is what the verdict carries on."""
    packs, _ = load_packs([PackFolder(path=bundled_rules(), label="rules")])
    mechanism, _ = started(RuleBook.build(packs.rules, categories={}))
    for status in (0, 200, 302, 400, 401, 418, 429, 500, 529, 599):
        assert ask(mechanism, answer=make_answer(status, b"\xff{")).rule.id
    assert ask(mechanism, restatement=LIE).status == 429


def test_the_module_hands_out_one_mechanism() -> None:
    assert isinstance(plugin, FailureClassification)
