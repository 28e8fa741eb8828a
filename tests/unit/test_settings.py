"""Every figure: where it comes from, its bounds, and what a bad environment variable does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from omniroute_addon.settings import Settings, Sourced, resolve_settings, rows

NAMES = [row.name for row in rows()]
ENV = sorted({name for row in rows() for name in row.env})


def env(**environ: str) -> Settings:
    return resolve_settings(None, environ, {})[0]


def test_the_defaults_are_those_of_the_specification() -> None:
    """CC-12, CC-13, CC-15, CC-16, CC-20, CC-31, ST-14, ST-15"""
    s = Settings()
    cooldown = s.connection_cooldown
    assert (s.readiness_timeout_ms, s.readiness_max_timeout_ms, s.idle_timeout_ms) == (80_000, 180_000, 300_000)
    assert (s.attempt_deadline_ms, s.head_timeout_ms) == (1_260_000, 600_000)
    assert (s.max_cooldown_ms, s.longest_rest_ms, s.max_hint_ms) == (None, 1_800_000, 2_592_000_000)
    steps = [(c.base_cooldown_ms, c.max_backoff_steps) for c in (cooldown.oauth, cooldown.api_key, cooldown.local)]
    assert steps == [(5_000, 8), (3_000, 5), (2_000, 3)]
    assert [cooldown.oauth.use_upstream_retry_hints, cooldown.api_key.use_upstream_retry_hints] == [False, True]


def test_every_setting_is_described_and_its_default_is_within_its_bounds() -> None:
    for row in rows():
        assert row.field.description
        assert row.field.description.endswith(".")
    assert resolve_settings(None, {}, {})[0] == Settings()


def test_every_duration_has_its_unit_in_its_name() -> None:
    timed = [name for name in NAMES if any(word in name for word in ("timeout", "deadline", "pause", "grace", "hint_"))]
    assert timed
    assert all(name.endswith("_ms") for name in timed)


@pytest.mark.parametrize(
    ("name", "environ", "wanted"),
    [
        ("readiness_timeout_ms", {"STREAM_READINESS_TIMEOUT_MS": "5"}, 5),
        ("readiness_timeout_ms", {"REQUEST_TIMEOUT_MS": "6"}, 6),
        ("readiness_timeout_ms", {"STREAM_READINESS_TIMEOUT_MS": "5", "REQUEST_TIMEOUT_MS": "6"}, 5),
        ("readiness_timeout_ms", {"STREAM_READINESS_TIMEOUT_MS": "0"}, 0),
        ("readiness_timeout_ms", {"STREAM_READINESS_TIMEOUT_MS": " 7.9 "}, 7),
        ("readiness_timeout_ms", {"STREAM_READINESS_TIMEOUT_MS": " "}, 80_000),
        ("readiness_max_timeout_ms", {"STREAM_READINESS_MAX_TIMEOUT_MS": "5", "REQUEST_TIMEOUT_MS": "6"}, 5),
        ("idle_timeout_ms", {"STREAM_IDLE_TIMEOUT_MS": "5"}, 5),
        ("idle_timeout_ms", {"REQUEST_TIMEOUT_MS": "6"}, 6),
        ("head_timeout_ms", {"FETCH_TIMEOUT_MS": "1e3", "REQUEST_TIMEOUT_MS": "6"}, 1000),
        ("head_timeout_ms", {"REQUEST_TIMEOUT_MS": "6"}, 6),
        ("attempt_deadline_ms", {"STREAM_ACTIVE_TIMEOUT_MS": "5"}, 5),
    ],
)
def test_the_environment_wins_over_the_default(name: str, environ: dict[str, str], wanted: int) -> None:
    """ST section 13"""
    assert getattr(env(**environ), name) == wanted


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "-inf", "soon", "1e999", "99999999999", "0x10"])
def test_a_number_that_is_none_means_the_default_with_one_warning(text: str) -> None:
    """ST section 13"""
    settings, sources, warnings = resolve_settings(None, {"REQUEST_TIMEOUT_MS": text}, {})
    assert settings == Settings()
    assert warnings == [
        f"environment variable REQUEST_TIMEOUT_MS: '{text}' is not a number from 0 to 86400000. The default is used."
    ]
    assert sources["idle_timeout_ms"].origin == "default"


def test_the_file_wins_over_the_environment_and_the_origin_is_remembered() -> None:
    written = Settings.model_validate({"idle_timeout_ms": 1, "plugins": {"max_faults": 3}})
    places = {"idle_timeout_ms": "o.yaml:3:5", "plugins.max_faults": "o.yaml:4:9"}
    environ = {"STREAM_IDLE_TIMEOUT_MS": "nonsense", "STREAM_ACTIVE_TIMEOUT_MS": "2"}
    settings, sources, warnings = resolve_settings(written, environ, places)
    assert (settings.idle_timeout_ms, settings.attempt_deadline_ms, settings.plugins.max_faults) == (1, 2, 3)
    assert warnings == []
    assert str(sources["idle_timeout_ms"]) == "1 (o.yaml:3:5)"
    assert sources["plugins.max_faults"] == Sourced(value=3, origin="o.yaml:4:9")
    assert sources["attempt_deadline_ms"].origin == "environment STREAM_ACTIVE_TIMEOUT_MS"
    assert sources["plugins.disabled"] == Sourced(value=[], origin="default")
    assert list(sources) == NAMES


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline_ms": 0},
        {"idle_timeout_ms": -1},
        {"idle_timeout_ms": 1.5},
        {"idle_timeout_ms": True},
        {"retries_in_place": 21},
        {"own_credential": "sometimes"},
        {"held_body_bytes": 10},
        {"connection_cooldown": {"oauth": {"use_upstream_retry_hints": "yes"}}},
        {"nonsense": 1},
    ],
)
def test_values_out_of_bounds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Settings.model_validate(wrong)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("TRUE", True),
        ("1", True),
        ("Yes", True),
        ("on", True),
        ("false", False),
        ("0", False),
        ("NO", False),
        ("off", False),
    ],
)
def test_booleans_of_the_environment_in_any_letter_case(
    text: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ST section 13. No row has a boolean variable yet, so one is given for the test."""
    field = Settings.model_fields["connection_cooldown"].annotation
    assert field is not None
    hints = field.model_fields["oauth"].annotation.model_fields["use_upstream_retry_hints"]
    monkeypatch.setattr(hints, "json_schema_extra", {"env": ["HINTS"]})
    monkeypatch.setattr(Settings.model_fields["own_credential"], "json_schema_extra", {"env": ["OWN"]})
    settings = env(HINTS=text, OWN="first")
    assert settings.connection_cooldown.oauth.use_upstream_retry_hints is wanted
    assert settings.own_credential == "first"
    _, _, warnings = resolve_settings(None, {"HINTS": "perhaps", "OWN": "sometimes"}, {})
    assert warnings == [
        "environment variable OWN: 'sometimes' is not last or first or never. The default is used.",
        "environment variable HINTS: 'perhaps' is not true or false. The default is used.",
    ]


@given(st.dictionaries(st.sampled_from(ENV), st.text(max_size=12)))
def test_no_environment_makes_it_raise(environ: dict[str, str]) -> None:
    settings, sources, _ = resolve_settings(None, environ, {})
    assert all(getattr(settings, name) >= 0 for name in ("idle_timeout_ms", "head_timeout_ms", "attempt_deadline_ms"))
    assert list(sources) == NAMES


def test_every_variable_that_the_specification_names_for_the_state_is_read() -> None:
    """`spec/01`, `02`, `03`, `07`: Settings."""
    classes = ("OAUTH", "API_KEY", "LOCAL")
    breaker = {f"OMNIROUTE_CIRCUIT_BREAKER_{c}_{what}" for c in classes for what in ("THRESHOLD", "RESET_MS")}
    holds = ("DEGRADATION_THRESHOLD", "MAX_BACKOFF_MULTIPLIER", "BACKOFF_ESCALATION_COUNT")
    breaker |= {f"OMNIROUTE_PROVIDER_BREAKER_{c}_{what}" for c in ("OAUTH", "API_KEY") for what in holds}
    window = ("FAILURE_THRESHOLD", "FAILURE_WINDOW_MS", "COOLDOWN_MS")
    cooldown = {f"OMNIROUTE_PROVIDER_BREAKER_{c}_{what}" for c in classes for what in window}
    cooldown |= {f"PROVIDER_COOLDOWN_{what}" for what in ("ENABLED", "MIN_MS", "MAX_MS")}
    others = {"PROBE_CAN_DISABLE", "OMNIROUTE_EGRESS_IP_LOCK_PROVIDERS"}
    read = {name: row.name for row in rows() for name in row.env}
    assert breaker | cooldown | others <= read.keys()
    assert all(read[name].startswith("circuit_breaker.") for name in breaker)
    assert all(read[name].startswith("provider_cooldown.") for name in cooldown)
