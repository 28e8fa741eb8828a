"""Runs the examples that client profiles carry: who must be recognised, and who must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .book import DEFAULT, ClientBook
from .profile_schema import ProfileExample
from .session import session_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedProfiles:
    """What came of the examples."""

    profiles: int
    examples: int
    problems: tuple[str, ...]
    """`file:line: profile 'id', example 2: …`, in the order of the ids."""


def check_profiles(book: ClientBook) -> CheckedProfiles:
    """Judge every example. A profile needs one request that is its client's and one similar that is not."""
    problems: list[str] = []
    count = 0
    for id_, profile in book.profiles.items():
        examples = book.examples[id_]
        count += len(examples)
        place = f"{profile.source}: profile '{id_}'"
        problems += [f"{place} {text}" for text in _lacking(id_, examples)]
        for number, example in enumerate(examples, 1):
            problems += [f"{place}, example {number}: {text}" for text in _faults(id_, example, book)]
    return CheckedProfiles(profiles=len(book.profiles), examples=count, problems=tuple(problems))


def _lacking(id_: str, examples: tuple[ProfileExample, ...]) -> Iterator[str]:
    if all(example.no_match for example in examples):
        yield "has no example that must match. Add the headers of a request of this client."
    if id_ != DEFAULT and not any(example.no_match for example in examples):
        yield "has no example that must not match. Add a similar request of another client and `no_match: true`."


def _faults(id_: str, example: ProfileExample, book: ClientBook) -> Iterator[str]:
    fields = {name.encode("latin-1"): value.encode("latin-1") for name, value in example.headers.items()}
    profile = book.recognise(fields, host=example.host, path=example.path, agent=example.agent)
    if example.no_match:
        if profile.id == id_:
            yield "is recognised, and must not be"
        return
    if profile.id != id_:
        yield f"is taken for '{profile.id}'"
        return
    found = session_of(profile, fields, example.body or {}, agent=example.agent, owner="")
    if example.session is not None and found != example.session:
        yield f"session is {found}, expected {example.session}"
