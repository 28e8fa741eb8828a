"""The words of an error: a value as it was written, and the allowed ones with the nearest first (`style.md` §7)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, Final

_MAX_SHOWN: Final = 60
_MAX_LISTED: Final = 24
_CREDENTIAL = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|gh[opsu]|github_pat|hf|nvapi|pplx|csk|r8)[-_][-_A-Za-z0-9]{8,}"
    r"|\b(?:AIza|ya29\.|eyJ|AKIA)[-_.A-Za-z0-9]{8,}"
    r"|(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{24,}"
    r"|[Bb]earer\s+\S+|[^/\s]+:[^/\s]+@"
)


def shown(value: Any) -> str:
    """`value` as a person wrote it, in quotes and shortened; what looks like a credential is not repeated.

    A net below the rule that fields made for secrets never come here: people paste keys into the wrong field.
    """
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    text = value if isinstance(value, str) else _as_yaml(value)
    if looks_like_credential(text):
        return f"(hidden, {len(text)} characters)"
    text = text.replace("\n", "\\n")
    return f"'{text}'" if len(text) <= _MAX_SHOWN else f"'{text[:_MAX_SHOWN]}…'"


def looks_like_credential(text: str) -> bool:
    """Begins as the keys of well-known providers do, carries a password, or is a long run of letters and digits."""
    return _CREDENTIAL.search(text) is not None


def _as_yaml(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def unknown(what: str, value: Any, allowed: Iterable[str], *, hint: str = "") -> str:
    """`unknown reason 'x'. Did you mean 'y'?` and, on a second line, everything that is allowed, nearest first."""
    ranked = by_nearness(str(value), allowed)
    near = difflib.get_close_matches(str(value).lower(), ranked, n=1, cutoff=0.6)
    question = f" Did you mean '{near[0]}'?" if near else ""
    more = f", … and {len(ranked) - _MAX_LISTED} more" if len(ranked) > _MAX_LISTED else ""
    listing = (
        f"Known {plural(what)}: {', '.join(ranked[:_MAX_LISTED])}{more}" if ranked else f"No {what} is known here."
    )
    return f"unknown {what} {shown(value)}.{question}\n  {listing}{hint}"


def by_nearness(value: str, allowed: Iterable[str]) -> list[str]:
    """The allowed words, most similar first, equals in alphabetical order."""
    value = value.lower()
    return sorted(allowed, key=lambda word: (-difflib.SequenceMatcher(None, value, word.lower()).ratio(), word))


def plural(word: str) -> str:
    """Good enough for the names of our own fields."""
    if word.endswith("s"):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else word + "s"
