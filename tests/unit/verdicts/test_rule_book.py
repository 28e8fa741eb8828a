"""The book: order, vetoes, overrides, refusals, and that it never raises."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from verdict_answers import NOW, answer

from omniroute_addon.verdicts import ClassifyRule, OperatorRule, RestateRule, RuleBook, RuleLists, judge


@dataclass(frozen=True, kw_only=True)
class File:
    lists: RuleLists
    file: str = "rules/x.yaml"
    lines: dict[str, int] = field(default_factory=lambda: {"a": 3, "b": 7, "r": 5})


def made_of(*, operator: dict[str, list[OperatorRule]] | None = None, **owners: dict[str, Any]) -> RuleBook:
    files = {owner: [File(lists=RuleLists.model_validate(lists))] for owner, lists in owners.items()}
    return RuleBook.build(files, operator=operator)


def rule(id: str, kind: str = "quota_exhausted", when: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": id, "when": when or {"status": 403, "text": "x"}, "kind": kind, **more}


def decided(
    book: RuleBook, status: int = 403, body: Any = "x", provider: str | None = "p", dialect: str | None = None
) -> str:
    return book.judge(answer(status, body), provider=provider, dialect=dialect, now=NOW).rule.id


def test_operator_then_provider_then_dialect_then_generic() -> None:
    """Issue 3 point 1; FC-60, edge case 25."""
    layers: dict[str, dict[str, Any]] = {
        "_generic": {"classify": [rule("g")]},
        "_openai": {"classify": [rule("o")]},
        "_anthropic": {"classify": [rule("c", when={"status": 403, "text": "y"})]},
        "p": {"classify": [rule("a")]},
    }
    own = OperatorRule(status=403, match="x", scope="connection")
    assert decided(made_of(operator={"P": [own]}, **layers)) == "operator.p.1"
    assert decided(made_of(**layers)) == "a"
    assert decided(made_of(**layers), provider="other") == "o"
    assert decided(made_of(**layers), provider=None, dialect="openai-chat") == "o"
    assert decided(made_of(**layers), body="xy", provider=None, dialect="anthropic-messages") == "c"
    del layers["_openai"]
    assert decided(made_of(**layers), provider=None) == "g"
    assert decided(made_of(**layers), provider="_generic") == "g"


def test_sr_13_the_first_match_decides_and_a_veto_does_not_stop_the_search() -> None:
    """SR-13; edge case 11 of spec/06."""
    restate = [
        {"id": "r1", "when": {"status": 403, "text": "x"}, "unless": {"text": "y"}, "status": 429},
        {"id": "r2", "when": {"status": 403, "text": "x"}, "status": 503},
        {"id": "r3", "when": {"status": 403, "text": "x"}, "status": 504},
    ]
    found = made_of(p={"restate": restate}).restate(answer(403, "xy"), provider="p", dialect=None)
    assert found is not None and found.rule.id == "r2"


def test_a_disabled_rule_is_not_there() -> None:
    assert decided(made_of(p={"classify": [rule("a", enabled=False)]})) == "no-rule"


def test_sr_9_an_id_is_used_once() -> None:
    """SR-9"""
    made = made_of(p={"classify": [rule("a")]}, q={"classify": [rule("a")]})
    assert made.problems == (
        "rules/x.yaml:3: the rule id 'a' is used twice in this file; the first stays. Give the other one another id",
    )


def test_one_invalid_rule_is_refused_and_the_others_stay() -> None:
    made = made_of(p={"classify": [rule("b", when={"status": 403, "text": "$nope"}), rule("a")]})
    assert made.problems == ("rules/x.yaml:7: rule 'b': unknown phrase list 'nope'.\n  No phrase list is known here.",)
    assert decided(made) == "a"


def test_sr_15_a_restatement_may_not_use_a_credits_phrase() -> None:
    """Edge case 12 of spec/06."""
    restate = [
        {"id": "r", "when": {"status": 403, "text": ["our insufficient_quota word", ["z", "zz"]]}, "status": 429}
    ]
    made = made_of(_generic={"phrases": {"credits": ["insufficient_quota"]}}, p={"restate": restate})
    assert made.problems == (
        "rules/x.yaml:5: rule 'r': the marker 'our insufficient_quota word' contains the credits phrase 'insufficient_quota': "
        "an empty account would look like a quota that renews (SR-15); use the gateway's own words for the quota",
    )


def test_fc_59_an_operator_rule_is_literal_text() -> None:
    """FC-59; edge case 12 of spec/05."""
    own = OperatorRule(status=403, match=".*", scope="connection", reason="rate_limit_exceeded", cooldown_ms=3_600_000)
    made = made_of(operator={"p": [own]})
    assert decided(made, body="a .* b") == "operator.p.1"
    assert decided(made, body="anything") == "no-rule"
    assert decided(made, status=400, body=".*") == "no-rule"
    verdict = made.judge(answer(403, ".*"), provider="P", dialect=None, now=NOW)
    assert (verdict.kind, verdict.scope, verdict.reason) == ("rate_limit", "connection", "rate_limit_exceeded")
    assert verdict.cooldown_s == 3600


def test_fc_60_an_operator_rule_defaults_to_quota() -> None:
    """FC-60; edge case 11."""
    made = made_of(operator={"p": [OperatorRule(status=403, match="x", scope="connection")]})
    verdict = made.judge(answer(403, "x"), provider="p", dialect=None, now=NOW)
    assert (verdict.kind, verdict.reason, verdict.scope) == ("quota_exhausted", "quota_exhausted", "connection")
    assert verdict.cooldown_s is None


def test_edge_13_51_operator_rules_are_refused() -> None:
    made = made_of(operator={"p": [OperatorRule(status=403, match=str(n), scope="model") for n in range(51)]})
    assert made.problems == (
        "51 operator rules; at most 50 are allowed (FC-60), so none is in force. Move lasting ones into a pack of your own",
    )
    assert decided(made, body="7") == "no-rule"


def test_a_rule_overrides_what_follows_from_its_kind() -> None:
    more = {
        "scope": "model",
        "retry_other": False,
        "terminal": True,
        "breaker": True,
        "retry_same": True,
        "status": 418,
        "reason": "unknown",
    }
    verdict = made_of(p={"classify": [rule("a", **more)]}).judge(answer(403, "x"), provider="p", dialect=None, now=NOW)
    assert {name: getattr(verdict, name) for name in more} == more


def test_a_reason_alone_says_the_kind() -> None:
    made = made_of(p={"classify": [{"id": "a", "when": {"status": 403}, "reason": "model_capacity"}]})
    assert made.judge(answer(403), provider="p", dialect=None, now=NOW).kind == "overloaded"


def test_the_trace_tells_every_rule_that_was_tried_and_why_not() -> None:
    made = made_of(
        p={
            "restate": [{"id": "r", "when": {"status": 403, "text": "x"}, "status": 429}],
            "classify": [
                rule("a", when={"status": 429, "code": "c"}),
                rule("b", when={"status": 429, "text": "x"}, unless={"text": "x"}),
                rule("c", when=[{"status": 400}, {"status": 429, "text": "x"}], about="why"),
                rule("d"),
            ],
        }
    )
    trace = made.trace(answer(403, "x"), provider="p", dialect=None)
    assert [(step.part, step.rule.id, step.missed, step.about) for step in trace] == [
        ("restate", "r", None, ""),
        ("classify", "a", "code", ""),
        ("classify", "b", "unless", ""),
        ("classify", "c", None, "why"),
    ]
    assert made.trace(answer(200), provider="p", dialect=None) == ()


def test_one_rule_can_be_asked_alone() -> None:
    made = made_of(
        p={
            "restate": [{"id": "r", "when": {"status": 403, "text": "x"}, "status": 429}],
            "classify": [rule("a", when={"status": 429, "text": "x"})],
        }
    )
    assert made.matches("r", answer(403, "x"), provider="p", dialect=None)
    assert made.matches("a", answer(403, "x"), provider="p", dialect=None)
    assert not made.matches("a", answer(429, "y"), provider="p", dialect=None)
    with pytest.raises(KeyError):
        made.matches("nope", answer(429), provider="p", dialect=None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(0, "network"), (200, "ok"), (302, "ok"), (400, "invalid_request"), (429, "rate_limit"), (500, "server_error")],
)
def test_without_any_rule_the_status_decides(status: int, kind: str) -> None:
    verdict = made_of().judge(answer(status, "x"), provider=None, dialect=None, now=NOW)
    assert (verdict.kind, verdict.rule.id) == (kind, "no-rule")


def test_an_error_in_a_success_without_any_rule_is_a_server_error() -> None:
    verdict = made_of().judge(answer(200, {"error": {"message": "m"}}), provider=None, dialect=None, now=NOW)
    assert (verdict.kind, verdict.status) == ("server_error", 502)


def test_sr_7_a_fault_of_the_engine_never_costs_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """SR-7"""

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr(judge, "view", broken)
    verdict = made_of().judge(answer(429, "x"), provider=None, dialect=None, now=NOW)
    assert (verdict.kind, verdict.terminal, verdict.rule.id) == ("rate_limit", False, "no-rule")
    assert made_of().restate(answer(429, "x"), provider=None, dialect=None) is None
    assert made_of().classify(answer(429, "x"), provider=None, dialect=None, restatement=None, now=NOW) == verdict


def test_restate_then_classify_is_judge(book: RuleBook) -> None:
    for given in (answer(403, "额度不足"), answer(200, {"error": {"message": "m"}}), answer(401, "x")):
        asked = {"provider": "agentrouter", "dialect": None}
        restatement = book.restate(given, **asked)
        verdict = book.classify(given, restatement=restatement, now=NOW, **asked)
        assert verdict == book.judge(given, now=NOW, **asked)


def test_a_fault_of_the_time_reader_costs_only_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("bug")

    monkeypatch.setattr("omniroute_addon.verdicts.build_verdict.find_retry_after", broken)
    verdict = made_of().judge(answer(429, "x"), provider=None, dialect=None, now=NOW)
    assert (verdict.kind, verdict.retry_after) == ("rate_limit", None)


def test_the_repr_counts(book: RuleBook) -> None:
    assert repr(book).startswith("<RuleBook restate=2 classify=")
    assert repr(book).endswith(" refused=0>")


def test_the_bundled_rules_are_indexed_and_remembered(book: RuleBook) -> None:
    assert book.rules["banned"].id == "banned"
    assert isinstance(book.rules["groq-tpm-misstatus"], RestateRule)
    assert isinstance(book.rules["banned"], ClassifyRule)
