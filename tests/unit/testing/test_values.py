"""Clock, questions and the factories for plugin tests."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from omniroute_addon.model import DIALECTS
from omniroute_addon.testing import calls
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.testing.questions import asked_model, question
from omniroute_addon.testing.script import Received


def test_time_moves_only_when_told(manual_clock):
    manual_clock.set(100.0)
    assert manual_clock.clock.now() == 100.0
    assert manual_clock.advance(2.5) == manual_clock.clock.now() == manual_clock.now() == 102.5
    manual_clock.chance = 0.25
    assert manual_clock.clock.chance() == 0.25
    assert repr(manual_clock) == "<ManualClock 102.500 chance=0.25>"
    with pytest.raises(ValueError, match="cannot advance by -1 s"):
        manual_clock.advance(-1)
    assert ManualClock(start=5.0).now() == 5.0


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_question_names_model_stream_and_credential_in_its_dialects_way(dialect, stream):
    q = question(dialect, "Grüezi", stream=stream, model="m-1", key="sk-1", more={"metadata": {"a": 1}})
    as_received = Received(
        number=1,
        connection=1,
        http_version="1.1",
        method=q.method,
        path=q.path,
        authority=q.host,
        headers=tuple(q.headers.items()),
        body=q.body,
        sni=None,
    )
    assert (as_received.key, asked_model(as_received)) == ("sk-1", "m-1")
    assert "Grüezi" in q.body.decode()
    body = json.loads(q.body)
    assert body["metadata"] == {"a": 1}
    assert (("alt=sse" in q.path) if dialect == "gemini" else body["stream"]) is stream
    assert q.url == f"https://{q.host}{q.path}"


def test_a_question_without_a_key_carries_none():
    assert question("anthropic-messages", key=None).headers == {
        "content-type": "application/json",
        "anthropic-version": "2023-06-01",
    }


def test_factories_fill_in_what_the_test_is_not_about():
    target = calls.make_target("b", model="m-2")
    assert (target.connection.id, target.model, target.connection.secret.value) == ("b", "m-2", "sk-b")
    assert "sk-b" not in repr(target)
    assert calls.make_call(stream=False).stream is False
    assert calls.make_provider("groq", traits=frozenset({"full_text"})).hosts == ("api.groq.com",)
    assert calls.make_attempt(target, number=3).target is target
    assert calls.make_answer(429, "slow down").body == b"slow down"
    assert calls.make_verdict("overloaded", breaker=True).reason == "overloaded"
    assert calls.make_story(ended_at=9.0).verdict.kind == "rate_limit"
    assert calls.make_exclusion(until=5.0).label == "connection_cooldown"
    with pytest.raises(TypeError):
        calls.make_call(no_such_field=1)


def test_the_pytest_plugin_costs_nothing_until_a_fixture_is_used():
    script = (
        "import sys, omniroute_addon.testing.pytest_plugin;"
        "print([m for m in ('mitmproxy', 'trustme', 'h2', 'pydantic', 'ssl') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    # pytest-asyncio brings ssl along by itself, through asyncio.
    assert done.stdout.strip() in ("[]", "['ssl']")


async def test_the_fixtures_give_fakes_that_answer(fake_upstream, tls_upstream, h2_upstream, test_ca, omniroute_proxy):
    from omniroute_addon.testing.client import Client, fetch
    from omniroute_addon.testing.script import Reply

    for upstream in (fake_upstream, tls_upstream, h2_upstream):
        upstream.script(Reply(body=b"hello"))
    proxy = await omniroute_proxy(addons=[], rehost={"api.openai.com:443": tls_upstream.address})
    assert (await fetch("https://api.openai.com/", proxy=proxy.url, ca_file=proxy.ca_file)).text == "hello"
    assert (await fetch(fake_upstream.url)).text == "hello"
    async with Client(h2_upstream.url, ca_file=test_ca.pem_file, http2=True) as client:
        assert (await client.request("GET", "/")).text == "hello"
