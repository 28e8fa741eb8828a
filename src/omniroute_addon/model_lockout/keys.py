"""Which locks concern a model: its quota family's, its own, and the exact one (`ML-1` to `ML-11`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal

from omniroute_addon.failure_effects import LockReason

Scope = Literal["quota_family", "bare", "exact"]
Families = Mapping[str, Sequence[str]]
"""Family -> globs of lower-case model ids, first that fits (`packs.quota_families`)."""
_EXACT_ONLY: Final = frozenset({"antigravity"})
"""`ML-7`."""
_OF_FAMILY: Final = frozenset({402, 403, 429})


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The three keys of one model of one connection."""

    family: str
    bare: str
    exact: str

    def __iter__(self) -> Iterator[str]:
        yield from dict.fromkeys((self.family, self.bare, self.exact))

    def of(self, scope: Scope) -> str:
        return {"quota_family": self.family, "bare": self.bare, "exact": self.exact}[scope]


def family_of(model: str, families: Families) -> str | None:
    """The family that a pack names for a model; None when the model stands for itself (`ML-11`)."""
    name = model.strip().lower()
    return next((f for f, globs in families.items() if any(fnmatchcase(name, g.lower()) for g in globs)), None)


def keys_of(provider: str, connection: str, model: str, families: Families) -> Keys:
    """`connection` is a connection key, `provider` the canonical id (`ML-2`)."""
    begin = f"{provider}:{connection}:"
    family = family_of(model, families)
    bare = begin + model
    # Marked, so that a family and a model of the same name are told apart.
    return Keys(
        family=f"{begin}family:{family}" if family else bare, bare=bare, exact=f"{begin}exact:{model.strip().lower()}"
    )


def scope_for(status: int, reason: LockReason, provider: str) -> Scope:
    """The key that a failing status locks (`ML-3` to `ML-7`)."""
    if provider in _EXACT_ONLY:
        return "exact"
    if reason == "not_found" or status == 404:
        return "bare"
    return "quota_family" if status in _OF_FAMILY else "exact"
