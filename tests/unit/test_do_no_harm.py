"""First, do no harm (`spec/README.md` rule 4): one client with its own key, all bundled plugins and rules, any faults.

What the client would have got straight from the upstream is the first answer of each request. Through us it never gets
less: each request is sent, a good first answer arrives, and what it is told in the end is the upstream's own word.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.config import Config
from omniroute_addon.core import Core
from omniroute_addon.engine import Engine
from omniroute_addon.errors import NotAdmitted
from omniroute_addon.exchange import Pause, RawAnswer, Reply, Send
from omniroute_addon.model import Answer, DialectName
from omniroute_addon.pack_files import pack_folders
from omniroute_addon.packs import Packs, load_packs
from omniroute_addon.plugin_host import PluginHost
from omniroute_addon.plugins import FOLDER
from omniroute_addon.settings import Settings
from omniroute_addon.store.memory import MemoryStore
from omniroute_addon.testing.calls import make_answer
from omniroute_addon.testing.clock import ManualClock
from omniroute_addon.testing.questions import question
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.wire import Incoming

GOOD = "good"
FAULTS: dict[str, dict[str, Any]] = {
    "rate limit": {"status": 429, "text": "Rate limit reached. Please try again in 20s."},
    "rate limit for hours": {"status": 429, "text": "slow down", "retry_after": "18000"},
    "used up": {"status": 429, "text": "You exceeded your current quota.", "code": "insufficient_quota"},
    "concurrent": {"status": 429, "text": "Too many concurrent requests"},
    "invalid key": {"status": 401, "text": "Incorrect API key provided."},
    "out of credits": {"status": 402, "text": "Your credit balance is too low."},
    "forbidden": {"status": 403, "text": "forbidden"},
    "banned": {"status": 403, "text": "Your account has been deactivated."},
    "suspended": {"status": 400, "text": "Your account has been suspended."},
    "no such model": {"status": 404, "text": "The model `m` does not exist", "code": "model_not_found"},
    "malformed": {"status": 400, "text": "messages: field required"},
    "too long": {"status": 413, "text": "request too large"},
    "timeout": {"status": 408, "text": "timeout"},
    "internal": {"status": 500, "text": "internal error"},
    "bad gateway": {"status": 502, "text": ""},
    "unavailable": {"status": 503, "text": "Service unavailable"},
    "overloaded": {"status": 529, "text": "Overloaded"},
    "refused": {"status": 0, "fault": "connect"},
    "reset": {"status": 0, "fault": "reset"},
    "silence": {"status": 0, "fault": "timeout:head"},
    "empty": {"status": 200, "fault": "empty"},
}
SETTINGS: list[dict[str, Any]] = [
    {},
    {"model_lockout": {"enabled": True, "error_codes": [400, 401, 403, 404, 429, 500, 502, 503, 529]}},
    {"provider_cooldown": {"enabled": True, "min_retry_cooldown_ms": 60_000}},
    {"egress_lock": {"providers": ["openai", "anthropic", "gemini"]}, "retries_in_place": 0},
    {
        "circuit_breaker": {
            "counted_statuses": [401, 408, 429, 500, 502, 503, 504, 529],
            "same_connection_ms": 0,
            "same_network_ms": 0,
            **{c: {"failure_threshold": 1, "reset_timeout_ms": 86_400_000} for c in ("api_key", "oauth", "local")},
        }
    },
]
REFUSALS = (b"all_targets", b"no_connection", b"connections_rejected", b"internal_error")
"""Our own words for what an operator's pool may be told, never a client with a key of its own."""
DIALECTS: list[DialectName] = ["openai-chat", "anthropic-messages", "gemini"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What happens to one request: the answers to its attempts (then good ones), and the time since the last."""

    answers: tuple[str, ...]
    model: str
    key: str
    after_s: float
    restart: bool


REQUEST = st.builds(
    Request,
    answers=st.lists(st.sampled_from([GOOD, GOOD, *FAULTS]), min_size=1, max_size=4).map(tuple),
    model=st.sampled_from(["m", "m", "n"]),
    key=st.sampled_from(["sk-1", "sk-1", "sk-2", ""]),
    after_s=st.sampled_from([0.0, 0.0, 1.0, 70.0, 20_000.0, -3_600.0]),
    restart=st.sampled_from([False, False, False, True]),
)


@cache
def known() -> tuple[Packs, RuleBook]:
    packs, problems = load_packs(pack_folders(None))
    assert problems == []
    rules = RuleBook.build(packs.rules, categories={p.id: p.category for p in packs.providers.values()}, operator={})
    return packs, rules


class Proxy:
    """One engine with everything that is shipped; a restart keeps its store, which holds what would be on the disk."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.clock = ManualClock(start=1_800_000_000.0)
        self.store = MemoryStore(clock=self.clock.clock)
        self.settings = Settings.model_validate(given)
        self.restart()

    def restart(self) -> None:
        packs, rules = known()
        core = Core(
            config=Config(settings=self.settings), packs=packs, rules=rules, clock=self.clock.clock, store=self.store
        )
        host = PluginHost(max_faults=10**6)
        host.load(bundled=FOLDER, user=None, entry_points=False)
        host.each("start", core=core)
        self.engine = Engine(core, host)

    def ask(self, dialect: DialectName, request: Request) -> tuple[list[str], Reply | None]:
        """What was sent, by the names of the answers to it; the reply when none of them was good."""
        q = question(dialect, key=request.key or "sk-x", model=request.model, stream=False)
        headers = {k: v for k, v in q.headers.items() if request.key or ("key" not in k and k != "authorization")}
        incoming = Incoming(
            method="POST",
            scheme="https",
            host=q.host,
            port=443,
            path=q.path,
            headers=tuple((k.encode(), v.encode()) for k, v in headers.items()),
            body=q.body,
        )
        ex = self.engine.identify(incoming, host=q.host, peer="127.0.0.1", trusted=True)
        assert ex is not None
        sent: list[str] = []
        for _ in range(100):
            step = self.engine.advance(ex)
            if isinstance(step, Pause):
                self._pause(step, ex)
            elif isinstance(step, Reply):
                self.engine.finish(ex, status=step.status, good=False)
                return sent, step
            else:
                assert isinstance(step, Send) and step.attempt.target.connection.own
                sent.append(request.answers[len(sent)] if len(sent) < len(request.answers) else GOOD)
                if sent[-1] == GOOD:
                    self.engine.finish(ex, status=200, good=True)
                    return sent, None
                self.engine.failed(ex, *told(sent[-1]))
        raise AssertionError("no end")

    def _pause(self, step: Pause, ex: Any) -> None:
        self.clock.advance(step.seconds)
        if step.permit is not None:
            try:
                for _ in step.permit.__await__():
                    pass
            except NotAdmitted as refusal:
                self.engine.not_admitted(ex, str(refusal))


def told(name: str) -> tuple[Answer, RawAnswer | None]:
    spec = FAULTS[name]
    body = json.dumps({"error": {"message": spec.get("text", ""), "code": spec.get("code", "x")}})
    wait = spec.get("retry_after")
    headers = {"content-type": "application/json", **({"retry-after": wait} if wait else {})}
    status, fault = spec["status"], spec.get("fault")
    answer = make_answer(status, body=body.encode(), headers=headers, fault=fault)
    if not status:
        return answer, None
    wire = tuple((k.encode(), v.encode()) for k, v in headers.items())
    return answer, RawAnswer(status=status, headers=wire, body=body.encode())


@settings(max_examples=120, deadline=None)
@given(
    given_settings=st.sampled_from(SETTINGS),
    dialect=st.sampled_from(DIALECTS),
    requests=st.lists(REQUEST, min_size=1, max_size=12),
)
def test_a_client_with_its_own_key_never_gets_less_than_straight_at_the_upstream(
    given_settings: dict[str, Any], dialect: DialectName, requests: list[Request]
) -> None:
    """Whatever happened before: sent, not refused here; and a good first answer is the client's."""
    proxy = Proxy(given_settings)
    for request in requests:
        proxy.clock.set(proxy.clock.time + request.after_s)
        if request.restart:
            proxy.restart()
        began = proxy.clock.time
        sent, reply = proxy.ask(dialect, request)
        assert sent, "refused here"
        assert sent[0] != GOOD or reply is None, "straight at the upstream this one succeeded"
        assert proxy.clock.time - began <= proxy.settings.deadline_ms / 1000
        if reply is not None:
            assert not any(code in reply.body for code in REFUSALS), reply
    # Nobody with a credential of his own is ever out for good (CC-55).
    rows = dict(proxy.store.table("connection_cooldown").scan())
    assert all(row["testStatus"] in ("active", "unavailable") for row in rows.values())


@pytest.mark.parametrize("given_settings", SETTINGS)
@pytest.mark.parametrize("fault", FAULTS)
def test_after_fifty_failures_of_one_sort_the_next_request_is_sent(fault: str, given_settings: dict[str, Any]) -> None:
    proxy = Proxy(given_settings)
    bad = Request(answers=(fault,) * 9, model="m", key="sk-1", after_s=0, restart=False)
    for _ in range(50):
        sent, _ = proxy.ask("openai-chat", bad)
        assert sent
    good = Request(answers=(GOOD,), model="m", key="sk-1", after_s=0, restart=False)
    assert proxy.ask("openai-chat", good) == ([GOOD], None)
