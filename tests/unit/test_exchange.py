"""One call in flight: what people read of it."""

from __future__ import annotations

from typing import Any

from omniroute_addon.dialects import dialect
from omniroute_addon.exchange import Exchange, RawAnswer
from omniroute_addon.model import Restatement, RuleRef
from omniroute_addon.testing.calls import make_answer, make_attempt, make_call, make_story, make_target, make_verdict
from omniroute_addon.wire import Incoming


def exchange(**fields: Any) -> Exchange:
    incoming = Incoming(
        method="POST",
        scheme="https",
        host="h",
        port=443,
        path="/",
        headers=((b"authorization", b"Bearer sk-client"),),
        body=b"private words",
    )
    defaults: dict[str, Any] = {
        "call": make_call(),
        "incoming": incoming,
        "body": b"private words",
        "dialect": dialect("openai-chat"),
        "targets": (make_target("a"), make_target("b")),
        "started_at": 0.0,
        "deadline_at": 600.0,
    }
    return Exchange(**{**defaults, **fields})


def test_repr_is_one_line_with_state_and_counts_and_no_secret() -> None:
    ex = exchange()
    assert repr(ex) == "<Exchange openai/gpt-5.4 open attempts=0 targets=2>"
    ex.attempt = make_attempt(number=3)
    ex.committed = True
    assert repr(ex) == "<Exchange openai/gpt-5.4 committed attempts=3 targets=2>"
    ex.finished = True
    assert repr(ex) == "<Exchange openai/gpt-5.4 finished attempts=3 targets=2>"


def test_two_exchanges_share_nothing() -> None:
    one, other = exchange(), exchange()
    one.spent.add(("a", "u", "m"))
    one.stories.append(make_story())
    one.raw[1] = RawAnswer(status=429, headers=(), body=b"")
    assert (other.spent, other.raw, other.stories) == (set(), {}, [])


def test_the_comment_tells_every_attempt_in_a_line() -> None:
    ex = exchange()
    assert ex.comment() == ""
    lie = Restatement(from_status=403, status=429, retry_after_s=None, rule=RuleRef(id="lie"))
    first = make_attempt(make_target("a"), number=1, started_at=10.0)
    second = make_attempt(make_target("b"), number=2, started_at=11.0)
    ex.attempt = first
    assert ex.comment() == "#1 a: answered …"
    ex.stories.append(make_story(first, answer=make_answer(403), verdict=make_verdict(restatement=lie), ended_at=10.25))
    assert ex.comment() == "#1 a: rate_limit 403→429 [test] after 250 ms"
    ex.stories.append(
        make_story(
            second, answer=make_answer(0, fault="reset"), verdict=make_verdict("network", status=502), ended_at=11.5
        )
    )
    ex.attempt, ex.status = make_attempt(make_target("a"), number=3, tries=2), 200
    assert ex.comment().splitlines() == [
        "#1 a: rate_limit 403→429 [test] after 250 ms",
        "#2 b: network reset [test] after 500 ms",
        "#3 a: answered 200",
    ]
