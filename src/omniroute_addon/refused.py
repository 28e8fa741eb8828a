"""What `admit` gives back for a request that may not go: an awaitable that refuses at once."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from .errors import NotAdmitted


@dataclass(frozen=True, slots=True)
class Refused:
    """Raises `NotAdmitted` with the reason when it is awaited."""

    reason: str

    def __await__(self) -> Generator[Any, None, None]:
        raise NotAdmitted(self.reason)
        yield  # what makes it an awaitable
