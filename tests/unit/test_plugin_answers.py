"""What a plugin said is an answer, or the plugin's fault."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from omniroute_addon import hookimpl
from omniroute_addon.plugin_answers import checked, checked_headers
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.testing.calls import make_call, make_exclusion, make_target, make_verdict

GOOD: list[tuple[str, Any, Any]] = [
    ("intercept", True, True),
    ("identify", make_call(), make_call()),
    ("resolve", [make_target("a")], (make_target("a"),)),
    ("exclude", (e for e in [make_exclusion()]), (make_exclusion(),)),
    ("order", (), ()),
    ("classify", make_verdict(), make_verdict()),
    ("wait", 3, 3.0),
    ("wait", None, None),
    ("finish", "whatever", "whatever"),
]
BAD: list[tuple[str, Any, str]] = [
    ("intercept", "yes", "answered 'yes'; expected bool"),
    ("identify", {"a": "sk-secret"}, "answered dict; expected ModelCall"),
    ("resolve", 5, "answered int; expected a sequence of Target"),
    ("order", "ab", "answered 'ab'; expected a sequence of Target"),
    ("exclude", [make_exclusion(), None], "answered a sequence with NoneType in it; expected Exclusion"),
    ("exclude", [make_exclusion(until="soon")], "answered 'soon'; expected a number of seconds"),
    ("resolve", [make_target("a", url="nowhere")], "answered a target of a whose `url` is no http or https address"),
    (
        "resolve",
        [make_target("a", url="http://h:port/v1")],
        "answered a target of a whose `url` is no http or https address",
    ),
    ("admit", 5, "answered int; expected Awaitable"),
    ("classify", "no", "answered 'no'; expected Verdict"),
    ("wait", float("inf"), "answered float; expected a number of seconds"),
    ("wait", True, "answered bool; expected a number of seconds"),
]
BAD_HEADERS: list[tuple[dict[Any, Any], str]] = [
    ({"x-a": None}, "set the header 'x-a' to NoneType; expected text for both, `del` to delete"),
    ({5: "x"}, "set the header int to 'x'; expected text for both, `del` to delete"),
    ({"x a": "x"}, "set the header str, which is no name for a header"),
    ({"x-a": "1\r\nx-b: 2"}, "set the header 'x-a' to a value with a line break or NUL in it"),
]


@pytest.mark.parametrize(("hook", "answer", "read"), GOOD)
def test_an_answer_is_read(hook: str, answer: Any, read: Any) -> None:
    assert checked(hook, answer) == read


def test_a_permit_is_anything_that_can_be_awaited() -> None:
    loop = asyncio.new_event_loop()
    permit = loop.create_future()
    assert checked("admit", permit) is permit
    loop.close()


@pytest.mark.parametrize(("hook", "answer", "text"), BAD)
def test_nonsense_is_told_without_its_content(hook: str, answer: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        checked(hook, answer)
    assert str(caught.value) == text


@pytest.mark.parametrize(("headers", "text"), BAD_HEADERS)
def test_headers_that_no_wire_can_carry_are_told(headers: dict[Any, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        checked_headers(headers)
    assert str(caught.value) == text


@pytest.mark.parametrize("late_fault", [True, False])
def test_a_prepare_that_fails_leaves_nothing_behind(late_fault: bool) -> None:
    class Half:
        @hookimpl
        def prepare(self, headers: dict[str, Any]) -> None:
            headers["x-mine"] = "1"
            del headers["x-old"]
            if late_fault:
                raise RuntimeError("late")
            headers["x-bad"] = 7

    host = PluginHost()
    host.register(Half(), name="half")
    headers = {"x-old": "1"}
    host.each("prepare", call=make_call(), target=make_target(), headers=headers)
    assert headers == {"x-old": "1"}
    assert host.plugins()[0].faults == 1
