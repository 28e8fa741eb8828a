"""What a rule may say: tables made from the models that rules are checked against."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from omniroute_addon.model import Kind, Scope

from .tables import code, table


def _shape(hint: Any) -> str:
    """What may be written for a rule's field, in few words."""
    from omniroute_addon.verdicts import daily_time, schema, schema_values

    named = {
        schema.Conditions: "conditions",
        schema_values.Codes: "word or list",
        schema_values.Names: "word or list",
        schema_values.Phrases: "phrase or list",
        schema_values.Seconds: "seconds, `500ms`, `60s`, `5m`, `6h`, `30d`",
        schema_values.Statuses: "status or list",
        daily_time.TimeOfDay: '`"00:00"`, `"00:00 UTC"`, `"16:00 Asia/Shanghai"`',
        schema_values.Reason: "[reason](reasons.md#reasons)",
        Kind: "[kind](reasons.md#kinds-what-an-answer-means)",
        Scope: "[scope](reasons.md#scopes-whom-it-says-something-about)",
        bool: "`true` or `false`",
        int: "whole number",
        float: "number",
        str: "text",
    }
    if hint in named:
        return named[hint]
    if get_origin(hint) is Annotated:
        return _shape(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return ", ".join(code(str(choice).lower()) for choice in get_args(hint))
    choices = [choice for choice in get_args(hint) if choice is not type(None)]
    if get_origin(hint) is dict:
        return "mapping"
    if get_origin(hint) is list:
        inner = _shape(choices[0])
        return f"{inner} or list" if get_origin(choices[0]) is Literal else "list"
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(_shape(choice) for choice in choices))
    return "mapping"


def _rule_fields(model: Any) -> str:
    """Name, shape and meaning of every field of a part of a rule."""
    hints = get_type_hints(model, include_extras=True)
    return table(
        ("key", "value", "meaning"),
        (
            (code(field.alias or name), _shape(hints[name]), (field.description or "").replace("\n", " "))
            for name, field in model.model_fields.items()
        ),
    )


def rule_conditions() -> str:
    from omniroute_addon.verdicts.schema import When

    return _rule_fields(When)


def rule_value_tests() -> str:
    from omniroute_addon.verdicts.schema import ValueTest

    return _rule_fields(ValueTest)


def rule_restate() -> str:
    from omniroute_addon.verdicts.schema import RestateRule

    return _rule_fields(RestateRule)


def rule_classify() -> str:
    from omniroute_addon.verdicts.schema import ClassifyRule

    return _rule_fields(ClassifyRule)


def rule_examples() -> str:
    from omniroute_addon.verdicts.schema import Example

    return _rule_fields(Example)


def rule_expect() -> str:
    from omniroute_addon.verdicts.schema import Expect

    return _rule_fields(Expect)


def phrases() -> str:
    """The table at the head of the module that finds them."""
    from omniroute_addon.verdicts import text_match

    lines = (text_match.__doc__ or "").splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


def kind_defaults() -> str:
    from omniroute_addon.verdicts.kinds import BY_KIND

    def yes(value: bool) -> str:
        return "yes" if value else "no"

    return table(
        ("kind", "scope", "retry_other", "terminal", "retry_same", "breaker", "reason"),
        (
            (
                code(kind),
                code(row.scope),
                yes(row.retry_other),
                yes(row.terminal),
                yes(row.retry_same),
                "by its status" if row.upstream_fault else "no",
                code(row.reason),
            )
            for kind, row in BY_KIND.items()
        ),
    )
