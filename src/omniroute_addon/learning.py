"""What a failed answer means, and who is told: the stages restate, classify and learn."""

from __future__ import annotations

import logging
from dataclasses import replace

from .consequences import by_status
from .core import Core
from .exchange import Exchange
from .model import Answer, Story, Verdict
from .plugin_host import PluginHost

log = logging.getLogger(__name__)


def judge(ex: Exchange, answer: Answer, core: Core, plugins: PluginHost) -> Verdict:
    """The verdict on the running attempt; by the status alone when no plugin classifies."""
    assert ex.attempt
    target, now = ex.attempt.target, core.clock.now()
    restatement = plugins.first("restate", call=ex.call, target=target, answer=answer)
    verdict: Verdict | None = plugins.first(
        "classify", call=ex.call, target=target, answer=answer, restatement=restatement, now=now
    )
    return verdict if verdict is not None else by_status(answer)


def learn(ex: Exchange, answer: Answer, core: Core, plugins: PluginHost) -> Verdict:
    """Judge the running attempt and tell every mechanism, in one transaction (`FC-92`). Nobody is told of a bad request."""
    assert ex.attempt
    verdict, now = judge(ex, answer, core, plugins), core.clock.now()
    story = Story(attempt=ex.attempt, answer=replace(answer, body=b""), verdict=verdict, ended_at=now)
    ex.stories.append(story)
    if verdict.scope != "request":
        with core.store.transaction():
            plugins.each("failed", call=ex.call, story=story, now=now)
    log.info(
        "attempt failed: provider=%s model=%s connection=%s attempt=%d status=%s kind=%s scope=%s rule=%s request=%s%s",
        *(ex.call.provider, on_one_line(ex.call.model), ex.attempt.target.connection.id, ex.attempt.number),
        *(answer.status or answer.fault, verdict.kind, verdict.scope, verdict.rule.id, ex.id, by_agent(ex)),
    )
    return verdict


def by_agent(ex: Exchange) -> str:
    """Who called, for the end of a log line; empty for an anonymous client."""
    return f" agent={ex.call.agent}" if ex.call.agent else ""


def on_one_line(text: str) -> str:
    """A client's word for the log, where a line break would begin a line of its own."""
    return "".join(c if c.isprintable() else "?" for c in text[:200])
