"""An upstream's own words, made fit for logs, comments and answers: short, one line, without credentials."""

from __future__ import annotations

import re
from typing import Final

MAX_MESSAGE: Final = 200
_LOOKED_AT: Final = 4096
_CREDENTIAL = re.compile(
    r"""(?x)
    \b(?:sk|pk|rk|ak|gsk|xai|nvapi|hf|ghu|gho|ghp|key|tok|pplx|r8|fw|csk|AIza|AKIA|ASIA|ya29)[-_.]?[A-Za-z0-9_*.\-]{8,}
    | \beyJ[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]+){0,2}       # a JSON Web Token
    | \b[A-Za-z0-9_\-]{40,}\b                                  # nothing that people read is that long
    """
)
_NAMED = re.compile(
    r"(?i)\b(bearer|api[-_ ]?key|token|secret|password|authorization)(\s*[:=]\s*|\s+)([\"']?)[^\s\"',;]{12,}"
)


def sanitised(message: str) -> str:
    """The message on one line, at most 200 characters, everything that could be a credential replaced by `[…]`."""
    text = " ".join(message[:_LOOKED_AT].split())
    text = "".join(char for char in text if char.isprintable())
    text = _NAMED.sub(_mask_named, text)
    text = _CREDENTIAL.sub(lambda match: "[…]" if _looks_random(match[0]) else match[0], text)
    return text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _mask_named(match: re.Match[str]) -> str:
    value = match[0][len(match[1]) + len(match[2]) :]
    return f"{match[1]}{match[2]}[…]" if _looks_random(value) else match[0]


def _looks_random(word: str) -> bool:
    """Words have no digits and are not starred out; `key_model_access_denied` is a word."""
    return any(char.isdigit() or char == "*" for char in word)
