"""Exactly one of connection and model pays for a failure, whatever it was: the persistence order of `spec/05`.

Its first row and its row 79 are about failures that never come here: the request's own (FC-7, FC-12, FC-29, `A21`, see
`test_engine.py`), and connections that are out or cool already (FC-9, FC-11: `cooldown/test_steps.py`).
"""

# ruff: noqa: E501 - a row of the table is a line
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.failure_effects import BARE_402, NOTE, REST, Effects, LockOrder, effects_of, fires_egress
from omniroute_addon.model import KINDS, SCOPES, Provider, RuleRef, Story
from omniroute_addon.settings import Settings
from omniroute_addon.testing.calls import (
    make_answer,
    make_attempt,
    make_connection,
    make_provider,
    make_story,
    make_target,
    make_verdict,
)

PROVIDERS = [
    None,
    make_provider(),
    make_provider("gemini", traits=frozenset({"per_model_quota"})),
    make_provider("openrouter", traits=frozenset({"passthrough_models"})),
    make_provider("ollama", category="local"),
]
SETTINGS = [
    Settings(),
    Settings.model_validate({"model_lockout": {"enabled": True}}),
    Settings.model_validate({"plugins": {"disabled": ["model_lockout"]}}),
    Settings.model_validate({"egress_lock": {"providers": ["openai"]}}),
]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    kind = draw(st.sampled_from([k for k in KINDS if k != "ok"]))
    verdict = make_verdict(
        kind,
        scope=draw(st.sampled_from([s for s in SCOPES if s != "request"])),
        status=draw(st.sampled_from([400, 401, 402, 403, 404, 410, 429, 500, 502, 503, 504, 529])),
        terminal=draw(st.booleans()),
        cooldown_s=draw(st.sampled_from([None, 0.0, 300.0])),
        reason=draw(st.sampled_from(["quota_exhausted", "rate_limit_exceeded", "unknown"])),
        rule=RuleRef(id="r", file=draw(st.sampled_from(["", "rules/_generic.yaml", "rules/gemini.yaml"]))),
    )
    fault = draw(st.sampled_from([None, None, "empty", "timeout:idle", "timeout:connect"]))
    answer = make_answer(draw(st.sampled_from([0, verdict.status])), fault=fault)
    return make_story(make_attempt(make_target(model=draw(st.sampled_from(["m", ""])))), answer=answer, verdict=verdict)


@given(stories(), st.sampled_from(SETTINGS), st.sampled_from(PROVIDERS))
def test_laws_of_every_failure(story, settings, provider) -> None:  # type: ignore[no-untyped-def]
    """ML-13, EL-11, FC-76: no lock without a model or beside an egress lock; the two never both take a transient failure"""
    effects = effects_of(story, settings, provider)
    if effects.lock is not None:
        assert story.attempt.target.model
        assert "model_lockout" not in settings.plugins.disabled
        assert effects.connection != "rest" or effects.lock.reason == "quota_exhausted"
        assert story.verdict.status != 500 or effects.lock.reason != "server_error"  # ML-20
    if effects.siblings:
        assert effects.connection == "rest" and effects.lock is None and story.verdict.status == 429
        assert fires_egress(story, settings)
    if story.verdict.scope == "provider" and story.verdict.kind == "overloaded" and not settings.model_lockout.enabled:
        assert effects.connection != "rest" or effects.siblings, "A07"


PLAIN, PER_MODEL, GATEWAY, LOCAL = PROVIDERS[1:]
OFF, ON = SETTINGS[:2]
OWN = "rules/p.yaml"


def locked(reason: Any, origin: Any, *, repeated: bool = False) -> Effects:
    return Effects(connection="note", lock=LockOrder(reason=reason, origin=origin, repeated=repeated))


def happened(
    kind: str,
    status: int,
    scope: str = "connection",
    *,
    file: str = "rules/_generic.yaml",
    rule: str = "r",
    model: str = "m",
    disabled: bool = False,
    phase: Any = "body",
    fault: str | None = None,
    **verdict: Any,
) -> Story:
    """A failure, told by a shared rule unless `file` says otherwise."""
    to = make_target(make_connection(disable_cooling=disabled), model=model)
    said = make_verdict(kind, status=status, scope=scope, rule=RuleRef(id=rule, file=file), **verdict)
    return make_story(make_attempt(to), answer=make_answer(status, phase=phase, fault=fault), verdict=said)


ROWS = [
    # row, what happened, at which provider, settings, what it does
    ("FC-73 FC-10 CC-45", happened("timeout", 504, "provider", fault="timeout:idle"), PLAIN, OFF, NOTE),
    ("FC-75", happened("quota_exhausted", 429, file=OWN), GATEWAY, OFF, REST),
    ("FC-75, a guess is no word", happened("quota_exhausted", 429), GATEWAY, OFF, locked("quota_exhausted", "per_model_quota")),
    ("FC-75 SR-36 a ban stays a ban", happened("account_banned", 403, file=OWN, terminal=True), GATEWAY, OFF, REST),
    ("FC-75 SR-37", happened("quota_exhausted", 429, file=OWN, disabled=True), GATEWAY, OFF, locked("quota_exhausted", "per_model_quota")),
    ("FC-77", happened("overloaded", 400, "model", file=OWN, cooldown_s=3600.0), PLAIN, OFF, locked("model_capacity", "rule")),
    ("FC-78 404", happened("model_not_found", 404, "model"), PER_MODEL, OFF, locked("not_found", "per_model_quota")),
    ("FC-78 429", happened("rate_limit", 429), PER_MODEL, OFF, locked("rate_limited", "per_model_quota")),
    ("FC-78 503", happened("server_error", 503, "provider"), PER_MODEL, OFF, locked("server_error", "per_model_quota")),
    ("FC-78 quota at 403", happened("quota_exhausted", 403), PER_MODEL, OFF, locked("quota_exhausted", "per_model_quota")),
    ("FC-78 ML-20", happened("server_error", 500, "provider"), PER_MODEL, OFF, NOTE),
    ("FC-78 ML-21", happened("server_error", 503, "provider", phase="stream"), PER_MODEL, OFF, locked("server_error", "per_model_quota", repeated=True)),
    ("FC-78, not for a 402", happened("quota_exhausted", 402), PER_MODEL, OFF, REST),
    ("FC-78, without a model", happened("rate_limit", 429, model=""), PER_MODEL, OFF, NOTE),
    ("FC-81", happened("account_banned", 403, terminal=True), PER_MODEL, OFF, REST),
    ("FC-82 402", happened("credits_exhausted", 402, rule=BARE_402, terminal=True), PER_MODEL, OFF, locked("credits", "per_model_quota")),
    ("FC-82 403", happened("forbidden", 403), PER_MODEL, OFF, locked("forbidden", "per_model_quota")),
    ("FC-83", happened("model_not_found", 404, "model"), LOCAL, OFF, locked("not_found", "per_model_quota")),
    ("FC-85", happened("server_error", 503, "provider"), PLAIN, ON, locked("server_error", "switch")),
    ("FC-85, a 500 is not", happened("server_error", 500, "provider"), PLAIN, ON, REST),
    ("FC-86", happened("rate_limit", 429), PLAIN, OFF, REST),
    ("FC-86 FC-12", happened("model_not_found", 400, "model"), PLAIN, OFF, NOTE),
]  # fmt: skip


@pytest.mark.parametrize(("row", "story", "provider", "settings", "wanted"), ROWS, ids=[row[0] for row in ROWS])
def test_row(row: str, story: Story, provider: Provider | None, settings: Settings, wanted: Effects) -> None:
    """FC-73 to FC-86"""
    assert effects_of(story, settings, provider) == wanted


@pytest.mark.parametrize("disabled", [True, False])
def test_disable_cooling_keeps_the_egress_lock_away(disabled: bool) -> None:
    """EL-6, CC-54"""
    target = make_target(make_connection(disable_cooling=disabled))
    story = make_story(make_attempt(target), verdict=make_verdict(reason="rate_limit_exceeded"))
    assert fires_egress(story, SETTINGS[3]) is not disabled
