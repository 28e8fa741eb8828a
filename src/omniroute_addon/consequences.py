"""What follows from a failed answer for the rest of the call, without asking anybody. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit

from .model import Answer, Kind, RuleRef, Target, Verdict

_PROVIDERS_FAULT = ("server_error", "overloaded", "timeout")
"""Said with 500 to 504 these hold for everybody at that address; a 529 or an error inside a stream may be one key's."""

_PASSING = frozenset(
    {"rate_limit", "concurrency_limited", "quota_exhausted", "overloaded", "server_error", "timeout", "network"}
)


def holds_for_the_address(verdict: Verdict, answer: Answer) -> bool:
    """Asking other keys at the same address would be a wasted call: a server fault (`A24`), a body too large (`A21`)."""
    if verdict.kind == "payload_too_large":
        return True
    said = answer.fault is None and answer.phase != "stream"
    return said and verdict.kind in _PROVIDERS_FAULT and 500 <= answer.status <= 504


def may_come_back(verdict: Verdict) -> bool:
    """The same target may serve the same call a moment later: asked again after a wait (`CW-31`)."""
    return verdict.retry_other and not verdict.terminal and verdict.kind in _PASSING


def origin(target: Target) -> tuple[str, str, int]:
    """Scheme, host and port; the port also where the URL leaves it out, as a pool's does and the client's does not."""
    parts = urlsplit(target.url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def by_status(answer: Answer) -> Verdict:
    """No plugin classifies: the status alone, carefully. Deleting every rule leaves a working proxy (`style.md` §6)."""
    status = answer.status or 502
    again = status in (401, 402, 403, 404, 408, 429, 529) or status >= 500 or not answer.status
    kind: Kind = "server_error" if status >= 500 else "rate_limit" if status == 429 else "invalid_request"
    return Verdict(
        kind="network" if not answer.status else kind,
        scope="request",
        retry_other=again,
        terminal=False,
        breaker=status >= 500 and status != 529,
        status=status if status >= 400 else 502,
        reason="unknown",
        rule=RuleRef(id="status-only"),
        retry_same=answer.status >= 500,
    )
