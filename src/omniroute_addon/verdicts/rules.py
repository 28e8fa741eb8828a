"""Rules, compiled from their written form and checked for what the models alone cannot see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omniroute_addon.model import RuleRef

from .answer_view import AnswerView
from .kinds import BY_REASON
from .match import Conditions, compile_conditions
from .schema import ClassifyRule, OperatorRule, RestateRule, When
from .schema_values import Phrases
from .text_match import Written, compile_phrase

CREDITS_LIST = "credits"
"""Name of the phrase list that says "no money": a restatement may not use one of them (`SR-15`)."""


@dataclass(frozen=True, slots=True)
class Rule[R: (RestateRule, ClassifyRule)]:
    """One compiled rule."""

    ref: RuleRef
    written: R
    when: tuple[Conditions, ...]
    unless: tuple[Conditions, ...]

    def can_match(self, status: int, *, error: bool) -> bool:
        """Whether any answer of this status, an error or not, could match."""
        return any(
            (one.statuses is None or status in one.statuses) and (error or not one.needs_error) for one in self.when
        )

    def miss(self, view: AnswerView) -> str | None:
        """Why the rule does not apply: the failing condition, or `unless` for a veto; None when it applies."""
        failing: str | None = None
        for conditions in self.when:
            if (failing := conditions.failing(view)) is None:
                break
        if failing is not None:
            return failing
        if any(conditions.failing(view) is None for conditions in self.unless):
            return "unless"
        return None


def compile_rule[R: (RestateRule, ClassifyRule)](
    written: R, *, file: str, line: int, named: Mapping[str, Written]
) -> Rule[R]:
    """Compile one rule. Raises ValueError with a sentence that says what is wrong with it."""
    rule = Rule(
        RuleRef(id=written.id, file=file, line=line),
        written,
        tuple(compile_conditions(when, named) for when in written.when),
        tuple(compile_conditions(when, named) for when in written.unless or ()),
    )
    if isinstance(written, RestateRule):
        _refuse_credits(written, named)
    return rule


def _refuse_credits(rule: RestateRule, named: Mapping[str, Written]) -> None:
    credits_phrases = [item for item in named.get(CREDITS_LIST, ()) if isinstance(item, str)]
    for when in rule.when:
        marks = [*_flat(when.text or []), *(when.code or []), *(when.type or []), *(when.name or [])]
        for mark in marks:
            for phrase in credits_phrases:
                if phrase.lower() in mark.lower():
                    raise ValueError(
                        f"the marker {mark!r} contains the credits phrase {phrase!r}: an empty account would look "
                        "like a quota that renews (SR-15); use the gateway's own words for the quota"
                    )


def _flat(phrases: Phrases) -> list[str]:
    return [phrase for item in phrases for phrase in ([item] if isinstance(item, str) else item)]


def compile_operator_rule(
    written: OperatorRule, *, provider: str, number: int, file: str = "", line: int = 0
) -> Rule[ClassifyRule]:
    """`FC-59`: the operator's literal text as an ordinary rule; `.*` matches only these two characters."""
    phrase = compile_phrase(written.match, literal=True)
    kind = BY_REASON[written.reason]
    rule = ClassifyRule(
        id=f"operator.{provider}.{number}",
        about=f"the operator's rule no. {number} for {provider}",
        when=[When(status=[written.status])],
        kind=kind,
        reason=written.reason,
        scope=written.scope,
        cooldown=None if written.cooldown_ms is None else written.cooldown_ms / 1000,
        retry_other=True,
    )
    conditions = Conditions(
        frozenset({written.status}),
        (("provider", lambda view: view.provider == provider), ("text", lambda view: phrase.found_in(view.text))),
    )
    return Rule(RuleRef(id=rule.id, file=file, line=line), rule, (conditions,), ())


def candidates[R: (RestateRule, ClassifyRule)](
    rules: Sequence[Rule[R]], status: int, *, error: bool
) -> tuple[Rule[R], ...]:
    """The rules that can match at all, in their order."""
    return tuple(rule for rule in rules if rule.can_match(status, error=error))
