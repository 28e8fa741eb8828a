"""Client × situation: what each measured client is told when nothing can serve it (`clients.md`, 4, 5, 17, section 3)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from omniroute_addon.clients.book import ClientBook
from omniroute_addon.clients.merge import build_clients
from omniroute_addon.clients.profile_files import client_folder, read_profile_file
from omniroute_addon.dialects import dialect
from omniroute_addon.exchange import Exchange, RawAnswer
from omniroute_addon.final_answer import final_reply
from omniroute_addon.model import AnswerForm, ClientProfile, DialectName, RetryAfter, Story
from omniroute_addon.pack_files import PackFolder, bundled_rules
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_call,
    make_connection,
    make_exclusion,
    make_target,
    make_verdict,
)
from omniroute_addon.wire import Incoming, as_mapping

NOW = 1_800_000_000.0
THEIRS = b'{"error":{"type":"insufficient_quota","message":"their own words"}}'
SPEAKS: dict[str, DialectName] = {
    **dict.fromkeys(("claude-code", "claude-code-oauth", "anthropic-python", "anthropic-node"), "anthropic-messages"),
    **dict.fromkeys(("gemini-cli", "google-genai"), "gemini"),
    "codex": "openai-responses",
}


def _bundled() -> ClientBook:
    folder = client_folder(PackFolder(path=bundled_rules(), label="rules"))
    return build_clients([[s for path in folder.files() if (s := read_profile_file(folder, path)[0])]])[0]


BOOK = _bundled()


@dataclass(frozen=True, kw_only=True)
class Told:
    """A final answer, as far as a client looks at it."""

    status: int
    retry_after: str | None
    should_retry: str | None
    error: Mapping[str, Any]
    body: bytes


def scene(profile: ClientProfile, *stories: Story, wait_s: float | None = None, excluded: bool = False) -> Exchange:
    """`wait_s`: another connection rests so long; `excluded`: another may not be used, for nobody knows how long."""
    speaks = SPEAKS.get(profile.id, "openai-chat")
    ex = Exchange(
        call=make_call(dialect=speaks),
        incoming=Incoming(method="POST", scheme="https", host="h", port=443, path="/", headers=(), body=b""),
        body=b"",
        dialect=dialect(speaks),
        profile=profile,
        targets=(),
        started_at=NOW,
        deadline_at=NOW + 600,
    )
    ex.stories = list(stories)
    ex.attempt = stories[-1].attempt if stories else None
    fields = ((b"content-type", b"application/json"), (b"x-should-retry", b"false"))
    ex.raw = {s.attempt.number: RawAnswer(status=s.answer.status, headers=fields, body=THEIRS) for s in stories}
    if wait_s is not None:
        ex.exclusions = (make_exclusion(make_target(make_connection("resting")), until=NOW + wait_s),)
    elif excluded:
        ex.exclusions = (make_exclusion(make_target(make_connection("barred"))),)
    return ex


def failed(kind: str, status: int, *, own: bool = False, hint_s: float | None = None, terminal: bool = False) -> Story:
    hint = RetryAfter(seconds=hint_s, source="header:retry-after") if hint_s is not None else None
    verdict = make_verdict(kind, status=status, retry_after=hint, terminal=terminal, message="their own words")
    attempt = make_attempt(make_target(make_connection("a", own=own)), started_at=NOW - 1)
    return Story(attempt=attempt, answer=make_answer(status), verdict=verdict, ended_at=NOW)


def tell(ex: Exchange, *, survival: bool = True) -> Told:
    reply = final_reply(ex, NOW, survival=survival)
    fields = as_mapping(reply.headers)
    return Told(
        status=reply.status,
        retry_after=fields.get("retry-after"),
        should_retry=fields.get("x-should-retry"),
        error=json.loads(reply.body)["error"],
        body=reply.body,
    )


RESTS: dict[str, dict[float, tuple[int, str | None, str | None]]] = {
    # Seconds until the earliest way out -> status, Retry-After, x-should-retry.
    "claude-code": {20: (429, "20", None), 90: (429, "55", None), 540: (429, "55", None), 3600: (429, "3600", "false")},
    "claude-code-oauth": {20: (529, "20", None), 90: (529, "55", None), 3600: (429, "3600", "false")},
    "codex": {20: (429, "20", None), 300: (429, "300", None), 3600: (429, None, None)},
    "gemini-cli": {20: (429, "20", None), 3600: (429, "3600", None)},
    "opencode": {20: (429, "20", None), 3600: (402, None, None)},
    "openai-python": {20: (429, "20", None), 200: (429, "120", None), 3600: (429, "3600", "false")},
    "openai-node": {20: (429, "20", None), 300: (429, "300", None), 3600: (429, "3600", "false")},
    "anthropic-python": {20: (429, "20", None), 300: (429, "300", None), 3600: (429, "3600", "false")},
    "anthropic-node": {20: (429, "20", None), 3600: (429, "3600", "false")},
    "langchain": {20: (429, "20", None), 3600: (429, "3600", "false")},
    "llm": {20: (429, "20", None), 3600: (429, "3600", "false")},
    "aider": {20: (429, "20", None), 3600: (429, "3600", None)},
    "litellm": {20: (429, "20", None), 3600: (429, "3600", None)},
    "google-genai": {20: (429, "20", None), 3600: (429, "3600", None)},
    "curl": {20: (429, "20", None), 3600: (429, "3600", None)},
    "default": {20: (429, "20", None), 3600: (429, "3600", None)},
}
CASES = [(id_, wait_s, wanted) for id_, rows in RESTS.items() for wait_s, wanted in rows.items()]


def test_no_profile_is_left_out() -> None:
    assert RESTS.keys() == BOOK.profiles.keys()


@pytest.mark.parametrize(("id_", "wait_s", "wanted"), CASES)
def test_everything_rests(id_: str, wait_s: float, wanted: tuple[int, str | None, str | None]) -> None:
    """(e), (f): near, the client comes back; far, it ends with the reason. The true time is in the message."""
    told = tell(scene(BOOK.profiles[id_], wait_s=wait_s))
    assert (told.status, told.retry_after, told.should_retry) == wanted
    assert "free again in" in told.error["message"] and "2027-01-15" in told.error["message"]


@pytest.mark.parametrize("id_", RESTS)
@pytest.mark.parametrize("wait_s", [20, 90, 3600])
def test_honest_is_the_true_status_and_time_for_everybody(id_: str, wait_s: int) -> None:
    told = tell(scene(BOOK.profiles[id_], wait_s=wait_s), survival=False)
    assert (told.status, told.retry_after, told.should_retry) == (429, str(wait_s), None)


@pytest.mark.parametrize("id_", RESTS)
@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("survival", [True, False])
def test_g_a_rejected_key_of_a_pool_is_no_login_error_of_the_client(id_: str, status: int, survival: bool) -> None:
    """(g): with our code, in its dialect; and who can be told so does not come back for nothing."""
    told = tell(scene(BOOK.profiles[id_], failed("auth_invalid", status, terminal=True)), survival=survival)
    wanted = {"opencode": 402, "gemini-cli": 429}.get(id_, 503) if survival else 503
    assert told.status == wanted
    assert "rejected the credential" in told.error["message"] and b"their own words" not in told.body
    assert "connections_rejected" in told.body.decode()
    stops = survival and id_ in {*SPEAKS, "openai-python", "openai-node", "langchain", "llm"} - {
        *("codex", "gemini-cli", "google-genai")
    }
    assert told.should_retry == ("false" if stops else None)


@pytest.mark.parametrize("id_", RESTS)
@pytest.mark.parametrize("status", [401, 403, 402, 429, 500, 503, 529])
def test_the_clients_own_credential_alone_gets_the_upstreams_answer(id_: str, status: int) -> None:
    """First, do no harm: byte for byte, whatever the profile says."""
    kind = {429: "rate_limit", 402: "credits_exhausted"}.get(status, "auth_invalid" if status < 500 else "overloaded")
    reply = final_reply(scene(BOOK.profiles[id_], failed(kind, status, own=True, hint_s=3600)), NOW)
    assert (reply.status, reply.body) == (status, THEIRS)
    assert reply.headers[1] == (b"x-should-retry", b"false") and "retry-after" not in as_mapping(reply.headers)


def test_codex_is_never_handed_words_that_end_it() -> None:
    """`insufficient_quota`, `usage_limit_reached`: permanent for Codex, although the pool is free again in 20 s."""
    told = tell(scene(BOOK.profiles["codex"], failed("quota_exhausted", 429), wait_s=20))
    assert (told.status, told.retry_after) == (429, "20")
    assert told.error["type"] == "rate_limit_error" and b"insufficient_quota" not in told.body


def test_codex_is_always_told_a_time_with_a_429_that_ends_by_itself() -> None:
    """It dies of a 429 that says nothing."""
    told = tell(scene(BOOK.profiles["codex"], failed("rate_limit", 429)))
    assert (told.status, told.retry_after) == (429, "10")
    assert "free again" not in told.error["message"]  # nobody knows when


def test_codex_shows_the_true_time_and_stops_when_it_is_far() -> None:
    """`usage_limit_reached` with `resets_at`, without Retry-After: 'Try again at …', one request."""
    told = tell(scene(BOOK.profiles["codex"], wait_s=3600))
    assert told.error["type"] == "usage_limit_reached"
    assert (told.error["resets_at"], told.error["resets_in_seconds"]) == (NOW + 3600, 3600)
    assert told.error["reset_at"] == "2027-01-15T09:00:00Z"


def test_gemini_cli_reads_the_time_in_the_body_and_a_days_quota_ends_it() -> None:
    details = {
        d["@type"].rpartition(".")[2]: d for d in tell(scene(BOOK.profiles["gemini-cli"], wait_s=20)).error["details"]
    }
    assert details["RetryInfo"]["retryDelay"] == "20s" and "QuotaFailure" not in details
    far = tell(scene(BOOK.profiles["gemini-cli"], wait_s=3600)).error["details"]
    assert "PerDay" in str(far) and {"3600s"} == {d["retryDelay"] for d in far if "retryDelay" in d}


def test_a_cut_short_time_is_only_in_the_header() -> None:
    """Claude Code obeys 55 s and gives up at 62 s: the message says what is true."""
    told = tell(scene(BOOK.profiles["claude-code"], failed("rate_limit", 429, hint_s=400)))
    assert (told.status, told.retry_after, told.error["retry_after"]) == (429, "55", 400)
    assert told.error["message"] == "their own words. A connection is free again in 7 min, at 2027-01-15 08:06:40 UTC."


def test_where_their_bytes_are_true_and_fit_they_stay() -> None:
    """`design.md` §8; what their connection alone says of retrying does not stand."""
    told = tell(scene(BOOK.profiles["claude-code"], failed("rate_limit", 429, hint_s=30)))
    assert (told.status, told.body, told.retry_after, told.should_retry) == (429, THEIRS, "30", None)


@pytest.mark.parametrize("id_", RESTS)
def test_what_is_about_the_request_is_nobodys_form(id_: str) -> None:
    """A21, also for the status of a rate limit."""
    bad = failed("content_policy", 429, hint_s=5)
    bad = replace(bad, verdict=replace(bad.verdict, retry_other=False, scope="request"))
    reply = final_reply(scene(BOOK.profiles[id_], bad), NOW)
    assert (reply.status, reply.body) == (429, THEIRS)


@pytest.mark.parametrize("id_", RESTS)
def test_a_plain_server_fault_is_told_as_it_is(id_: str) -> None:
    told = tell(scene(BOOK.profiles[id_], failed("server_error", 500)))
    assert (told.status, told.retry_after) == (500, "10" if id_ == "codex" else None)


def test_a_form_says_everything_that_it_may() -> None:
    """Each field of a form, by itself."""
    mine = ClientProfile(reach_s=60, near=AnswerForm(code="busy"), far=AnswerForm(retry_after=False))
    near = tell(scene(mine, wait_s=30))
    assert (near.status, near.error["code"], near.retry_after) == (429, "busy", "30")
    far = tell(scene(mine, failed("rate_limit", 429, hint_s=90)))
    assert (far.body, far.retry_after) == (THEIRS, None)
    assert tell(scene(mine, excluded=True)).retry_after is None
