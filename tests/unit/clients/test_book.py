"""Who is recognised, and how a user's profile stands over a bundled one."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.clients.book import ClientBook, compile_glob
from omniroute_addon.clients.merge import build_clients
from omniroute_addon.clients.profile_files import ProfileSource, read_profile
from omniroute_addon.model import ClientProfile


def source(text: str, file: str = "rules/clients/x.yaml") -> ProfileSource:
    found, problems = read_profile(text.encode(), file=file)
    assert (problems, found is not None) == ([], True), problems
    assert found
    return found


def book(*texts: str, own: tuple[str, ...] = ()) -> ClientBook:
    built, problems = build_clients([[source(t) for t in texts], [source(t, "own/x.yaml") for t in own]])
    assert problems == []
    return built


def told(known: ClientBook, user_agent: str = "", **more: str) -> str:
    request = {name: more.pop(name) for name in ("host", "path", "agent") if name in more}
    fields = {name.replace("_", "-").encode(): value.encode() for name, value in more.items()}
    return known.recognise({b"user-agent": user_agent.encode(), **fields}, **request).id


FAMILY = (
    "{id: default, keep_alive: {gemini: none}}",
    "{id: sdk, when: {user_agent: [SDK/*, AsyncSDK/*]}}",
    "{id: sdk-new, when: {user_agent: SDK/2.*}}",
    "{id: tool, when: {user_agent: SDK/*, headers: {x-tool: true}}}",
    "{id: tool-oauth, when: {user_agent: SDK/*, headers: {x-tool: true, x-beta: ['*oauth*']}}}",
    "{id: bare, when: [{headers: {originator: bare_*}}, {agent: bare}]}",
    "{id: at-acme, when: {user_agent: SDK/*, host: '*.acme.example', path: /v2/*}}",
)


@pytest.mark.parametrize(
    ("request_", "id_"),
    [
        ({}, "default"),
        ({"user_agent": "curl/8"}, "default"),
        ({"user_agent": "xSDK/1"}, "default"),
        ({"user_agent": "SDK/1.0"}, "sdk"),
        ({"user_agent": "asyncsdk/1.0"}, "sdk"),
        ({"user_agent": "SDK/2.1"}, "sdk-new"),
        ({"user_agent": "SDK/2.1", "x_tool": ""}, "tool"),
        ({"user_agent": "SDK/1.0", "x_tool": "1", "x_beta": "a,OAuth-1"}, "tool-oauth"),
        ({"user_agent": "SDK/1.0", "x_beta": "oauth"}, "sdk"),
        ({"user_agent": "SDK/1.0", "originator": "bare_cli"}, "sdk"),
        ({"user_agent": "other", "originator": "bare_cli"}, "bare"),
        ({"user_agent": "SDK/1.0", "x_tool": "1", "x_beta": "oauth", "agent": "bare"}, "bare"),
        ({"user_agent": "SDK/1.0", "agent": "else"}, "sdk"),
        ({"user_agent": "SDK/1.0", "host": "api.acme.example", "path": "/v2/chat?x=1"}, "at-acme"),
        ({"user_agent": "SDK/1.0", "host": "api.acme.example", "path": "/v1/chat"}, "sdk"),
    ],
)
def test_the_most_specific_profile_wins(request_: dict[str, str], id_: str) -> None:
    """Whatever the order of the files, and the second time (from memory) as the first."""
    for seed in range(5):
        texts = list(FAMILY)
        random.Random(seed).shuffle(texts)
        known = book(*texts)
        assert [told(known, **request_), told(known, **request_)] == [id_, id_]


def test_equals_are_decided_by_the_users_own_and_then_by_id() -> None:
    a, b = (f"{{id: {id_}, when: {{user_agent: SDK/*}}}}" for id_ in "ab")
    assert told(book(b, a), "SDK/1") == "a"
    assert told(book(a, own=(b,)), "SDK/1") == "b"


def test_a_users_profile_changes_only_what_it_says() -> None:
    known = book(
        "{id: sdk, name: The SDK, when: {user_agent: SDK/*}, waits: {head_s: 5, idle_s: 6}, account_headers: [X-Acc]}",
        own=("{id: sdk, waits: {head_s: 50}}",),
    )
    profile = known.profiles["sdk"]
    assert (profile.name, profile.account_headers, profile.source) == ("The SDK", {"x-acc"}, "own/x.yaml:1")
    assert (profile.waits.head_s, profile.waits.idle_s) == (50.0, None)
    assert told(known, "SDK/1") == "sdk"


def test_a_stranger_has_the_default_and_there_is_always_one() -> None:
    own = book("{id: default, waits: {head_s: 7}}").recognise({})
    assert (own.id, own.waits.head_s) == ("default", 7.0)
    assert ClientBook().recognise({b"user-agent": b"\xff" * 9999}) == ClientProfile()


def test_what_can_never_be_recognised_and_what_is_there_twice_is_told() -> None:
    layers = [[source("id: a"), source("{id: default, when: {agent: x}}"), source("id: a", "rules/clients/y.yaml")]]
    known, problems = build_clients(layers)
    assert dict(known.profiles) == {}
    assert problems == [
        "rules/clients/y.yaml:1:1: id 'a' is taken by rules/clients/x.yaml. "
        "Give this profile another id, or merge the two files.",
        "rules/clients/x.yaml:1:1: profile 'a' has no `when:`, so it can never be recognised. Add one, or use the id "
        "of a bundled profile to change that one.",
        "rules/clients/x.yaml:1:1: profile 'default' is for whoever is not recognised. Remove its `when:`.",
    ]


def test_many_user_agents_do_not_fill_the_memory() -> None:
    known = book(*FAMILY)
    for number in range(5000):
        told(known, f"SDK/{number}")
    assert len(known._remembered) <= 1024
    assert repr(known) == "<ClientBook profiles=7>"


def test_side_paths_are_globs_of_the_bare_path() -> None:
    profile = book("{id: sdk, when: {agent: x}, side_paths: [/api/**, /v1/*/count]}").profiles["sdk"]
    for path, side in [("/api/a/b?x", True), ("/v1/m/count", True), ("/v1/m/n/count", False), ("/v1/messages", False)]:
        assert ClientBook.is_side_path(profile, path) is side


def test_without_a_word_a_stream_bears_nothing_and_ends_with_an_error() -> None:
    """ST-31."""
    profile = book("{id: sdk, when: {agent: x}, keep_alive: {gemini: ping}, broken_stream: {gemini: cut}}").profiles[
        "sdk"
    ]
    assert (profile.bears("gemini"), profile.ending("gemini")) == ("ping", "cut")
    assert (profile.bears("openai-chat"), profile.ending("openai-chat")) == ("none", "error_event")


@given(st.text("ab*", max_size=8), st.text("abB", max_size=12))
def test_a_glob_means_what_a_regular_expression_would(glob: str, text: str) -> None:
    plain = re.compile(".*".join(map(re.escape, glob.split("*"))), re.IGNORECASE | re.DOTALL)
    assert bool(compile_glob(glob).fullmatch(text)) is bool(plain.fullmatch(text))


def test_no_text_makes_a_glob_slow() -> None:
    """A user's own profile may have many `*`, and anybody may send any user agent."""
    before = time.process_time()
    assert not compile_glob("*a*a*a*a*a*b").fullmatch("a" * 512)
    assert time.process_time() - before < 0.05
