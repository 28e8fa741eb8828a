"""The values: frozen, comparable, and no secret in any text that is made of them."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from omniroute_addon import model
from omniroute_addon.model import RuleRef
from omniroute_addon.testing.calls import (
    make_attempt,
    make_call,
    make_connection,
    make_exclusion,
    make_provider,
    make_secret,
    make_story,
    make_target,
)

SECRET = "sk-never-shown-0123456789"
VALUES = [
    value for value in vars(model).values() if dataclasses.is_dataclass(value) and value.__module__ == model.__name__
]


def holders() -> list[Any]:
    """Every value that has a credential somewhere inside."""
    connection = make_connection("a", secret=make_secret(SECRET))
    target = make_target(connection)
    attempt = make_attempt(target)
    return [make_secret(SECRET), connection, target, attempt, make_exclusion(target), make_story(attempt)]


@pytest.mark.parametrize("value", holders(), ids=lambda value: type(value).__name__)
def test_no_text_of_a_value_shows_a_credential(value: Any) -> None:
    """`design.md` §7.2: not by repr, str, format, nor inside a container or an exception."""
    for text in (repr(value), str(value), f"{value}", f"{[value]!r}", repr(ValueError(value)), f"{value!a}"):
        assert SECRET not in text and "0123456789" not in text


def test_a_secret_shows_who_it_is() -> None:
    secret = make_secret(SECRET)
    assert str(secret) == f"secret:{secret.digest}" and len(secret.digest) == 12
    assert secret == make_secret(SECRET) != make_secret("sk-other")


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
def test_values_are_frozen_slotted_and_keyword_only(kind: Any) -> None:
    assert kind.__dataclass_params__.frozen
    assert not hasattr(kind, "__dict__") or "__slots__" in vars(kind)
    assert all(field.kw_only for field in dataclasses.fields(kind))


def test_a_value_cannot_be_changed() -> None:
    for value in (*holders(), make_call(), make_provider()):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_a_target_is_known_by_connection_address_and_model() -> None:
    target = make_target("a")
    assert target.key == ("a", target.url, target.model)
    others = [make_target("b"), make_target("a", url="https://x/"), make_target("a", model="m")]
    assert len({target.key, *(other.key for other in others)}) == 4


def test_a_provider_has_one_door_for_each_dialect() -> None:
    provider = make_provider()
    assert provider.endpoint("openai-chat") is provider.endpoints[0]
    assert provider.endpoint("gemini") is None


def test_a_rule_says_where_it_stands() -> None:
    assert str(RuleRef(id="r", file="rules/a.yaml", line=14)) == "r (rules/a.yaml:14)"
    assert str(RuleRef(id="status-only")) == "status-only"


def test_values_survive_a_copy() -> None:
    for value in holders():
        assert pickle.loads(pickle.dumps(value)) == value
