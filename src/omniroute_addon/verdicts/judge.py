"""The rule book: an answer goes in, a verdict comes out, with the rule that decided.

Order (`spec/05`, issue 3): the operator's rules, the provider's pack, the dialect's file, then what holds for anybody
(`_gateways`, `_network`, `_generic`). Within one list the first rule that matches and is not vetoed decides; a veto
does not stop the search (`SR-13`). An answer in another dialect than the door's (gateways do that) is still met by
that dialect's own table, after the door's.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, Literal, Protocol, Self

from omniroute_addon.model import Answer, Category, Kind, Restatement, RuleRef, Verdict

from .answer_view import AnswerView, view
from .build_verdict import build_verdict, kind_of, status_for, verdict_by_status
from .instants import parse_zone
from .rules import Rule, candidates, compile_operator_rule, compile_rule
from .schema import ClassifyRule, OperatorRule, PackRules, RestateRule, RuleLists
from .text_match import Written

log = logging.getLogger(__name__)

MAX_OPERATOR_RULES: Final = 50
"""`FC-60`."""
DIALECT_FILES: Final[Mapping[str, str]] = {
    "openai-chat": "_openai",
    "openai-responses": "_openai",
    "anthropic-messages": "_anthropic",
    "gemini": "_gemini",
}
SHARED_FILES: Final = ("_gateways", "_network", "_generic")
_DIALECTS: Final = ("_openai", "_anthropic", "_gemini")
INSIDE_SUCCESS: Final = RuleRef(id="error-inside-success")
"""Restates an error in a 2xx to the status that it names; a fact about the answer, so it is no rule of a file."""


class RuleFile(Protocol):
    """The rules of one file, as `packs.RuleFile` holds them."""

    @property
    def file(self) -> str: ...
    @property
    def lists(self) -> RuleLists: ...
    @property
    def lines(self) -> Mapping[str, int]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleTrace:
    """One rule that was tried."""

    rule: RuleRef
    part: Literal["restate", "classify"]
    missed: str | None
    """The condition that did not hold, `unless` for a veto, None for the rule that decided."""
    about: str = ""


class RuleBook:
    """All rules, compiled. Immutable after `build`; shared by all requests."""

    __slots__ = ("_categories", "_classify", "_indexed", "_restate", "_windows", "_zones", "problems", "rules")

    def __init__(
        self,
        restate: Mapping[str, tuple[Rule[RestateRule], ...]],
        classify: Mapping[str, tuple[Rule[ClassifyRule], ...]],
        categories: Mapping[str, Category],
        zones: Mapping[str, tzinfo],
        problems: tuple[str, ...],
    ) -> None:
        self._restate = restate
        self._classify = classify
        self._categories = categories
        self._zones = zones
        self._windows = tuple(
            rule
            for rule in classify.get("_generic", ())
            if kind_of(rule.written) == "quota_exhausted" and (rule.written.cooldown or rule.written.renews)
        )
        self._indexed: dict[tuple[str, str, int, bool], tuple[Rule[ClassifyRule], ...]] = {}
        self.problems = problems
        """Rules that were left out, one sentence each with its place; the others are in force."""
        self.rules: Mapping[str, ClassifyRule | RestateRule] = {
            rule.ref.id: rule.written for part in (restate, classify) for rules in part.values() for rule in rules
        }
        """Every rule in force by id."""

    @classmethod
    def build(
        cls,
        files: Mapping[str, Sequence[RuleFile]],
        *,
        categories: Mapping[str, Category] | None = None,
        operator: Mapping[str, Sequence[OperatorRule]] | None = None,
    ) -> Self:
        """Compile rule files by owner: a provider id, or `_openai`, `_generic`, … for shared ones.

        A rule that cannot be used is left out and named in `problems` (`SR-9`, `SR-15`, `FC-60`); nothing is raised.
        """
        problems: list[str] = []
        seen: dict[str, str] = {}
        shared = {name: items for file in files.get("_generic", ()) for name, items in file.lists.phrases.items()}
        restate: dict[str, tuple[Rule[RestateRule], ...]] = {}
        classify: dict[str, tuple[Rule[ClassifyRule], ...]] = {}
        for owner, sources in files.items():
            first: list[Rule[RestateRule]] = []
            second: list[Rule[ClassifyRule]] = []
            for source in sources:
                named = {**shared, **source.lists.phrases}
                first += _compiled(source.lists.restate, source, named, seen, problems)
                second += _compiled(source.lists.classify, source, named, seen, problems)
            restate[owner.lower()], classify[owner.lower()] = tuple(first), tuple(second)
        zones = {
            owner.lower(): zone
            for owner, sources in files.items()
            for source in reversed(sources)  # the user's file comes first and has the last word
            if isinstance(source.lists, PackRules)
            if source.lists.timezone and (zone := parse_zone(source.lists.timezone))
        }
        own = operator or {}
        if (count := sum(len(rules) for rules in own.values())) > MAX_OPERATOR_RULES:
            problems.append(
                f"{count} operator rules; at most {MAX_OPERATOR_RULES} are allowed (FC-60), so none is in force. "
                "Move lasting ones into a pack of your own"
            )
            own = {}
        for provider, rules in own.items():
            name = provider.lower()
            classify[f"operator:{name}"] = tuple(
                compile_operator_rule(rule, provider=name, number=number) for number, rule in enumerate(rules, 1)
            )
        return cls(restate, classify, categories or {}, zones, tuple(problems))

    def restate(self, answer: Answer, *, provider: str | None, dialect: str | None) -> Restatement | None:
        """The true status of an answer whose status lies, or None (`SR-1` to `SR-30`). Never raises (`SR-7`)."""
        try:
            return self._restated(answer, self._view(answer, provider, dialect), None)
        except Exception:  # a broken rule must not cost the request (SR-7); the cause goes to the log
            log.exception("restatement failed, status %d left as it is", answer.status)
            return None

    def classify(
        self, answer: Answer, *, provider: str | None, dialect: str | None, restatement: Restatement | None, now: float
    ) -> Verdict:
        """What an answer means, under its restated status. Always answers, never raises."""
        try:
            return self._classified(answer, self._view(answer, provider, dialect), restatement, now)
        except Exception:  # a broken rule must not cost the request; the status alone still says something
            log.exception("classification failed, judged by status %d alone", answer.status)
            return verdict_by_status(answer, restatement)

    def judge(self, answer: Answer, *, provider: str | None, dialect: str | None, now: float) -> Verdict:
        """Restate, then classify, reading the answer once. Never raises."""
        restatement: Restatement | None = None
        try:
            seen = self._view(answer, provider, dialect)
            restatement = self._restated(answer, seen, None)
            return self._classified(answer, seen, restatement, now)
        except Exception:  # as above
            log.exception("judging failed, judged by status %d alone", answer.status)
            return verdict_by_status(answer, restatement)

    def trace(self, answer: Answer, *, provider: str | None, dialect: str | None) -> tuple[RuleTrace, ...]:
        """Every rule that is tried, in order, up to and including the one that decides; for `rules explain`."""
        tried: list[RuleTrace] = []
        seen = self._view(answer, provider, dialect)
        restatement = self._restated(answer, seen, tried)
        if restatement is not None and restatement.rule != INSIDE_SUCCESS:
            seen = seen.with_status(restatement.status)
        self._deciding(seen, tried)
        return tuple(tried)

    def matches(self, rule_id: str, answer: Answer, *, provider: str | None, dialect: str | None) -> bool:
        """Whether one rule by itself applies to an answer; for the `no_match` examples of `rules test`.

        Raises KeyError for an unknown rule.
        """
        seen = self._view(answer, provider, dialect)
        for restating in (rule for rules in self._restate.values() for rule in rules if rule.ref.id == rule_id):
            return restating.miss(seen) is None
        restatement = self._restated(answer, seen, None)
        if restatement is not None and restatement.rule != INSIDE_SUCCESS:
            seen = seen.with_status(restatement.status)
        for rule in (rule for rules in self._classify.values() for rule in rules if rule.ref.id == rule_id):
            return (rule.written.when and rule.miss(seen)) is None
        raise KeyError(rule_id)

    def __repr__(self) -> str:
        counts = f"restate={sum(map(len, self._restate.values()))} classify={sum(map(len, self._classify.values()))}"
        return f"<RuleBook {counts} owners={len(self._classify)} refused={len(self.problems)}>"

    def _view(self, answer: Answer, provider: str | None, dialect: str | None) -> AnswerView:
        name = (provider or "").lower()
        return view(answer, provider=name, category=self._categories.get(name), dialect=dialect)

    def _restated(self, answer: Answer, seen: AnswerView, tried: list[RuleTrace] | None) -> Restatement | None:
        if 200 <= answer.status < 300:
            if not seen.error:
                return None
            status = seen.embedded or status_for(self._kind_of(seen))
            return Restatement(from_status=answer.status, status=status, retry_after_s=None, rule=INSIDE_SUCCESS)
        if answer.status < 400 or seen.empty:
            return None
        rules = [rule for owner in self._owners(seen) for rule in self._restate.get(owner, ())]
        rule = _first(candidates(rules, answer.status, error=True), seen, "restate", tried)
        if rule is None:
            return None
        return Restatement(
            from_status=answer.status, status=rule.written.status, retry_after_s=rule.written.retry_after, rule=rule.ref
        )

    def _classified(self, answer: Answer, seen: AnswerView, restatement: Restatement | None, now: float) -> Verdict:
        if restatement is not None and restatement.rule != INSIDE_SUCCESS:
            seen = seen.with_status(restatement.status)
        rule, zone = self._deciding(seen, None), self._zones.get(seen.provider)
        return build_verdict(answer, seen, rule, restatement, now, zone, pause=self._pause(rule, seen))

    def _pause(self, rule: Rule[ClassifyRule] | None, seen: AnswerView) -> ClassifyRule | None:
        """Whose duration holds: a provider's rule that names none keeps the one of the window that the words name (`FC-49`)."""
        if rule is None:
            return None
        if rule.written.cooldown is not None or rule.written.renews is not None:
            return rule.written
        if kind_of(rule.written) != "quota_exhausted" or rule.written.scope not in (None, "connection"):
            return None
        return next((window.written for window in self._windows if window.miss(seen) is None), None)

    def _kind_of(self, seen: AnswerView) -> Kind:
        rule = self._deciding(seen, None)
        return kind_of(rule.written) if rule else "server_error"

    def _deciding(self, seen: AnswerView, tried: list[RuleTrace] | None) -> Rule[ClassifyRule] | None:
        known = seen.provider in self._classify or f"operator:{seen.provider}" in self._classify
        key = (seen.provider if known else "", seen.dialect, seen.status, seen.error)
        rules = self._indexed.get(key)
        if rules is None:
            every = [rule for owner in self._owners(seen) for rule in self._classify.get(owner, ())]
            rules = candidates(every, seen.status, error=seen.error)
            if len(self._indexed) < 4096:
                self._indexed[key] = rules
        return _first(rules, seen, "classify", tried)

    def _owners(self, seen: AnswerView) -> Iterable[str]:
        if seen.provider and not seen.provider.startswith("_"):
            yield f"operator:{seen.provider}"
            yield seen.provider
        own = DIALECT_FILES.get(seen.dialect)
        if own:
            yield own
        yield from (name for name in _DIALECTS if name != own)
        yield from SHARED_FILES


def _compiled[R: (RestateRule, ClassifyRule)](
    written: Sequence[R], source: RuleFile, named: Mapping[str, Written], seen: dict[str, str], problems: list[str]
) -> list[Rule[R]]:
    rules = []
    for rule in written:
        line = source.lines.get(rule.id, 0)
        place = f"{source.file}:{line}"
        if not rule.enabled:
            continue
        if rule.id in seen:
            twice = seen[rule.id].rpartition(":")[0] == source.file
            where = "twice in this file; the first stays" if twice else f"already at {seen[rule.id]}"
            problems.append(f"{place}: the rule id {rule.id!r} is used {where}. Give the other one another id")
            continue
        seen[rule.id] = place
        try:
            rules.append(compile_rule(rule, file=source.file, line=line, named=named))
        except ValueError as error:
            problems.append(f"{place}: rule {rule.id!r}: {error}")
    return rules


def _first[R: (RestateRule, ClassifyRule)](
    rules: Iterable[Rule[R]], seen: AnswerView, part: Literal["restate", "classify"], tried: list[RuleTrace] | None
) -> Rule[R] | None:
    for rule in rules:
        missed = rule.miss(seen)
        if tried is not None:
            tried.append(RuleTrace(rule=rule.ref, part=part, missed=missed, about=rule.written.about))
        if missed is None:
            return rule
    return None
