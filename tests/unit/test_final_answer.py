"""What the client is told when every target is used up."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from omniroute_addon.dialects import dialect
from omniroute_addon.exchange import Exchange, RawAnswer, Reply
from omniroute_addon.final_answer import CODES, broken_engine, final_reply, marks
from omniroute_addon.model import KINDS, Exclusion, Restatement, RetryAfter, RuleRef, Story
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

NOW = 1000.0
BODY = b'{"error": {"message": "their own words"}}'
JSON = (b"content-type", b"application/json")


def story(
    kind: str = "rate_limit",
    *,
    to: str = "a",
    own: bool = False,
    number: int = 1,
    hint_s: float | None = None,
    ended_at: float = NOW,
    status: int = 429,
    **verdict: Any,
) -> Story:
    hint = RetryAfter(seconds=hint_s, source="header:retry-after") if hint_s is not None else None
    fields = {"status": status, "retry_after": hint, "message": "what they said", **verdict}
    attempt = make_attempt(make_target(make_connection(to, own=own)), number=number, started_at=NOW - 5)
    return Story(attempt=attempt, answer=make_answer(status), verdict=make_verdict(kind, **fields), ended_at=ended_at)


def exchange(
    *stories: Story,
    raws: dict[int, RawAnswer] | None = None,
    exclusions: tuple[Exclusion, ...] = (),
    speaks: Any = "openai-chat",
) -> Exchange:
    """Every story has the bytes of its status, unless `raws` says otherwise."""
    ex = Exchange(
        call=make_call(dialect=speaks),
        incoming=Incoming(method="POST", scheme="https", host="h", port=443, path="/", headers=(), body=b""),
        body=b"",
        dialect=dialect(speaks),
        targets=(),
        started_at=NOW,
        deadline_at=NOW + 600,
    )
    ex.stories = list(stories)
    ex.exclusions = exclusions
    ex.attempt = stories[-1].attempt if stories else None
    ex.raw = {s.attempt.number: raw(s.answer.status) for s in stories} if raws is None else raws
    return ex


def raw(status: int = 429, *fields: tuple[bytes, bytes], body: bytes = BODY) -> RawAnswer:
    return RawAnswer(status=status, headers=(JSON, *fields), body=body)


def told(ex: Exchange) -> tuple[int, str | None, str | None]:
    """Status, code and `Retry-After` of the final answer."""
    reply = final_reply(ex, NOW)
    return reply.status, error(reply).get("code"), as_mapping(reply.headers).get("retry-after")


def error(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)["error"]
    return found


# ---------------------------------------------------------------- which story


def test_without_an_attempt_the_pool_rests() -> None:
    ex = exchange(exclusions=(make_exclusion(until=NOW + 30.2), make_exclusion(until=NOW + 90), make_exclusion()))
    assert told(ex) == (429, "all_targets_cooling_down", "31")
    reply = final_reply(ex, NOW)
    rests = f"{CODES['all_targets_cooling_down']} a: connection_cooldown."
    assert error(reply)["message"] == f"{rests} A connection is free again in 31 s, at 1970-01-01 00:17:11 UTC."
    assert as_mapping(reply.headers)["x-omniroute-attempts"] == "0"
    assert "x-omniroute-connection" not in as_mapping(reply.headers)


ORDER = [
    *("rate_limit", "concurrency_limited", "overloaded", "quota_exhausted", "server_error", "timeout", "network"),
    *("model_access_denied", "model_not_found", "credits_exhausted", "request_rejected", "forbidden"),
    *("auth_expired", "auth_invalid", "account_banned"),
]


@pytest.mark.parametrize(("better", "worse"), [*pairwise(ORDER), (ORDER[-1], "content_policy")])
def test_the_most_useful_error_is_told(better: str, worse: str) -> None:
    """`design.md` §8: one that ends by itself tells the client to come back."""
    for kinds in ((better, worse), (worse, better)):
        stories = [story(kind, to=kind, number=i, own=True) for i, kind in enumerate(kinds, 1)]
        reply = final_reply(exchange(*stories), NOW)
        assert as_mapping(reply.headers)["x-omniroute-connection"] == better


def test_every_kind_that_lets_others_try_has_its_place() -> None:
    assert set(ORDER) <= set(KINDS)
    left = {"ok", "content_policy", "context_overflow", "invalid_request", "payload_too_large"}
    assert set(KINDS) - set(ORDER) == left


def test_among_equals_the_one_that_comes_back_first_is_told_then_the_latest() -> None:
    told_of = lambda *stories: final_reply(exchange(*stories), NOW).attempt  # noqa: E731
    assert told_of(story(number=1), story(number=2, hint_s=9), story(number=3, hint_s=7)) == 3
    assert told_of(story(number=1, hint_s=7), story(number=2, hint_s=9), story(number=3)) == 1
    assert told_of(story(number=1), story(number=2)) == 2


def test_a21_a_failure_about_the_request_says_more_than_all_before_it() -> None:
    """A21: byte-identical."""
    last = story("invalid_request", number=2, status=400, retry_other=False, scope="request")
    reply = final_reply(exchange(story(hint_s=5), last), NOW)
    assert (reply.status, reply.body, reply.attempt) == (400, BODY, 2)
    assert "retry-after" not in as_mapping(reply.headers)


# ---------------------------------------------------------------- a key of ours


@pytest.mark.parametrize("kind", ["auth_invalid", "auth_expired", "account_banned", "forbidden"])
@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_key_of_a_pool_is_never_shown_as_the_clients_own(kind: str, status: int) -> None:
    """`clients.md`: agents take it for their own login and drop that."""
    ex = exchange(story(kind, status=status, terminal=True))
    assert told(ex) == (503, "connections_rejected", None)
    assert b"their own words" not in final_reply(ex, NOW).body


def test_no_401_of_a_pool_is_shown_whatever_it_means() -> None:
    for kind in KINDS:
        for other in (True, False):
            assert final_reply(exchange(story(kind, status=401, retry_other=other)), NOW).status != 401
            mislabelled = story(kind, status=401, retry_other=other)
            assert final_reply(exchange(mislabelled, raws={1: raw(200)}), NOW).status != 401


@pytest.mark.parametrize("status", [401, 403])
def test_the_clients_own_credential_gets_the_providers_own_words(status: int) -> None:
    reply = final_reply(exchange(story("auth_invalid", own=True, status=status)), NOW)
    assert (reply.status, reply.body) == (status, BODY)


@pytest.mark.parametrize("kind", ["model_access_denied", "credits_exhausted", "quota_exhausted"])
def test_a_403_that_is_not_about_a_login_is_shown(kind: str) -> None:
    assert final_reply(exchange(story(kind, status=403)), NOW).status == 403


@pytest.mark.parametrize(
    ("kind", "status"), [("auth_invalid", 401), ("credits_exhausted", 402), ("model_not_found", 404)]
)
def test_what_needs_a_person_is_not_told_while_another_connection_comes_back(kind: str, status: int) -> None:
    """The client must know that it may come back in 20 s, not that one of our keys is bad."""
    ex = exchange(
        story(kind, status=status, terminal=True),
        exclusions=(make_exclusion(make_target(make_connection("b")), until=NOW + 20),),
    )
    assert told(ex) == (429, "all_targets_cooling_down", "20")
    about_the_request = story("invalid_request", status=400, retry_other=False, scope="request")
    assert (
        told(
            exchange(about_the_request, exclusions=(make_exclusion(make_target(make_connection("b")), until=NOW + 20),))
        )[0]
        == 400
    )


# ---------------------------------------------------------------- their bytes


def test_the_upstreams_bytes_come_untouched_and_its_hop_by_hop_headers_do_not() -> None:
    dropped = ("Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Content-Length", "Upgrade")
    fields = [(name.encode(), b"x") for name in dropped]
    coded = raw(429, *fields, (b"X-Request-Id", b"r"), (b"Content-Encoding", b"br"), body=b"\x8b\x02\x80")
    reply = final_reply(exchange(story(), raws={1: coded}), NOW)
    assert (reply.status, reply.body, reply.attempt) == (429, b"\x8b\x02\x80", 1)
    assert reply.headers == (
        JSON,
        (b"X-Request-Id", b"r"),
        (b"Content-Encoding", b"br"),
        (b"content-length", b"3"),
        (b"x-omniroute-attempts", b"1"),
        (b"x-omniroute-connection", b"a"),
    )


def test_sr_21_a_status_that_lied_comes_as_their_words_in_the_shape_of_the_true_one() -> None:
    """SR-2, SR-21, SR-22, SR-23: no diagnostics, no byte of the old body, the client's own dialect."""
    told_ = Restatement(from_status=403, status=429, retry_after_s=60.0, rule=RuleRef(id="lie"))
    one = story(restatement=told_)
    reply = final_reply(exchange(one, raws={1: raw(403)}), NOW)
    fields = as_mapping(reply.headers)
    assert (reply.status, reply.attempt, fields["retry-after"]) == (429, 0, "60")
    assert error(reply) == {
        "message": "what they said. A connection is free again in 60 s, at 1970-01-01 00:17:40 UTC.",
        "type": "rate_limit_error",
        "code": "rate_limit_exceeded",
        "retry_after": 60,
        "reset_at": "1970-01-01T00:17:40Z",
        "param": None,
    }
    assert fields["x-omniroute-restated-from"] == "403"
    assert fields["content-length"] == str(len(reply.body))
    assert fields["content-type"] == "application/json"


def test_a_restated_answer_without_words_gets_a_sentence() -> None:
    reply = final_reply(exchange(story(message=""), raws={1: raw(403)}), NOW)
    assert error(reply)["message"] == "The provider failed. Tried 1: a: rate_limit."


def test_sr_21_the_body_is_in_the_clients_dialect() -> None:
    """SR-21."""
    reply = final_reply(exchange(story(), raws={1: raw(403)}, speaks="anthropic-messages"), NOW)
    assert json.loads(reply.body)["type"] == "error"


def test_a22_an_overflow_behind_a_500_comes_as_the_dialects_own() -> None:
    """A22: the status and the phrase that make an agent compact; a true 400 stays as it is."""
    overflow = story("context_overflow", status=400, retry_other=False, scope="request")
    reply = final_reply(exchange(overflow, raws={1: raw(500)}), NOW)
    assert (reply.status, error(reply)["code"]) == (400, "context_length_exceeded")
    assert "maximum context length" in error(reply)["message"]
    assert final_reply(exchange(overflow), NOW).body == BODY
    as_500 = story("context_overflow", status=500, retry_other=False, scope="request")
    reply = final_reply(exchange(as_500, raws={1: raw(500)}), NOW)
    assert (reply.status, error(reply)["code"]) == (400, "context_length_exceeded")


# ---------------------------------------------------------------- our own words


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("timeout", 502, (504, "upstream_timeout")),
        ("network", 502, (502, "upstream_unreachable")),
        ("server_error", 503, (503, "upstream_error")),
        ("overloaded", 429, (500, "upstream_error")),
    ],
)
def test_without_bytes_of_theirs_we_say_what_happened(kind: str, status: int, expected: tuple[int, str]) -> None:
    assert told(exchange(story(kind, status=status), raws={}))[:2] == expected


def test_a16_why_a_200_was_no_answer_is_said_in_the_providers_words() -> None:
    """A16: an explicit error, never invented text."""
    reply = final_reply(exchange(story("server_error", status=502, message="empty content"), raws={}), NOW)
    assert error(reply)["message"] == "The provider failed. empty content. Tried 1: a: server_error."
    unreachable = final_reply(exchange(story("network", status=502, message="Name or service not known"), raws={}), NOW)
    assert "Name or service not known. Tried 1" in error(unreachable)["message"]


def test_what_does_not_end_by_itself_is_no_429() -> None:
    """An agent would come back for ever to a key that needs a person, or to a plugin's no."""
    out = Exclusion(target=make_target("a"), label="connection_terminal", detail="needs a person: auth_invalid (r)")
    night = Exclusion(target=make_target("b"), label="night_shift")
    ex = exchange(exclusions=(out, night))
    assert told(ex) == (503, "all_targets_excluded", None)
    sentence = "a: connection_terminal (needs a person: auth_invalid (r)), b: night_shift."
    assert error(final_reply(ex, NOW))["message"] == f"{CODES['all_targets_excluded']} {sentence}"
    assert told(exchange()) == (503, "no_connection", None)


def beside(reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(reply.body)["diagnostics"]
    return found


def test_diagnostics_name_every_attempt_and_every_exclusion() -> None:
    """CT-106, CT-111, CT-115"""
    stories = (story("network", status=502), story("network", to="b", number=2, status=502))
    rest = Exclusion(target=make_target("c"), label="connection_cooldown", detail="rate_limit (r1)", until=NOW + 5)
    found = beside(final_reply(exchange(*stories, raws={}, exclusions=(rest,)), NOW))
    attempt = {"kind": "network", "status": 502, "rule": "test"}
    assert found["attempts"] == [{"connection": "a", **attempt}, {"connection": "b", **attempt}]
    assert found["attemptOrder"] == ["openai/gpt-5.4"] * 2 and found["attempted"] == 2
    [excluded] = found["excluded"]
    assert excluded == {
        "provider": "openai",
        "model": "gpt-5.4",
        "reason": "connection_cooldown",
        "connection": "c",
        "detail": "rate_limit (r1)",
        "until": NOW + 5,
        "retry_after_ms": 5_000,
    }
    assert (found["terminalReason"], found["recovery"]["action"]) == ("all_models_failed", "try-auto")


def test_ct_115_nothing_was_sent_because_everybody_rests() -> None:
    """CT-59, CT-61, CT-109, CT-111, CT-112, CT-115, CT-118: 429 rather than 503, because of what agents do with either
    (`clients.md`, A25)."""
    rests = tuple(
        Exclusion(target=make_target(f"c{i}"), label="model_lockout", until=NOW + 56.2 + i) for i in range(200)
    )
    reply = final_reply(exchange(exclusions=rests), NOW)
    found = json.loads(reply.body)
    assert (reply.status, as_mapping(reply.headers)["retry-after"]) == (429, "57")
    assert found["error"]["code"] == found["diagnostics"]["terminalReason"] == "all_targets_cooling_down"
    assert (found["diagnostics"]["poolSize"], found["diagnostics"]["attempted"]) == (200, 0)
    assert len(found["diagnostics"]["excluded"]) == 64 and found["diagnostics"]["attemptOrder"] == []
    hint = found["recovery_hint"]
    assert hint == found["diagnostics"]["recovery"]
    assert (hint["action"], hint["retry_after_seconds"]) == ("wait", 57)
    long = exchange(exclusions=(Exclusion(target=make_target("a"), label="model_lockout", until=NOW + 90_000),))
    assert beside(final_reply(long, NOW))["recovery"]["retry_after_seconds"] == 3600


def test_ct_108_used_up_everywhere_is_no_reason_to_try_again() -> None:
    """CT-108, CT-111"""
    out = story("quota_exhausted", status=401, terminal=True)
    found = beside(final_reply(exchange(out), NOW))
    assert (found["terminalReason"], found["recovery"]["action"]) == ("quota_exhausted", "switch-combo")
    nobody = beside(final_reply(exchange(), NOW))
    assert (nobody["terminalReason"], nobody["poolSize"]) == ("no_executable_targets", 0)


def test_the_sentence_tells_of_the_last_five() -> None:
    stories = [story("network", to=f"c{i}", number=i, status=502) for i in range(1, 8)]
    message = error(final_reply(exchange(*stories, raws={}), NOW))["message"]
    kinds = ", ".join(f"c{i}: network" for i in range(3, 8))
    assert message == f"{CODES['upstream_unreachable']} what they said. Tried 7: {kinds}."
    same = [story("network", number=i, status=502, message="") for i in (1, 2, 3)]
    message = error(final_reply(exchange(*same, raws={}), NOW))["message"]
    assert message == f"{CODES['upstream_unreachable']} Tried 3: a: network (3 times)."


def test_no_credential_is_in_what_we_say() -> None:
    ex = exchange(story("network", status=502), raws={}, exclusions=(make_exclusion(),))
    assert b"sk-a" not in final_reply(ex, NOW).body


def test_our_own_fault_is_told_honestly_and_ends_the_call() -> None:
    ex = exchange()
    reply = broken_engine(ex)
    assert (reply.status, error(reply)["code"], ex.final) == (502, "internal_error", True)
    assert "retry-after" not in as_mapping(reply.headers)


def test_marks_say_where_an_answer_came_from() -> None:
    ex = exchange(story(to="b", number=3))
    assert marks(ex, ex.attempt) == ((b"x-omniroute-attempts", b"3"), (b"x-omniroute-connection", b"b"))
    assert marks(ex, None) == ((b"x-omniroute-attempts", b"3"),)


# ---------------------------------------------------------------- Retry-After


def waits(*stories: Story, said: bytes | None = None, until: float | None = None) -> str | None:
    """`Retry-After` of a final answer whose upstream `said` one."""
    fields = [(b"Retry-After", said), (b"retry-after-ms", b"1")] if said is not None else []
    exclusions = (make_exclusion(until=until),) if until is not None else ()
    ex = exchange(
        *stories, raws={s.attempt.number: raw(s.verdict.status, *fields) for s in stories}, exclusions=exclusions
    )
    return as_mapping(final_reply(ex, NOW).headers).get("retry-after")


def test_sr_23_whole_seconds_rounded_up_from_now() -> None:
    """SR-23."""
    assert waits(story(hint_s=10.01)) == "11"
    assert waits(story(hint_s=10, ended_at=NOW - 4)) == "6"
    assert waits(story(hint_s=10, ended_at=NOW - 20)) == "0"
    assert waits(story()) is None


def test_the_earliest_way_out_counts() -> None:
    assert waits(story(hint_s=50), story(number=2, to="b", hint_s=30)) == "30"
    assert waits(story(hint_s=50), until=NOW + 20) == "20"
    assert waits(story(hint_s=50), until=NOW - 20) == "0"


def test_a_connection_that_needs_a_person_is_no_way_out() -> None:
    assert waits(story("quota_exhausted", hint_s=50, terminal=True)) is None


def test_with_the_clients_own_credential_alone_nothing_is_added() -> None:
    """First, do no harm: the upstream's answer is passed as it is."""
    assert waits(story(hint_s=50, own=True)) is None
    assert waits(story(hint_s=50, own=True), said=b"7") == "7"
    silent = (JSON, (b"x-should-retry", b"false"))
    reply = final_reply(exchange(story(hint_s=50, own=True), raws={1: raw(429, *silent)}), NOW)
    assert (reply.body, reply.headers[:3]) == (BODY, (JSON, *silent))


def test_sr_24_what_the_upstream_declared_wins_over_a_rules_default() -> None:
    """SR-24."""
    told_ = Restatement(from_status=403, status=429, retry_after_s=60.0, rule=RuleRef(id="r"))
    assert waits(story(restatement=told_, hint_s=7)) == "7"
    assert waits(story(restatement=told_)) == "60"
    silent = Restatement(from_status=403, status=429, retry_after_s=None, rule=RuleRef(id="r"))
    assert waits(story(restatement=silent)) is None


def test_a_single_connections_own_retry_after_stands() -> None:
    """A25: 3 h stay 3 h, and the header is theirs."""
    assert waits(story(hint_s=10_800), said=b"10800") == "10800"
    assert waits(story(hint_s=5), story(number=2, hint_s=5), said=b"99") == "99"


def test_another_connection_that_is_free_earlier_shortens_it_and_never_lengthens_it() -> None:
    two = (story(hint_s=100), story(number=2, to="b", hint_s=30))
    assert waits(*two, said=b"100") == "30"
    assert waits(*two, said=b"20") == "20"
    assert waits(*two, said=b"30") == "30"
    assert waits(story(hint_s=100), said=b"100", until=NOW + 9) == "9"
    assert waits(*two, said=b"Wed, 21 Oct 2026 07:28:00 GMT") == "Wed, 21 Oct 2026 07:28:00 GMT"


def test_a_shortened_wait_leaves_no_other_header_that_contradicts_it() -> None:
    two = (story(hint_s=100), story(number=2, to="b", hint_s=30))
    ex = exchange(*two, raws={i: raw(429, (b"Retry-After", b"100"), (b"Retry-After-Ms", b"100000")) for i in (1, 2)})
    names = [name.lower() for name, _ in final_reply(ex, NOW).headers]
    assert names.count(b"retry-after") == 1 and b"retry-after-ms" not in names


@pytest.mark.parametrize(
    ("status", "may"),
    [
        *((status, True) for status in (408, 429, 500, 502, 503, 504, 529)),
        *((status, False) for status in (400, 402, 403, 404, 413)),
    ],
)
def test_retry_after_only_where_coming_back_makes_sense(status: int, may: bool) -> None:
    assert (waits(story("credits_exhausted", status=status, hint_s=5)) == "5") == may
    ours = exchange(story("credits_exhausted", status=status, hint_s=5), raws={1: raw(599)})
    assert ("retry-after" in as_mapping(final_reply(ours, NOW).headers)) == may


def test_a_failure_about_the_request_gets_no_retry_after() -> None:
    assert waits(story("content_policy", status=429, retry_other=False, hint_s=5)) is None


def test_who_answered_at_last_is_known_by_the_answer() -> None:
    """An account that was hard to reach, and then says that it has no money left, has no money left."""
    unreachable = replace(
        story("network", own=True, number=1, status=502), answer=make_answer(0, fault="connect_failed")
    )
    no_money = story("credits_exhausted", own=True, number=2, status=402)
    assert final_reply(exchange(unreachable, no_money), NOW).attempt == 2
    elsewhere = story("credits_exhausted", to="b", number=2, status=402)
    assert final_reply(exchange(unreachable, elsewhere), NOW).attempt != 2, (
        "another account says nothing about this one"
    )
