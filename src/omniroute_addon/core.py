"""What every plugin may look at: configuration, packs, rules, clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .clock import Clock

if TYPE_CHECKING:
    from .config import Config
    from .packs import Packs
    from .verdicts import RuleBook


@dataclass(slots=True, kw_only=True)
class Core:
    """The shared ground of engine and plugins. The attributes are replaced as a whole on a reload, never changed."""

    config: Config
    packs: Packs
    rules: RuleBook
    clock: Clock = field(default_factory=Clock)
