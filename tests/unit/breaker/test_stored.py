"""What stands in the store and in the API, and what is made of nonsense."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon.breaker.figures import figures_for
from omniroute_addon.breaker.machine import Breaker, Failure, after_failure, refreshed
from omniroute_addon.breaker.stored import as_value, from_value, status
from omniroute_addon.breaker.table import State
from omniroute_addon.provider_settings import CircuitBreaker

API = figures_for("api_key", CircuitBreaker(), tells_kinds=True)
T0 = 1_760_000_000_000


def opened() -> Breaker:
    breaker = Breaker()
    for number in range(12):
        breaker = after_failure(breaker, Failure(connection=f"c{number}", network=number == 3), API, T0)
    return breaker


def test_what_is_stored_is_read_back_the_same() -> None:
    """CB-58"""
    for breaker in (Breaker(), opened(), refreshed(opened(), API, T0 + 30_000)):
        assert from_value(json.loads(json.dumps(as_value("glm", breaker, API)))) == breaker
    assert from_value(None) == Breaker()


def test_the_row_has_the_fields_of_the_specification() -> None:
    """CB-58"""
    value = as_value("glm", opened(), API)
    assert {k: v for k, v in value.items() if k != "options"} == {
        "name": "glm",
        "state": "OPEN",
        "failureCount": 12,
        "lastFailureTime": T0,
    }
    wanted = {
        "failureThreshold": 12,
        "resetTimeout": 30_000,
        "halfOpenRequests": 1,
        "lastFailureKind": "transient",
        "openCycleCount": 0,
        "kindFailureCounts": {"transient": 12},
    }
    assert {k: value["options"][k] for k in wanted} == wanted


def test_an_unknown_state_is_closed() -> None:
    """CB-59"""
    assert from_value({"state": "AJAR", "failureCount": 3}).state is State.CLOSED


def test_settings_are_never_taken_from_the_row() -> None:
    """CB-62"""
    value = as_value("glm", Breaker(), API)
    value["options"] |= {"failureThreshold": 1, "resetTimeout": 1}
    assert from_value(value) == Breaker()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = list(as_value("x", Breaker(), API))
OPTIONS = list(as_value("x", Breaker(), API)["options"])


@given(
    st.dictionaries(st.sampled_from(FIELDS), json_values),
    st.dictionaries(st.sampled_from(OPTIONS), json_values),
)
def test_nonsense_in_a_row_is_read_as_missing(value: dict[str, Any], options: dict[str, Any]) -> None:
    for row in (value, {**value, "options": options}):
        breaker = from_value(row)
        assert breaker.failures >= 0 and breaker.cycles >= 0
        assert from_value(as_value("x", breaker, API)) == breaker


def test_the_status_object() -> None:
    """CB-67, REST shapes"""
    shown = status("glm", opened(), API, now_ms=T0 + 8_500)
    assert shown.pop("transitionHistory")[-1] == {
        "from": "DEGRADED",
        "to": "OPEN",
        "timestamp": T0,
        "failureCount": 12,
        "reason": "kind:transient",
    }
    assert shown == {
        "name": "glm",
        "state": "OPEN",
        "failureCount": 12,
        "lastFailureTime": T0,
        "retryAfterMs": 21_500,
        "lastFailureKind": "transient",
        "openCycleCount": 0,
        "kindFailureCounts": {"transient": 12},
        "degradationThreshold": 7,
        "effectiveResetTimeout": 30_000,
    }
    assert status("glm", Breaker(), API, now_ms=T0, lease_ms=9)["retryAfterMs"] == 0
    half = refreshed(opened(), API, T0 + 30_000)
    assert status("glm", half, API, now_ms=T0 + 30_000, lease_ms=9)["retryAfterMs"] == 9
