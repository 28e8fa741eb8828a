"""When may I try again? Every way in which an answer can say so, in one order, with its provenance.

The order (`corpus/README.md`, `CC-23`): `retry-after-ms`, `retry-after`, the reset header of the bucket that is empty,
a field of the body, a sentence of the body. The first one that is a usable time wins; zero, negative, past and
nonsensical ones count as absent (`CC-33`), and nothing is longer than 30 days (`CC-31`).

A length of time is taken as it is. A point in time is compared with the answer's `date` header, so that the provider's
clock, not ours, is subtracted from the provider's time; only without that header `now` is used, and the result says so
(`absolute`). The caps of single phrases and of RetryInfo (`CC-27`) are policy about a stated time, not part of it:
they belong to whoever sets a timer from `RetryAfter.source`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo

from omniroute_addon.model import Answer, RetryAfter

from .error_body import own_words, read_documents
from .instants import parse_http_date
from .reset_fields import find_in_fields
from .reset_headers import find_reset
from .stated_time import Stated, parse_header
from .wait_phrases import find_wait_phrase

LONGEST_S = 30 * 86_400.0
"""`CC-31`."""

_LIMIT_STATUSES = frozenset({402, 403, 408, 409, 420, 425, 429, 430, 498, 503, 529})
"""Statuses that a bucket can be the cause of. On any other failure the reset headers are bookkeeping, not a reason."""


def find_retry_after(answer: Answer, *, now: float, zone: tzinfo = UTC) -> RetryAfter | None:
    """The wait that `answer` states, or None. `now`: epoch seconds, used only where the answer has no `date` header.

    `zone`: of the times that a sentence states without one, where the provider is known to mean its own.

    Never raises, whatever the answer holds. A successful answer states nothing, whatever its text talks about (`A11`).
    """
    if answer.status < 200 or 300 <= answer.status < 400:
        return None
    documents = read_documents(answer)
    if answer.status < 300 and not documents:
        return None
    headers = {name.lower(): value for name, value in answer.headers.items()}
    date = parse_http_date(headers.get("date", ""))
    base = now if date is None else date
    for origin, stated in _candidates(answer, headers, documents, base, zone):
        seconds = stated.wait(base)
        if math.isfinite(seconds) and seconds > 0:
            return RetryAfter(
                seconds=min(seconds, LONGEST_S),
                source=f"{origin}:{stated.source}",
                absolute=stated.seconds is None and date is None,
            )
    return None


def _candidates(
    answer: Answer, headers: Mapping[str, str], documents: tuple[object, ...], base: float, zone: tzinfo
) -> Iterator[tuple[str, Stated]]:
    """(`header`, `body` or `text`; stated time), best first."""
    for name in ("retry-after-ms", "x-ms-retry-after-ms", "retry-after", "x-retry-after"):
        if stated := parse_header(headers.get(name, ""), source=name, base=base):
            yield "header", stated
    if (200 <= answer.status < 300 or answer.status in _LIMIT_STATUSES) and (reset := find_reset(headers, base=base)):
        yield "header", reset
    for document in documents:
        for stated in find_in_fields(document, base=base):
            yield "body", stated
    for words in own_words(answer, documents):
        if phrase := find_wait_phrase(words, base=base, zone=zone):
            yield "text", Stated(source=phrase.quote, seconds=phrase.seconds, at=phrase.at)
