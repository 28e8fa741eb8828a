"""The figures of locks: moved into their bounds, not refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from omniroute_addon.lock_settings import LOCKED_STATUSES, EgressLockSettings, ModelLockoutSettings


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ({}, (120_000, 1_800_000, 10)),
        ({"base_cooldown_ms": 1, "max_backoff_steps": 99}, (5_000, 1_800_000, 20)),
        ({"base_cooldown_ms": 600_000, "max_cooldown_ms": 5_000}, (600_000, 600_000, 10)),
        ({"base_cooldown_ms": 10**9, "max_cooldown_ms": 10**9, "max_backoff_steps": -1}, (600_000, 3_600_000, 0)),
    ],
)
def test_figures_are_clamped(written: dict[str, Any], wanted: tuple[int, int, int]) -> None:
    """ML Settings, edge case 11"""
    settings = ModelLockoutSettings.model_validate(written)
    assert (settings.base_cooldown_ms, settings.max_cooldown_ms, settings.max_backoff_steps) == wanted


@pytest.mark.parametrize("codes", [[], [99], ["429"], [429, 600], [True]])
def test_a_list_of_statuses_that_makes_no_sense_is_the_default(codes: list[Any]) -> None:
    """ML-16, edge case 12"""
    assert ModelLockoutSettings.model_validate({"error_codes": codes}).error_codes == [*LOCKED_STATUSES]
    assert ModelLockoutSettings.model_validate({"error_codes": [429]}).error_codes == [429]


def test_what_is_no_figure_at_all_is_still_refused() -> None:
    for wrong in ({"base_cooldown_ms": "5s"}, {"enabled": 1}, {"error_codes": 429}, {"typo": 1}, 5):
        with pytest.raises(ValidationError):
            ModelLockoutSettings.model_validate(wrong)


def test_providers_are_trimmed_and_lower_case() -> None:
    """EL-3"""
    assert EgressLockSettings.model_validate({"providers": [" A ", "b"]}).providers == ["a", "b"]
