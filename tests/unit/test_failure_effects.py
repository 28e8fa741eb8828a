"""Exactly one of connection and model pays for a failure, whatever it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.failure_effects import effects_of, fires_egress
from omniroute_addon.model import KINDS, SCOPES, RuleRef, Story
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


@pytest.mark.parametrize("disabled", [True, False])
def test_disable_cooling_keeps_the_egress_lock_away(disabled: bool) -> None:
    """EL-6, CC-54"""
    target = make_target(make_connection(disable_cooling=disabled))
    story = make_story(make_attempt(target), verdict=make_verdict(reason="rate_limit_exceeded"))
    assert fires_egress(story, SETTINGS[3]) is not disabled
