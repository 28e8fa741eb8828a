"""All client profiles together: whose request is this?

A request is compared with the profiles' `when:` by a few dictionary look-ups: which of them a user agent may belong to
is remembered, so that globs are only run for a user agent that is new. When several fit, the most specific one wins:
the one that names the proxy user, then the one with more conditions, then the one that says more of the user agent,
then the user's own before a bundled one, then by id. So the order of files never matters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from omniroute_addon.model import ClientProfile

if TYPE_CHECKING:
    from .profile_schema import ProfileExample

DEFAULT: Final = "default"
"""Id of the profile for everybody who is not recognised."""
_MOST_REMEMBERED: Final = 1024
_MOST_LOOKED_AT: Final = 512
"""Characters of a header that are compared: what is longer was written to cost time."""

type Fields = Mapping[bytes, bytes]
"""Request headers by lower-case name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to recognise a profile."""

    profile: ClientProfile
    user_agent: tuple[re.Pattern[str], ...]
    headers: tuple[tuple[bytes, tuple[re.Pattern[str], ...]], ...]
    """Name -> patterns of the value; none: it only has to be there."""
    agent: tuple[re.Pattern[str], ...]
    host: tuple[re.Pattern[str], ...]
    path: tuple[re.Pattern[str], ...]
    rank: tuple[bool, int, int, int]

    def fits(self, fields: Fields, *, host: str, path: str, agent: str | None) -> bool:
        """Everything but the user agent."""
        for name, patterns in self.headers:
            value = fields.get(name)
            if value is None or not _any(patterns, value.decode("latin-1")):
                return False
        if self.agent and (agent is None or not _any(self.agent, agent)):
            return False
        return _any(self.host, host) and _any(self.path, path.partition("?")[0])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientBook:
    """Every profile in force. Immutable: a reload builds a new one."""

    profiles: Mapping[str, ClientProfile] = field(default_factory=dict)
    """By id, in alphabetical order; `default` may be missing."""
    examples: Mapping[str, tuple[ProfileExample, ...]] = field(default_factory=dict)
    """Profile id -> what proves it."""
    default: ClientProfile = field(default_factory=ClientProfile)
    ways: tuple[Way, ...] = ()
    """The most specific first."""
    _remembered: dict[bytes, tuple[Way, ...]] = field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"<ClientBook profiles={len(self.profiles)}>"

    def recognise(self, fields: Fields, *, host: str = "", path: str = "", agent: str | None = None) -> ClientProfile:
        """The profile of whoever sent these headers, by lower-case name; `default` for a stranger. Never raises."""
        user_agent = fields.get(b"user-agent", b"")[:_MOST_LOOKED_AT]
        ways = self._remembered.get(user_agent)
        if ways is None:
            text = user_agent.decode("latin-1")
            ways = tuple(way for way in self.ways if _any(way.user_agent, text))
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[user_agent] = ways
        for way in ways:
            if way.fits(fields, host=host, path=path, agent=agent):
                return way.profile
        return self.default

    @staticmethod
    def is_side_path(profile: ClientProfile, path: str) -> bool:
        """The client's request is no model call, whatever the packs think of its path."""
        bare = path.partition("?")[0]
        return any(_path_glob(glob).fullmatch(bare) for glob in profile.side_paths)


@lru_cache(maxsize=4096)
def compile_glob(glob: str) -> re.Pattern[str]:
    """`*` stands for any text; everything else for itself, in any letter case.

    What stands between two `*` is taken where it comes first, and never tried elsewhere: nothing is lost by that, and a long
    text cannot make a glob with many `*` slow.
    """
    first, *rest = map(re.escape, glob.split("*"))
    between = "".join(f"(?>.*?{piece})" for piece in rest[:-1] if piece)
    return re.compile(first + between + (f".*{rest[-1]}" if rest else ""), re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=1024)
def _path_glob(glob: str) -> re.Pattern[str]:
    """As in packs: `*` is part of a segment, `**` any number of them."""
    parts = re.split(r"(\*+)", glob)
    return re.compile("".join({"": "", "*": "[^/]*"}.get(p, ".*") if not p.strip("*") else re.escape(p) for p in parts))


def _any(patterns: Sequence[re.Pattern[str]], text: str) -> bool:
    """Whether one of them fits; what is not asked for fits."""
    return not patterns or any(pattern.fullmatch(text[:_MOST_LOOKED_AT]) for pattern in patterns)
