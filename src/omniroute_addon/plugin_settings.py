"""Which plugins run."""

from __future__ import annotations

from pydantic import Field

from .input_problems import Strict
from .setting_fields import setting


class PluginSettings(Strict):
    """Which plugins run."""

    disabled: list[str] = Field(default_factory=list, description="Names of plugins that are listed but never asked.")
    max_faults: int = setting(10, "Faults in a row after which a plugin is quarantined.", ge=1, le=1_000_000)
