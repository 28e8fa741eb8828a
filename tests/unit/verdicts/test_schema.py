"""What a rule may look like in YAML, and what is said when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from omniroute_addon.verdicts.schema import ClassifyRule, Example, OperatorRule, RestateRule, RuleLists
from omniroute_addon.verdicts.schema_values import parse_statuses


def classify(**fields: Any) -> ClassifyRule:
    return ClassifyRule.model_validate({"id": "a", "when": {"status": 429}, "kind": "rate_limit", **fields})


def restate(**fields: Any) -> RestateRule:
    return RestateRule.model_validate({"id": "a", "when": {"status": [403], "text": "x"}, "status": 429, **fields})


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("500ms", 0.5), ("60s", 60), ("5m", 300), ("6h", 21600), ("30d", 2_592_000), (7, 7), (1.5, 1.5), ("1.5s", 1.5)],
)
def test_a_duration_is_seconds_or_text_with_a_unit(written: Any, seconds: float) -> None:
    assert classify(cooldown=written).cooldown == seconds


@pytest.mark.parametrize("written", ["soon", "5 parsecs", -1, "31d", float("nan"), float("inf")])
def test_a_bad_duration_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        classify(cooldown=written)


def test_statuses_are_numbers_ranges_and_classes() -> None:
    assert parse_statuses([429, "500-502", "5xx", 0]) == {0, 429, *range(500, 600)}


@pytest.mark.parametrize("written", ["6xx", "five", 99, 600, "503-500", "0-99"])
def test_a_bad_status_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError, match="status"):
        classify(when={"status": [written]})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"when": {}}, "a set of conditions needs at least one"),
        ({"when": {"text": [" "]}}, "an empty phrase would match every answer"),
        ({"when": {"text": ["x" * 301]}}, "at most 300 characters"),
        ({"when": {"json": {"a": {}}}}, "write at least one of text, count, below, above"),
        ({"when": {"txt": "x"}}, "Extra inputs are not permitted"),
        ({"kind": None}, "write `kind:`"),
        ({"id": "Not An Id"}, "pattern"),
    ],
)
def test_a_classification_that_cannot_work_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        classify(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"when": {"text": "x"}}, r"must name the statuses that lie.*SR-10"),
        (
            {"when": {"status": [403, 429], "text": "x"}},
            r"contains 429, the status that this rule restates to \(SR-10\)",
        ),
        ({"when": {"status": [200], "text": "x"}}, r"only an error status can be restated, not 200 \(SR-3, SR-10\)"),
        ({"when": {"status": [403]}}, r"needs words of the gateway.*SR-11"),
        ({"when": {"status": [403], "text": "x", "header": {"a": True}}}, r"headers never decide a restatement.*SR-20"),
        ({"status": 200}, "greater than or equal to 400"),
    ],
)
def test_a_restatement_that_may_not_be_is_refused(fields: dict[str, Any], said: str) -> None:
    """SR-3, SR-10, SR-11, SR-16, SR-20."""
    with pytest.raises(ValidationError, match=said):
        restate(**fields)


def test_sr_16_another_error_status_than_429_is_allowed() -> None:
    assert restate(status=503).status == 503


@pytest.mark.parametrize("outcome", [{}, {"expect": {"kind": "ok"}, "no_match": True}])
def test_an_example_has_exactly_one_outcome(outcome: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="an example needs either"):
        Example.model_validate({"status": 429, **outcome})


@pytest.mark.parametrize(
    "fields",
    [
        {"match": ""},
        {"match": "x" * 201},
        {"status": 99},
        {"scope": "planet"},
        {"cooldown_ms": -1},
        {"cooldown_ms": 2_592_000_001},
    ],
)
def test_fc_59_an_operator_rule_is_bounded(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OperatorRule.model_validate({"status": 403, "match": "x", "scope": "model", **fields})


def test_single_values_may_stand_without_a_list() -> None:
    lists = RuleLists.model_validate(
        {"phrases": {"Q": "x"}, "classify": [{"id": "a", "when": {"code": 1113}, "kind": "ok"}]}
    )
    assert lists.phrases == {"Q": ["x"]}
    assert lists.classify[0].when[0].code == ["1113"]
