"""How well a rule book reads a corpus: shares per field, kind and provider, and every costly mistake by name.

Counting follows `corpus/README.md`: *strict* is equal to what is wanted, *lenient* also to one of the values that the
note calls debatable; the macro mean gives every kind the same weight, so that many 429s do not hide a rare kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omniroute_addon.model import DialectName, Verdict

from .corpus import FIELDS, Case
from .from_wire import answer_from_wire, dialect_of_body, dialect_of_door
from .judge import RuleBook

if TYPE_CHECKING:
    from omniroute_addon.packs import Packs

SCORED_AT = 1_767_225_600.0
"""Midnight UTC, 1 January 2026: points in time are computed from here where an answer has no `date`, so that the
figures do not depend on the day of the run."""
_TOLERANCE_S, _TOLERANCE = 1.0, 0.02
_COSTLY_KINDS = frozenset(
    {
        "rate_limit",
        "quota_exhausted",
        "concurrency_limited",
        "credits_exhausted",
        "auth_invalid",
        "auth_expired",
        "forbidden",
        "account_banned",
    }
)
"""Kinds that a look-alike must never be taken for."""
_NARROW = frozenset({"request", "model"})
COSTLY = (
    "healthy_taken_out",
    "dead_kept",
    "lookalike_misread",
    "too_wide",
    "wasted_retry",
    "lost_request",
    "breaker_wrong",
    "wait_wrong",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One case and what it was judged as."""

    case: Case
    got: Mapping[str, object]
    """The fields of `FIELDS` as the verdict has them."""
    absolute: bool
    """The wait was computed from a point in time with our own clock."""
    rule: str
    """Id of the rule that decided."""

    def right(self, name: str, *, lenient: bool) -> bool:
        """Whether a field is what the case wants."""
        wanted = self.case.accepts(name) if lenient else (self.case.expect[name],)
        if name == "retry_after_s":
            return any(self._same_wait(value) for value in wanted)
        if name == "retry_after_from":
            return any(_same_source(self.got[name], value) for value in wanted)
        return self.got[name] in wanted

    def _same_wait(self, wanted: object) -> bool:
        got = self.got["retry_after_s"]
        if wanted is None:
            said = self.case.expect["retry_after_from"]
            # A point in time is left uncomputed in the corpus; a program that knows the time may compute it.
            return got is None or (self.absolute and isinstance(said, str) and said.startswith("absolute:"))
        if not isinstance(got, float) or not isinstance(wanted, int | float):
            return False
        return abs(got - wanted) <= max(_TOLERANCE_S, _TOLERANCE * wanted)


def judge_case(case: Case, book: RuleBook, packs: Packs, *, provider_known: bool, now: float = SCORED_AT) -> Judged:
    """Judge one case as the proxy would. Without the provider nothing but the answer itself is known."""
    dialect: DialectName | None
    if provider_known:
        provider, dialect = case.provider, dialect_of_door(packs, case.provider, case.path)
        heard = answer_from_wire(
            status=case.status, headers=case.headers, body=case.body, stream=case.stream, dialect=dialect
        )
    else:
        provider, dialect = None, None
        heard = answer_from_wire(
            status=case.status,
            headers=case.headers,
            body=case.body,
            stream=case.stream,
            dialect=dialect_of_body(case.body),
        )
    verdict = book.judge(heard.answer, provider=provider, dialect=dialect, now=now)
    got = verdict_fields(verdict)
    if heard.committed:
        got["retry_other"] = False  # the client has seen the beginning: nothing is replayed
    return Judged(
        case=case,
        got=got,
        absolute=verdict.retry_after is not None and verdict.retry_after.absolute,
        rule=verdict.rule.id,
    )


def verdict_fields(verdict: Verdict) -> dict[str, object]:
    """A verdict in the fields of the corpus."""
    wait = verdict.retry_after
    return {
        "kind": verdict.kind,
        "scope": verdict.scope,
        "retry_other": verdict.retry_other,
        "terminal": verdict.terminal,
        "retry_after_s": wait.seconds if wait else None,
        "retry_after_from": wait.source if wait else None,
        "breaker": verdict.breaker,
    }


def score(cases: Sequence[Case], book: RuleBook, packs: Packs) -> dict[str, Any]:
    """The report as JSON-able data, with the provider known and, under `without_provider`, without."""
    known = [judge_case(case, book, packs, provider_known=True) for case in cases]
    unknown = [judge_case(case, book, packs, provider_known=False) for case in cases]
    return {"cases": len(cases), **report(known), "without_provider": {"cases": len(cases), **report(unknown)}}


def report(judged: Sequence[Judged]) -> dict[str, Any]:
    """`fields`, `per_kind`, `per_provider`, `costly` and `weighted` of one run; shares are 0…1."""
    kinds = _grouped(judged, lambda j: str(j.case.expect["kind"]))
    providers = _grouped(judged, lambda j: j.case.provider)
    fields = {
        name: {
            "strict": _mean([_share(judged, name, lenient=False)]),
            "lenient": _mean([_share(judged, name, lenient=True)]),
            "macro_strict": _mean(_share(group, name, lenient=False) for group in kinds.values()),
            "macro_lenient": _mean(_share(group, name, lenient=True) for group in kinds.values()),
        }
        for name in FIELDS
    }
    return {
        "fields": fields,
        "per_kind": {kind: _group_report(group) for kind, group in sorted(kinds.items())},
        "per_provider": {provider: _group_report(group) for provider, group in sorted(providers.items())},
        "costly": costly(judged),
        "weighted": weighted(judged),
    }


def costly(judged: Iterable[Judged]) -> dict[str, list[str]]:
    """Case ids by mistake. What the case itself calls debatable is no mistake."""
    found: dict[str, list[str]] = {name: [] for name in COSTLY}
    for j in judged:
        for name in _mistakes(j):
            found[name].append(j.case.id)
    return found


def weighted(judged: Sequence[Judged]) -> float:
    """One number: the strict share over all fields but the provenance, in which a debatable case weighs half."""
    names = [name for name in FIELDS if name != "retry_after_from"]
    total = sum(0.5 if j.case.debatable else 1.0 for j in judged) * len(names)
    right = sum(0.5 if j.case.debatable else 1.0 for j in judged for name in names if j.right(name, lenient=False))
    return round(right / total, 4) if total else 0.0


def _mistakes(j: Judged) -> Iterable[str]:
    got, wanted = j.got, j.case.expect
    if not j.right("terminal", lenient=True):
        yield "healthy_taken_out" if got["terminal"] else "dead_kept"
    if j.case.lookalike and got["kind"] in _COSTLY_KINDS and not j.right("kind", lenient=True):
        yield "lookalike_misread"
    if wanted["scope"] in _NARROW and got["scope"] not in _NARROW and not j.right("scope", lenient=True):
        yield "too_wide"
    if not j.right("retry_other", lenient=True):
        yield "wasted_retry" if got["retry_other"] else "lost_request"
    if got["breaker"] and not j.right("breaker", lenient=True):
        yield "breaker_wrong"
    if not j.right("retry_after_s", lenient=True):
        yield "wait_wrong"


def _same_source(got: object, wanted: object) -> bool:
    """Provenance: names and paths must be equal, of a quoted text one must contain the other."""
    if not isinstance(got, str) or not isinstance(wanted, str):
        # The corpus may leave the provenance open only together with the wait.
        return got is wanted
    wanted = wanted.removeprefix("absolute:")
    sort, _, place = wanted.partition(":")
    got_sort, _, got_place = got.partition(":")
    if sort != got_sort:
        return False
    if sort == "text":
        a, b = got_place.casefold(), place.casefold()
        return a in b or b in a or _letters(a) in _letters(b) or _letters(b) in _letters(a)
    return got_place == place.partition("=")[0]


def _letters(text: str) -> str:
    """Without what a wrong charset does to accented letters."""
    return "".join(letter for letter in text if letter.isascii())


def _grouped(judged: Iterable[Judged], key: Callable[[Judged], str]) -> dict[str, list[Judged]]:
    groups: dict[str, list[Judged]] = defaultdict(list)
    for j in judged:
        groups[key(j)].append(j)
    return groups


def _group_report(group: Sequence[Judged]) -> dict[str, Any]:
    shares = {
        name: {
            "strict": _mean([_share(group, name, lenient=False)]),
            "lenient": _mean([_share(group, name, lenient=True)]),
        }
        for name in FIELDS
    }
    return {"cases": len(group), **shares}


def _share(group: Sequence[Judged], name: str, *, lenient: bool) -> float:
    return sum(j.right(name, lenient=lenient) for j in group) / len(group) if group else 0.0


def _mean(shares: Iterable[float]) -> float:
    """Rounded to four places, once, at the end."""
    values = list(shares)
    return round(sum(values) / len(values), 4) if values else 0.0
