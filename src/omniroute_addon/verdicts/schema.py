"""What a rule looks like in YAML: the models that every `restate:` and `classify:` list is checked against.

A rule says *when* it applies, what would *veto* it, its effect, and proves itself with examples:

    - id: acme-monthly-cap
      when: {status: [403], code: [monthly_cap]}
      unless: {text: ["account disabled"]}
      kind: quota_exhausted
      examples:
        - {status: 403, body: '{"error":{"code":"monthly_cap"}}', expect: {kind: quota_exhausted}}
        - {status: 403, body: '{"error":{"code":"disabled"}}', no_match: true}

Within one set of conditions all that are written must hold; where a condition is a list, one member suffices. `when`
and `unless` may also be a list of sets, of which one suffices. Letter case never matters. Unknown fields are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from omniroute_addon.model import Category, DialectName, Kind, Phase, Repair, Scope

from .daily_time import TimeOfDay
from .schema_values import Codes, Names, Phrases, Reason, Seconds, Statuses, Zone, as_list, parse_statuses


class _Strict(BaseModel):
    # What stands below a field is also its description in `omniroute schema pack` and in docs/packs.md.
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ValueTest(_Strict):
    """A test on one value, for headers and JSON fields that need more than presence or equality."""

    text: Phrases | None = None
    """Phrases, as in `when.text`, looked for in this value only."""
    count: int | None = Field(default=None, ge=0)
    """The value is a list, mapping or text of this length."""
    below: float | None = None
    """The value is a number smaller than this."""
    above: float | None = None
    """The value is a number larger than this."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("write at least one of text, count, below, above")
        return self


FieldTest = bool | int | float | str | list[bool | int | float | str] | ValueTest
"""`true`: present; `false`: absent; a value or a list of values: equal to one; else a `ValueTest`.

A JSON value that is itself `true` or `false` is compared as the texts `"true"` and `"false"`.
"""


class When(_Strict):
    """One set of conditions; all that are written must hold."""

    status: Statuses | None = None
    """HTTP status, for an error inside a 200 its true one: 429, "500-599", "5xx"; 0 is no HTTP answer."""
    sent_status: Statuses | None = None
    """The status on the wire, where it differs from what the body says."""
    phase: Annotated[list[Phase], BeforeValidator(as_list, json_schema_input_type=Phase | list[Phase])] | None = None
    """How far the attempt had come: no answer yet, error head, whole body, or inside an event stream."""
    stream: bool | None = None
    """The answer is (not) an event stream."""
    fault: Names | None = None
    """Network or protocol fault; a trailing `*` matches any ending: `timeout:*`."""
    header: dict[str, FieldTest] | None = None
    """Header name -> test. Numbers are compared as text, `ValueTest` compares them as numbers."""
    code: Codes | None = None
    """The structured error's code (`error.code`, `code`, …)."""
    type: Codes | None = None
    """The structured error's type (`error.type`, `__type`, …)."""
    status_name: Codes | None = None
    """The structured error's status word: `RESOURCE_EXHAUSTED`."""
    name: Codes | None = None
    """The structured error's code, type or status word: for words that providers put in either place."""
    param: Codes | None = None
    """The request parameter that the error names (`error.param`)."""
    json_: dict[str, FieldTest] | None = Field(default=None, alias="json")
    """Path in the JSON body -> test: `error.details[].reason`; `[]` stands for any member."""
    text: Phrases | None = None
    """Phrases in the error's words: its message, code and type when the body is JSON, else the whole body."""
    text_all: Phrases | None = None
    """A second list of phrases that must hold beside `text`."""
    empty: bool | None = None
    """The answer has (no) words at all: no message, no code, no type, no text."""
    html: bool | None = None
    """The body is (not) a web page."""
    error: bool | None = None
    """The answer does (not) carry a structured error."""
    cut: bool | None = None
    """A 2xx that ends before its end: a stream without a terminal event, JSON that stops in the middle."""
    output: bool | None = None
    """Model output was seen in the stream."""
    provider: Names | None = None
    """Provider id, for a shared rule that holds for a few; never needed inside a provider's own pack."""
    category: (
        Annotated[list[Category], BeforeValidator(as_list, json_schema_input_type=Category | list[Category])] | None
    ) = None
    """How the provider logs in; an unknown provider has none."""
    dialect: (
        Annotated[list[DialectName], BeforeValidator(as_list, json_schema_input_type=DialectName | list[DialectName])]
        | None
    ) = None
    """In which dialect the client asked; an unknown dialect is none of them."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("a set of conditions needs at least one; a rule without any would match every answer")
        return self


Conditions = Annotated[
    list[When], BeforeValidator(as_list, json_schema_input_type=When | list[When]), Field(min_length=1)
]


class Expect(_Strict):
    """What an example must be judged as; only what is written is compared."""

    kind: Kind | None = None
    """What the answer means."""
    scope: Scope | None = None
    """Whom it says something about."""
    retry_other: bool | None = None
    """Another connection may answer the request."""
    terminal: bool | None = None
    """The connection needs a person."""
    breaker: bool | None = None
    """It counts against the provider as a whole."""
    retry_same: bool | None = None
    """Another try in place is worth it."""
    status: int | None = None
    """The status that the client sees."""
    reason: Reason | None = None
    """The coarser name of the kind."""
    retry_after_s: float | None = None
    """Seconds to wait: what the upstream said; for a restating rule, what the client is told."""


class Example(_Strict):
    """An answer as received, and either what it must be judged as or `no_match: true`."""

    status: int = Field(ge=0, le=599)
    """As it came; 0 is no HTTP answer."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Header name -> value."""
    body: str | dict[str, Any] | list[Any] = ""
    """Text as received; a mapping or list is sent as JSON."""
    stream: bool = False
    """The body is an event stream."""
    fault: str | None = None
    """Network or protocol fault that ended the attempt: `connect_failed`, `reset`, `timeout:head`, `truncated`."""
    phase: Phase = "body"
    """How far the attempt had come."""
    provider: str | None = None
    """For shared rules: judge as an answer of this provider. A pack's own examples are judged as its provider's."""
    expect: Expect | None = None
    """The rule decides this answer, and it must be judged so."""
    no_match: Literal[True] | None = None
    """`true`: the rule must not match this answer."""
    seen: str = ""
    """Where this very answer was seen."""

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if (self.expect is None) == (self.no_match is None):
            raise ValueError("an example needs either `expect:` (what it must be judged as) or `no_match: true`")
        return self


RuleId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]


class _Rule(_Strict):
    id: RuleId
    """Unique over all rules of all files (`SR-9`); a user's rule with the id of a bundled one replaces it."""
    about: str = ""
    """One sentence: why this answer means that."""
    when: Conditions
    """When the rule applies: one set of conditions or a list of sets, of which one suffices."""
    unless: Conditions | None = None
    """Any one of these sets vetoes the rule; later rules are still tried (`SR-13`)."""
    enabled: bool = True
    """`false` switches the rule off."""
    examples: list[Example] = Field(default_factory=list)
    """Answers that prove the rule: at least one that must match and a similar one that must not."""
    seen: str | list[str] | None = None
    """Where the answer was seen or is documented."""
    checked: str | None = None
    """When that was last checked, `2026-11`."""


class RestateRule(_Rule):
    """Corrects a status that lies (`SR-8`), before anything else looks at it."""

    status: int = Field(ge=400, le=599)
    """The true status; never one of those in `when.status` (`SR-10`, `SR-16`)."""
    retry_after: Seconds | None = None
    """What the client is told when the upstream declared nothing; never reaches a timer (`SR-24`)."""

    @model_validator(mode="after")
    def _errors_only(self) -> Self:
        for conditions in self.when:
            if conditions.status is None:
                raise ValueError("a restatement must name the statuses that lie, `when: {status: […]}` (SR-10)")
            statuses = parse_statuses(conditions.status)
            if self.status in statuses:
                raise ValueError(f"`when.status` contains {self.status}, the status that this rule restates to (SR-10)")
            if wrong := sorted(status for status in statuses if status < 400):
                raise ValueError(f"only an error status can be restated, not {wrong[0]} (SR-3, SR-10)")
            if conditions.header is not None:
                raise ValueError("headers never decide a restatement; use text, code or type (SR-20)")
            if not any((conditions.text, conditions.code, conditions.type, conditions.status_name, conditions.json_)):
                raise ValueError("a restatement needs words of the gateway: text, code, type or json (SR-11)")
        return self


class ClassifyRule(_Rule):
    """Says what an answer means. What it leaves out comes from the kind's own row (`kinds.py`)."""

    kind: Kind | None = None
    """One of the twenty kinds. May be left out where `reason` says enough."""
    reason: Reason | None = None
    """A coarser name than the kind's own, for whoever works with those."""
    scope: Scope | None = None
    """Whom the answer says something about."""
    retry_other: bool | None = None
    """Another connection may answer this request, so it is tried there."""
    terminal: bool | None = None
    """The connection needs a person before it works again: it is not used until then."""
    breaker: bool | None = None
    """Counts as a failure of the provider as a whole."""
    retry_same: bool | None = None
    """Worth another try on the same connection after a short pause."""
    status: int | None = Field(default=None, ge=400, le=599)
    """Status that the client sees instead of the upstream's."""
    cooldown: Seconds | None = None
    """Fixed pause of the affected unit (`FC-51`, `CC-18`)."""
    renews: TimeOfDay | None = None
    """When the allowance renews every day; it rests until then if the answer names no time (`FC-23`, `FC-42`)."""
    repair: Repair | None = None
    """The request is good elsewhere: what has to be taken out of it for this connection (`A29`)."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.kind is None and self.reason is None:
            raise ValueError("write `kind:` (what the answer means) or at least `reason:`")
        if self.cooldown is not None and self.renews is not None:
            raise ValueError("`cooldown` and `renews` both say how long it rests; keep one of them")
        return self


class OperatorRule(_Strict):
    """`FC-59`: an operator's own rule for one provider; `match` is a literal piece of text, never a pattern."""

    status: int = Field(ge=100, le=599)
    """Status of the answers that it is about."""
    match: str = Field(min_length=1, max_length=200)
    """Text that the answer's body contains; letter case does not matter."""
    scope: Literal["model", "provider", "connection"]
    """Whom the answer says something about."""
    reason: Reason = "quota_exhausted"
    """What it means."""
    cooldown_ms: int | None = Field(default=None, ge=0, le=2_592_000_000)
    """Fixed pause of what `scope` names, in milliseconds."""


class RuleLists(_Strict):
    """The rule part of a file; a `rules/_*.yaml` file has nothing else, a pack has it beside its facts."""

    phrases: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]*$")], Phrases] = Field(default_factory=dict)
    """Named phrase lists, used as `text: $NAME`. Those of `_generic.yaml` may be used everywhere."""
    restate: list[RestateRule] = Field(default_factory=list)
    """Rules that correct a status that lies, the first that fits."""
    classify: list[ClassifyRule] = Field(default_factory=list)
    """Rules that say what an answer means, the first that fits."""


class PackRules(RuleLists):
    """The same in a provider's pack, with what only one provider can say of its answers."""

    timezone: Zone | None = None
    """Zone of the times that this provider's sentences state without one: `+08:00`, `Asia/Shanghai`; else UTC."""
