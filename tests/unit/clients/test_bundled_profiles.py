"""The profiles that come with the package: recognised as measured, proven, and true to `clients.md`."""

from __future__ import annotations

from typing import Any

import pytest

from omniroute_addon.clients.book import ClientBook
from omniroute_addon.clients.merge import build_clients
from omniroute_addon.clients.profile_examples import check_profiles
from omniroute_addon.clients.profile_files import client_folder, read_profile, read_profile_file
from omniroute_addon.model import DIALECTS, ClientProfile
from omniroute_addon.pack_files import PackFolder, bundled_rules

WANTED = {
    *("claude-code", "claude-code-oauth", "codex", "gemini-cli", "opencode", "aider", "openai-python", "openai-node"),
    *("anthropic-python", "anthropic-node", "google-genai", "litellm", "langchain", "llm", "curl", "default"),
}


def bundled() -> ClientBook:
    folder = client_folder(PackFolder(path=bundled_rules(), label="rules"))
    read = [read_profile_file(folder, path) for path in folder.files()]
    assert [problem for _, problems in read for problem in problems] == []
    book, problems = build_clients([[source for source, _ in read if source]])
    assert problems == []
    return book


BOOK = bundled()


def test_every_measured_client_has_a_profile_that_proves_itself() -> None:
    assert set(BOOK.profiles) >= WANTED
    checked = check_profiles(BOOK)
    assert (checked.problems, checked.profiles) == ((), len(BOOK.profiles))


@pytest.mark.parametrize("profile", BOOK.profiles.values(), ids=lambda p: p.id)
def test_no_profile_says_what_a_measured_client_dies_of(profile: ClientProfile) -> None:
    """`clients.md`, 13 and section 5: Gemini's clients bear nothing, OpenAI chat no ping."""
    assert profile.bears("gemini") == "none"
    assert profile.bears("openai-chat") != "ping"
    for form in (profile.near, profile.far):
        assert not {401, 403, 407} & set(form.statuses.values())
        if profile.retries.retry_after_max_s is not None:
            assert profile.near.retry_after_max_s is not None
            assert profile.near.retry_after_max_s <= profile.retries.retry_after_max_s


def test_the_default_of_the_file_is_no_bolder_than_the_one_of_the_code() -> None:
    careful = ClientProfile()
    assert BOOK.default.waits == careful.waits and BOOK.default.retries == careful.retries
    assert {d: BOOK.default.ending(d) for d in DIALECTS} == {d: careful.ending(d) for d in DIALECTS}
    assert not BOOK.default.early_keep_alive


def test_a_wrong_example_and_a_missing_one_are_told() -> None:
    text = """
id: mine
when: {user_agent: mine/*}
session: {headers: [x-s]}
examples:
  - {headers: {user-agent: mine/1, x-s: a}, session: header:b}
  - {headers: {user-agent: mine/2}, no_match: true}
  - {headers: {user-agent: other/1}}
"""
    other = "id: other\nwhen: {agent: other}\n"
    sources: list[Any] = [read_profile(t.encode(), file="x.yaml")[0] for t in (text, other)]
    book, _ = build_clients([sources])
    assert check_profiles(book).problems == (
        "x.yaml:2: profile 'mine', example 1: session is header:a, expected header:b",
        "x.yaml:2: profile 'mine', example 2: is recognised, and must not be",
        "x.yaml:2: profile 'mine', example 3: is taken for 'default'",
        "x.yaml:1: profile 'other' has no example that must match. Add the headers of a request of this client.",
        "x.yaml:1: profile 'other' has no example that must not match. Add a similar request of another client and "
        "`no_match: true`.",
    )
