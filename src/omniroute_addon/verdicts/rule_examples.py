"""Every rule proves itself: its examples are judged with the whole book, as the rule is used (`style.md` §11)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from omniroute_addon.model import Answer, Verdict

from .judge import DIALECT_FILES, RuleBook, RuleFile
from .schema import ClassifyRule, Example, Expect, RestateRule

_FIELDS = ("kind", "scope", "retry_other", "terminal", "breaker", "retry_same", "status", "reason")
_TOLERANCE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of the examples."""

    rules: int
    examples: int
    wrong: int
    """Examples that are not judged as they say."""
    unproven: int
    """Rules that lack one of the two sorts of examples."""
    problems: tuple[str, ...]
    """`file:line: rule 'id', example 2: …`, in the order of the files."""


def check_examples(files: Mapping[str, Sequence[RuleFile]], book: RuleBook) -> Checked:
    """Judge every example of every rule in force. A rule needs one that it decides and one that it must not match."""
    problems: list[str] = []
    rules = examples = wrong = unproven = 0
    for owner, sources in files.items():
        for source in sources:
            written: tuple[RestateRule | ClassifyRule, ...] = (*source.lists.restate, *source.lists.classify)
            for rule in written:
                if rule.id not in book.rules:
                    continue  # switched off, or told among the book's problems
                rules += 1
                examples += len(rule.examples)
                place = f"{source.file}:{source.lines.get(rule.id, 0)}: rule '{rule.id}'"
                lacking = list(_lacking(rule))
                unproven += bool(lacking)
                problems += [f"{place} {text}" for text in lacking]
                for number, example in enumerate(rule.examples, 1):
                    faults = list(_faults(owner, rule, example, book))
                    wrong += bool(faults)
                    problems += [f"{place}, example {number}: {text}" for text in faults]
    return Checked(rules=rules, examples=examples, wrong=wrong, unproven=unproven, problems=tuple(problems))


def example_answer(example: Example) -> Answer:
    """The answer that an example describes."""
    body = example.body if isinstance(example.body, str) else json.dumps(example.body, ensure_ascii=False)
    return Answer(
        status=example.status,
        headers={name.lower(): value for name, value in example.headers.items()},
        body=body.encode("utf-8", "surrogatepass"),
        stream=example.stream,
        phase=example.phase,
        fault=example.fault,
    )


def _lacking(rule: RestateRule | ClassifyRule) -> Iterator[str]:
    if not any(example.expect for example in rule.examples):
        yield "has no example that must match. Add an answer as received, with `expect:`."
    if not any(example.no_match for example in rule.examples):
        yield "has no example that must not match. Add a similar answer with another meaning and `no_match: true`."


def _faults(owner: str, rule: RestateRule | ClassifyRule, example: Example, book: RuleBook) -> Iterator[str]:
    provider = example.provider or (None if owner.startswith("_") else owner)
    dialect = next((name for name, file in DIALECT_FILES.items() if file == owner), None)
    answer = example_answer(example)
    if example.expect is None:
        if book.matches(rule.id, answer, provider=provider, dialect=dialect):
            yield "matches, and must not"
        return
    # Restated and judged as the proxy does; `now` only matters to points in time.
    verdict = book.judge(answer, provider=provider, dialect=dialect, now=0.0)
    yield from _differences(rule, example.expect, verdict)


def _differences(rule: RestateRule | ClassifyRule, expect: Expect, verdict: Verdict) -> Iterator[str]:
    decided = verdict.restatement.rule if isinstance(rule, RestateRule) and verdict.restatement else verdict.rule
    if decided.id != rule.id:
        yield f"decided by '{decided.id}', not by this rule"
    for name in _FIELDS:
        wanted, got = getattr(expect, name), getattr(verdict, name)
        if wanted is not None and wanted != got:
            yield f"{name} is {got}, expected {wanted}"
    if expect.retry_after_s is not None:
        wait = _wait(rule, verdict)
        if wait is None or abs(wait - expect.retry_after_s) > _TOLERANCE_S:
            yield f"retry_after_s is {wait}, expected {expect.retry_after_s}"


def _wait(rule: RestateRule | ClassifyRule, verdict: Verdict) -> float | None:
    """A restating rule's default is what the client is told; a classifying rule's wait is what the upstream said."""
    if isinstance(rule, RestateRule) and verdict.restatement:
        return verdict.restatement.retry_after_s
    return verdict.retry_after.seconds if verdict.retry_after else None
