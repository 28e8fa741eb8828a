"""Profile files put together: the user's over the bundled ones, by id and field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from omniroute_addon.model import AnswerForm, ClientProfile, ClientRetries, ClientStart, ClientWaits

from .book import DEFAULT, ClientBook, Way, compile_glob
from .profile_files import ProfileSource
from .profile_schema import FormFile, ProfileFile, WhenFile

_FACTS: Final = tuple(name for name in ProfileFile.model_fields if name != "id")


def build_clients(layers: Sequence[Sequence[ProfileSource]]) -> tuple[ClientBook, list[str]]:
    """Merge the files of each folder, bundled first. Pure; what cannot be merged is left out and told."""
    problems: list[str] = []
    facts: dict[str, dict[str, Any]] = {}
    origin: dict[str, tuple[int, ProfileSource]] = {}
    for depth, layer in enumerate(layers):
        first: dict[str, ProfileSource] = {}
        for source in layer:
            id_ = source.profile.id
            if first.setdefault(id_, source) is not source:
                problems.append(
                    f"{source.file}:{source.line}:1: id '{id_}' is taken by {first[id_].file}. "
                    "Give this profile another id, or merge the two files."
                )
                continue
            written = {name: value for name in _FACTS if (value := getattr(source.profile, name)) is not None}
            facts.setdefault(id_, {}).update(written)
            origin[id_] = depth, source
    profiles: dict[str, ClientProfile] = {}
    ways: list[Way] = []
    for id_ in sorted(facts):
        depth, source = origin[id_]
        place = f"{source.file}:{source.line}"
        when = facts[id_].get("when", ())
        if bool(when) is (id_ == DEFAULT):
            problems.append(
                f"{place}:1: profile '{DEFAULT}' is for whoever is not recognised. Remove its `when:`."
                if when
                else f"{place}:1: profile '{id_}' has no `when:`, so it can never be recognised. Add one, or use the id "
                "of a bundled profile to change that one."
            )
            continue
        profiles[id_] = _profile(id_, facts[id_], place)
        ways += [way for entry in when for way in _ways(profiles[id_], entry, depth)]
    ways.sort(key=lambda way: (*(-int(part) for part in way.rank), way.profile.id))
    book = ClientBook(
        profiles=MappingProxyType(profiles),
        examples=MappingProxyType({id_: tuple(facts[id_].get("examples", ())) for id_ in profiles}),
        default=profiles.get(DEFAULT, ClientProfile()),
        ways=tuple(ways),
    )
    return book, problems


def _profile(id_: str, facts: Mapping[str, Any], place: str) -> ClientProfile:
    written: dict[str, Any] = {}
    if session := facts.get("session"):
        written["session_headers"] = tuple(session.headers)
        written["session_paths"] = tuple(tuple(path.split(".")) for path in session.body)
    if waits := facts.get("waits"):
        written["waits"] = ClientWaits(**waits.model_dump())
    if retries := facts.get("retries"):
        written["retries"] = ClientRetries(**{**retries.model_dump(), "statuses": frozenset(retries.statuses)})
    if exhausted := facts.get("exhausted"):
        written |= {"reach_s": exhausted.reach_s, "near": _form(exhausted.near), "far": _form(exhausted.far)}
    if start := facts.get("start"):
        said: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in start.model_dump().items()}
        written["start"] = ClientStart(**said)
    for name in ("keep_alive", "broken_stream"):
        if name in facts:
            written[name] = MappingProxyType(dict(facts[name]))
    for name in ("early_keep_alive", "websocket_refusal"):
        if name in facts:
            written[name] = facts[name]
    return ClientProfile(
        id=id_,
        name=facts.get("name", id_),
        account_headers=frozenset(facts.get("account_headers", ())),
        side_paths=tuple(facts.get("side_paths", ())),
        source=place,
        **written,
    )


def _form(form: FormFile) -> AnswerForm:
    return AnswerForm(
        statuses=MappingProxyType({int(true): sent for true, sent in form.statuses.items()}),
        retry_after=form.retry_after,
        retry_after_max_s=form.retry_after_max_s,
        retry_after_unknown_s=form.retry_after_unknown_s,
        brief=form.brief,
        own_words=form.own_words,
        type=form.type,
        code=form.code,
        details=tuple(form.details),
        headers=MappingProxyType(dict(form.headers)),
    )


def _ways(profile: ClientProfile, when: WhenFile, depth: int) -> Iterator[Way]:
    """One for each glob of the user agent, because they say differently much."""
    conditions = len(when.headers) + sum(map(bool, (when.user_agent, when.agent, when.host, when.path)))
    for glob in when.user_agent or ("",):
        yield Way(
            profile=profile,
            user_agent=_compiled([glob] if glob else None),
            headers=tuple(
                (name.encode("latin-1"), () if values is True else _compiled(values))
                for name, values in when.headers.items()
            ),
            agent=_compiled(when.agent),
            host=_compiled(when.host),
            path=_compiled(when.path),
            rank=(when.agent is not None, conditions, len(glob.replace("*", "")) if glob else 0, depth),
        )


def _compiled(globs: Sequence[str] | None) -> tuple[re.Pattern[str], ...]:
    return tuple(compile_glob(glob) for glob in globs or ())
