"""Counting: strict and lenient, per kind and provider, and every costly mistake by name (issue 3, point 8)."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest

from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import load_packs
from omniroute_addon.verdicts import ClassifyRule, RuleBook, RuleLists
from omniroute_addon.verdicts.corpus import Case, parse_case
from omniroute_addon.verdicts.score import COSTLY, Judged, costly, judge_case, report, score, weighted

RIGHT: dict[str, Any] = {
    "kind": "rate_limit",
    "scope": "connection",
    "retry_other": True,
    "terminal": False,
    "retry_after_s": None,
    "retry_after_from": None,
    "breaker": False,
}
PACKS = load_packs(pack_folders()[:1])[0]


def case(id: str = "a-1", *, note: str = "", provider: str = "a", **expect: Any) -> Case:
    return parse_case(
        json.dumps(
            {
                "id": id,
                "provider": provider,
                "endpoint": "POST /v1/chat/completions",
                "status": 429,
                "headers": {},
                "body": "slow down",
                "stream": False,
                "expect": RIGHT | expect,
                "note": note,
            }
        )
    )


def judged(of: Case | None = None, *, absolute: bool = False, **got: Any) -> Judged:
    of = of or case()
    return Judged(case=of, got=RIGHT | got, absolute=absolute, rule="r")


def mistakes(j: Judged) -> list[str]:
    return [name for name, ids in costly([j]).items() if ids]


def test_strict_is_equal_and_lenient_may_be_debatable() -> None:
    j = judged(case(note="[debatable: kind=overloaded, kind=forbidden]"), kind="forbidden")
    assert not j.right("kind", lenient=False)
    assert j.right("kind", lenient=True)
    assert not judged(kind="ok").right("kind", lenient=True)
    assert judged().right("kind", lenient=False)


@pytest.mark.parametrize(
    ("wanted", "got", "right"),
    [(None, None, True), (None, 5.0, False), (5, None, False), (5, 6.0, True), (5, 6.1, False), (1000, 1019.0, True),
     (1000, 1021.0, False), (0.644, 0.644, True)],
)  # fmt: skip
def test_a_wait_is_right_within_a_second_or_two_percent(wanted: Any, got: Any, right: bool) -> None:
    j = judged(case(retry_after_s=wanted), retry_after_s=got)
    assert j.right("retry_after_s", lenient=False) is right


def test_a_computed_wait_is_right_where_the_corpus_leaves_a_point_in_time_open() -> None:
    of = case(retry_after_from="absolute:text:try again tomorrow")
    assert judged(of, absolute=True, retry_after_s=9000.0).right("retry_after_s", lenient=False)
    assert judged(of).right("retry_after_s", lenient=False)
    assert not judged(of, absolute=False, retry_after_s=9000.0).right("retry_after_s", lenient=False)
    assert not judged(absolute=True, retry_after_s=9000.0).right("retry_after_s", lenient=False)


@pytest.mark.parametrize(
    ("wanted", "got", "right"),
    [
        ("header:retry-after", "header:retry-after", True),
        ("header:retry-after", "header:retry-after-ms", False),
        ("header:retry-after", "text:retry-after", False),
        ("absolute:body:error.resets_at=2026-10-01", "body:error.resets_at", True),
        ("text:Try again in 5s", "text:Please try again in 5s", True),
        ("text:您的限额将在 2026-08-25 重置", "text:将在 2026-08-25", True),
        ("text:inténtelo en 30 segundos", "text:int\ufffdntelo en 30 segundos", True),
        ("text:wait", "text:reset", False),
        (None, None, True),
        ("header:retry-after", None, False),
        (None, "header:retry-after", False),
    ],
)
def test_provenance_is_compared_by_name_path_or_words(wanted: Any, got: Any, right: bool) -> None:
    j = judged(case(retry_after_from=wanted), retry_after_from=got)
    assert j.right("retry_after_from", lenient=False) is right


@pytest.mark.parametrize(
    ("expect", "got", "names"),
    [
        ({}, {}, []),
        ({}, {"terminal": True}, ["healthy_taken_out"]),
        ({"terminal": True}, {"terminal": False}, ["dead_kept"]),
        ({"kind": "ok"}, {"kind": "quota_exhausted"}, ["lookalike_misread"]),
        ({"kind": "ok"}, {"kind": "server_error"}, []),
        ({"kind": "overloaded"}, {"kind": "rate_limit"}, []),
        ({"scope": "model"}, {"scope": "provider"}, ["too_wide"]),
        ({"scope": "request"}, {"scope": "connection"}, ["too_wide"]),
        ({"scope": "request"}, {"scope": "model"}, []),
        ({"scope": "connection"}, {"scope": "provider"}, []),
        ({"retry_other": False}, {"retry_other": True}, ["wasted_retry"]),
        ({"retry_other": True}, {"retry_other": False}, ["lost_request"]),
        ({}, {"breaker": True}, ["breaker_wrong"]),
        ({"breaker": True}, {"breaker": False}, []),
        ({"retry_after_s": 5}, {"retry_after_s": 500.0}, ["wait_wrong"]),
        ({}, {"retry_after_s": 5.0}, ["wait_wrong"]),
    ],
)
def test_each_costly_mistake_has_its_name(expect: dict[str, Any], got: dict[str, Any], names: list[str]) -> None:
    assert mistakes(judged(case(**expect), **(expect | got))) == names


def test_what_the_case_calls_debatable_is_no_mistake() -> None:
    note = "[debatable: terminal=true, retry_other=false, breaker=true, scope=provider, retry_after_s=9] LOOK-ALIKE: x"
    of = case(note=note, scope="model")
    got: dict[str, Any] = {
        "terminal": True,
        "retry_other": False,
        "breaker": True,
        "scope": "provider",
        "retry_after_s": 9.0,
    }
    assert mistakes(judged(of, **got)) == []
    assert mistakes(judged(case(note="LOOK-ALIKE: x", kind="overloaded"), kind="rate_limit")) == ["lookalike_misread"]


def test_the_macro_mean_gives_every_kind_the_same_weight() -> None:
    many = [judged(case(f"a-{n}")) for n in range(9)]
    rare = judged(case("b-1", kind="timeout", provider="b"), kind="network")
    part = report([*many, rare])
    assert part["fields"]["kind"] == {"strict": 0.9, "lenient": 0.9, "macro_strict": 0.5, "macro_lenient": 0.5}
    assert part["per_kind"]["timeout"]["cases"] == 1
    assert part["per_kind"]["timeout"]["kind"] == {"strict": 0.0, "lenient": 0.0}
    assert part["per_provider"]["b"]["scope"] == {"strict": 1.0, "lenient": 1.0}
    assert set(part["costly"]) == set(COSTLY)


def test_debatable_cases_weigh_half_in_the_single_number() -> None:
    wrong: dict[str, Any] = {"kind": "ok", "scope": "request", "retry_other": False, "terminal": True, "breaker": True}
    bad = judged(case("b", note="[debatable: kind=ok]"), retry_after_s=5.0, **wrong)
    assert weighted([judged(), bad]) == pytest.approx(2 / 3, abs=1e-4)
    assert weighted([]) == 0.0


def book(*rules: dict[str, Any]) -> RuleBook:
    class File:
        file = "f.yaml"
        lists = RuleLists(classify=[ClassifyRule.model_validate(rule) for rule in rules])
        lines: ClassVar[dict[str, int]] = {}

    return RuleBook.build({"a": [File()]})


def test_the_provider_is_known_in_one_run_and_not_in_the_other() -> None:
    rules = book({"id": "a-slow", "when": {"text": "slow down"}, "kind": "overloaded"})
    of = case(kind="overloaded")
    assert judge_case(of, rules, PACKS, provider_known=True).rule == "a-slow"
    assert judge_case(of, rules, PACKS, provider_known=False).rule != "a-slow"
    result = score([of], rules, PACKS)
    assert result["cases"] == result["without_provider"]["cases"] == 1
    assert result["fields"]["kind"]["strict"] == 1.0
    assert result["without_provider"]["fields"]["kind"]["strict"] == 0.0
    assert set(result) - {"without_provider", "cases"} == {"fields", "per_kind", "per_provider", "costly", "weighted"}
    json.dumps(result)


def test_after_commit_nothing_is_tried_elsewhere() -> None:
    sse = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    of = parse_case(
        json.dumps(
            {
                "id": "cut",
                "provider": "a",
                "endpoint": "POST /v1/chat/completions",
                "status": 200,
                "headers": {"content-type": "text/event-stream"},
                "body": sse,
                "stream": True,
                "expect": RIGHT | {"kind": "network", "retry_other": False},
            }
        )
    )
    got = judge_case(of, RuleBook.build({}), PACKS, provider_known=True).got
    assert (got["kind"], got["retry_other"]) == ("network", False)
