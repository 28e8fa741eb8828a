"""Every fault of the catalogue, on one proxy one after the other: the client always sees the second connection's answer."""

from __future__ import annotations

from omniroute_addon.testing.answers import openai_chat
from omniroute_addon.testing.faults import BEFORE_OUTPUT
from omniroute_addon.testing.questions import question
from omniroute_addon.testing.script import Reply

FINE = openai_chat("from the second connection")
SETTINGS = {
    "retries_in_place": 1,
    "retry_pause_ms": 1,
    "head_timeout_ms": 1_000,
    "readiness_timeout_ms": 1_000,
}


def bytes_of(reply: Reply) -> bytes:
    return b"".join(step for step in reply.steps if isinstance(step, bytes))


async def test_a_fault_before_output_never_reaches_the_client(open_stage, http_versions):
    """ST-10, ST-13, issue 2 point 23: one head, the bytes of one attempt, whatever happened to the other."""
    client_h2, upstream_h2 = http_versions
    resting = [{"id": name, "priority": n, "disable_cooling": True} for n, name in enumerate("ab")]
    s = await open_stage(*resting, http2=upstream_h2, config={"settings": SETTINGS})
    s.upstream.script(FINE, key="sk-b")
    wrong = {}
    for name, break_ in BEFORE_OUTPUT.items():
        s.upstream.script(break_(openai_chat("lost")), key="sk-a")
        try:
            seen = await s.ask(question("openai-chat"), http2=client_h2, within_s=8)
        except TimeoutError:
            wrong[name] = "the client waited for ever"
            continue
        got = (seen.status, seen.end, len(seen.heads), seen.header("x-omniroute-connection"), seen.body)
        if got != (200, "complete", 1, "b", bytes_of(FINE)):
            wrong[name] = str(got)
    assert wrong == {}
    assert s.proxy.errors == []
