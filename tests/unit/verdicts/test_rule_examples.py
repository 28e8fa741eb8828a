"""Every rule proves itself by its examples, or is told with its place."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.verdicts import ClassifyRule, RestateRule, RuleBook, RuleLists
from omniroute_addon.verdicts.rule_examples import check_examples, example_answer
from omniroute_addon.verdicts.schema import Example

MATCH = {"status": 429, "body": {"error": {"message": "slow down, try again in 5s"}}, "expect": {"kind": "overloaded"}}
OTHER = {"status": 429, "body": "hurry up", "no_match": True}


class File:
    file = "rules/acme.yaml"

    def __init__(
        self, *, classify: list[dict[str, Any]] | None = None, restate: list[dict[str, Any]] | None = None
    ) -> None:
        self.lists = RuleLists(
            classify=[ClassifyRule.model_validate(rule) for rule in classify or ()],
            restate=[RestateRule.model_validate(rule) for rule in restate or ()],
        )
        self.lines = {rule.id: 7 for rule in (*self.lists.classify, *self.lists.restate)}


def problems(*examples: dict[str, Any], owner: str = "acme", **rule: Any) -> tuple[str, ...]:
    written = {
        "id": "acme-slow",
        "when": {"text": "slow down"},
        "kind": "overloaded",
        "examples": list(examples),
    } | rule
    files = {owner: [File(classify=[written])]}
    return check_examples(files, RuleBook.build(files)).problems


def test_a_rule_with_both_sorts_of_examples_is_fine() -> None:
    files = {
        "acme": [
            File(
                classify=[{"id": "a", "when": {"text": "slow down"}, "kind": "overloaded", "examples": [MATCH, OTHER]}]
            )
        ]
    }
    checked = check_examples(files, RuleBook.build(files))
    assert (checked.rules, checked.examples, checked.problems) == (1, 2, ())


def test_a_rule_without_one_of_the_two_sorts_is_told() -> None:
    assert problems(OTHER) == (
        "rules/acme.yaml:7: rule 'acme-slow' has no example that must match. "
        "Add an answer as received, with `expect:`.",
    )
    assert problems(MATCH) == (
        "rules/acme.yaml:7: rule 'acme-slow' has no example that must not match. "
        "Add a similar answer with another meaning and `no_match: true`.",
    )


def test_an_example_that_matches_and_must_not_is_told() -> None:
    assert problems(MATCH, {**OTHER, "body": "slow down"}) == (
        "rules/acme.yaml:7: rule 'acme-slow', example 2: matches, and must not",
    )


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ({"kind": "rate_limit"}, "kind is overloaded, expected rate_limit"),
        ({"scope": "egress_ip"}, "scope is provider, expected egress_ip"),
        ({"terminal": True}, "terminal is False, expected True"),
        ({"retry_after_s": 6}, "retry_after_s is 5.0, expected 6.0"),
    ],
)
def test_each_difference_is_told(expect: dict[str, Any], problem: str) -> None:
    found = problems({**MATCH, "expect": expect}, OTHER)
    assert found == (f"rules/acme.yaml:7: rule 'acme-slow', example 1: {problem}",)


def test_an_example_decided_by_another_rule_is_told() -> None:
    first = {"id": "acme-first", "when": {"text": "down"}, "kind": "overloaded", "examples": [MATCH, OTHER]}
    second = {"id": "acme-second", "when": {"text": "slow"}, "kind": "overloaded", "examples": [MATCH, OTHER]}
    files = {"acme": [File(classify=[first, second])]}
    assert check_examples(files, RuleBook.build(files)).problems == (
        "rules/acme.yaml:7: rule 'acme-second', example 1: decided by 'acme-first', not by this rule",
    )


def test_a_restating_rule_is_held_to_its_status_and_default_wait() -> None:
    restated = {"status": 403, "body": "allowance used up", "expect": {"status": 429, "retry_after_s": 60}}
    rule = {
        "id": "acme-lie",
        "when": {"status": [403], "text": "allowance used up"},
        "status": 429,
        "retry_after": "60s",
        "examples": [restated, {"status": 403, "body": "no", "no_match": True}],
    }
    files = {"acme": [File(restate=[rule])]}
    assert check_examples(files, RuleBook.build(files)).problems == ()


def test_a_rule_that_is_switched_off_proves_nothing() -> None:
    files = {"acme": [File(classify=[{"id": "a", "when": {"text": "x"}, "kind": "ok", "enabled": False}])]}
    assert check_examples(files, RuleBook.build(files)).rules == 0


def test_examples_of_shared_files_are_judged_without_a_provider() -> None:
    assert problems(MATCH, OTHER, owner="_openai") == ()
    assert (
        problems({**MATCH, "provider": "acme"}, OTHER, owner="_openai", when={"text": "slow down", "provider": "acme"})
        == ()
    )


def test_an_example_is_an_answer_as_received() -> None:
    answer = example_answer(
        Example.model_validate(
            {"status": 0, "headers": {"X-A": "1"}, "body": "x", "fault": "reset", "phase": "head", "no_match": True}
        )
    )
    assert (answer.status, answer.headers, answer.body, answer.fault, answer.phase) == (
        0,
        {"x-a": "1"},
        b"x",
        "reset",
        "head",
    )
