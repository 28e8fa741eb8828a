"""What belongs to one account stays behind (`A29`, `clients.md` 11)."""

from __future__ import annotations

import json

from omniroute_addon.plugins.account_repair import REMEMBERED, AccountRepair

from omniroute_addon.testing.calls import make_attempt, make_call, make_target, make_verdict


def answered(plugin: AccountRepair, session: str | None, connection: str, provider: str = "openai") -> None:
    plugin.succeeded(call=make_call(session=session, provider=provider), attempt=make_attempt(make_target(connection)))


def test_a_conversation_is_where_it_was_answered_last() -> None:
    plugin = AccountRepair()
    answered(plugin, "s", "a")
    assert plugin.bound(call=make_call(session="s")) == "a"
    answered(plugin, "s", "b")
    assert plugin.bound(call=make_call(session="s")) == "b"


def test_another_conversation_provider_or_none_is_somewhere_unknown() -> None:
    plugin = AccountRepair()
    answered(plugin, "s", "a")
    answered(plugin, None, "a")
    for call in (make_call(session="t"), make_call(session="s", provider="groq"), make_call(session=None)):
        assert plugin.bound(call=call) is None


def test_only_so_many_are_remembered_the_longest_silent_goes_first() -> None:
    plugin = AccountRepair()
    for n in range(REMEMBERED):
        answered(plugin, f"s{n}", "a")
    answered(plugin, "s0", "a")
    answered(plugin, "new", "a")
    assert plugin.bound(call=make_call(session="s0")) == "a"
    assert plugin.bound(call=make_call(session="s1")) is None


def test_signed_thoughts_are_taken_out_when_the_verdict_says_that_they_were_refused() -> None:
    body = json.dumps(
        {"model": "m", "input": [{"type": "reasoning", "encrypted_content": "x"}, {"role": "user", "content": "hi"}]}
    ).encode()
    call, plugin = make_call(dialect="openai-responses"), AccountRepair()
    repaired = plugin.repair(call=call, verdict=make_verdict(repair="signed_reasoning"), body=body)
    assert repaired is not None and json.loads(repaired)["input"] == [{"role": "user", "content": "hi"}]
    assert plugin.repair(call=call, verdict=make_verdict(), body=body) is None
    assert plugin.repair(call=call, verdict=make_verdict(repair="signed_reasoning"), body=b'{"input": "hi"}') is None
