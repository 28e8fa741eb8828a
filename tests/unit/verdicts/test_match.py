"""Each condition by itself: holds, does not hold."""

from __future__ import annotations

from typing import Any

import pytest
from verdict_answers import answer

from omniroute_addon.verdicts.answer_view import view
from omniroute_addon.verdicts.json_path import compile_path
from omniroute_addon.verdicts.match import compile_conditions
from omniroute_addon.verdicts.schema import When

BODY = {
    "error": {
        "message": "Quota gone",
        "code": "C1",
        "type": "T",
        "status": "S",
        "param": "P",
        "details": [{"n": 3, "flag": True}, {"n": "7"}],
        "list": [],
    }
}
SEEN = view(
    answer(429, BODY, headers={"x-left": "0", "retry-after": "90"}, phase="head", fault="timeout:head"),
    provider="P",
    category="api_key",
    dialect="gemini",
)


@pytest.mark.parametrize(
    ("when", "failing"),
    [
        ({"status": 429}, None),
        ({"status": 400}, "status"),
        ({"sent_status": 429}, None),
        ({"sent_status": "2xx"}, "sent_status"),
        ({"phase": "head"}, None),
        ({"phase": ["body"]}, "phase"),
        ({"stream": False, "error": True, "empty": False, "html": False, "cut": False, "output": False}, None),
        ({"stream": True}, "stream"),
        ({"empty": True}, "empty"),
        ({"fault": "timeout:*"}, None),
        ({"fault": ["reset"]}, "fault"),
        ({"provider": "p"}, None),
        ({"provider": "q"}, "provider"),
        ({"category": "oauth"}, "category"),
        ({"dialect": "gemini"}, None),
        ({"code": ["c1"]}, None),
        ({"code": "c*"}, None),
        ({"code": "c"}, "code"),
        ({"type": "t"}, None),
        ({"status_name": "s"}, None),
        ({"status_name": "x"}, "status_name"),
        ({"name": "s"}, None),
        ({"name": "x"}, "name"),
        ({"param": "p"}, None),
        ({"header": {"X-Left": "0"}}, None),
        ({"header": {"x-left": True}}, None),
        ({"header": {"x-other": False}}, None),
        ({"header": {"x-other": True}}, "header x-other"),
        ({"header": {"retry-after": {"above": 60, "below": 100}}}, None),
        ({"header": {"retry-after": {"above": 100}}}, "header retry-after"),
        ({"header": {"x-left": ["1", 0]}}, None),
        ({"json": {"error.details[].n": 7}}, None),
        ({"json": {"error.details[].n": {"below": 4}}}, None),
        ({"json": {"error.details[].n": {"below": 3}}}, "json error.details[].n"),
        ({"json": {"error.details[].flag": ["true"]}}, None),
        ({"json": {"error.details[].flag": {"below": 4}}}, "json error.details[].flag"),
        ({"json": {"error.message": {"below": 4}}}, "json error.message"),
        ({"json": {"error.message": {"text": "quota"}}}, None),
        ({"json": {"error.list": {"count": 0}}}, None),
        ({"json": {"error.list": {"count": 1}}}, "json error.list"),
        ({"json": {"error.nothing": False}}, None),
        ({"json": {"error[].x": True}}, "json error[].x"),
        ({"text": ["quota gone"], "text_all": "$q"}, None),
        ({"text": "x"}, "text"),
        ({"text": "gone", "text_all": "x"}, "text_all"),
    ],
)
def test_a_condition_holds_or_names_itself(when: dict[str, Any], failing: str | None) -> None:
    assert compile_conditions(When.model_validate(when), {"q": ["quota"]}).failing(SEEN) == failing


def test_a_number_that_is_none_never_compares() -> None:
    seen = view(answer(429, {}, headers={"x": "nan"}), provider=None, category=None, dialect=None)
    assert compile_conditions(When.model_validate({"header": {"x": {"above": 0}}}), {}).failing(seen) == "header x"


def test_a_body_without_json_has_no_paths() -> None:
    seen = view(answer(429, "words"), provider=None, category=None, dialect=None)
    assert compile_conditions(When.model_validate({"json": {"a": False}}), {}).failing(seen) is None
    assert compile_conditions(When.model_validate({"json": {"a": True}}), {}).failing(seen) == "json a"


def test_an_empty_step_is_refused() -> None:
    with pytest.raises(ValueError, match="has an empty step"):
        compile_path("a..b")
