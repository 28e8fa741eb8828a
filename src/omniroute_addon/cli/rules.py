"""`omniroute rules`: check, prove, measure and explain the rules that say what an answer means."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omniroute_addon.errors import InputError
from omniroute_addon.files import Files
from omniroute_addon.model import DIALECTS, DialectName
from omniroute_addon.nearest import unknown

from .files import file_options
from .rules_shown import outcome, shown
from .words import counted

if TYPE_CHECKING:
    from omniroute_addon.model import Verdict
    from omniroute_addon.packs import Packs
    from omniroute_addon.verdicts import RuleBook

    from .recorded import Recorded

_EXISTING = click.Path(path_type=Path, exists=True, dir_okay=False)
BY_US = "answered by omniroute itself"
_SHOWN = ("kind", "scope", "retry_other", "terminal", "breaker", "status", "retry_after")


@click.group(short_help="Check, test, measure and explain the rules.")
def rules() -> None:
    """Check, test, measure and explain the rules that say what an answer means."""


@rules.command(short_help="Check every rule; name every problem.")
@file_options("config", "rules")
def check(files: Files) -> None:
    """Check every rule of every file and of the configuration; name every problem.

    Exit code 1 when anything is wrong; a connection without its credential is no matter of rules.
    """
    loaded, packs, book = _loaded(files)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    problems = [*loaded.problems, *book.problems]
    if problems:
        raise InputError([*problems, counted(len(problems), "problem")])
    count = sum(len(sources) for sources in packs.rules.values())
    click.echo(f"{counted(len(book.rules), 'rule')} in {counted(count, 'file')}: no problem")
    click.echo(f"{counted(len(loaded.clients.profiles), 'client profile')}: no problem")


@rules.command("test", short_help="Run every rule's own examples.")
@file_options("config", "rules")
def test_(files: Files) -> None:
    """Run every rule's and client profile's own examples: those that must match and those that must not.

    Exit code 1 when one fails, or when a rule or profile lacks one of the two sorts.
    """
    from omniroute_addon.clients.profile_examples import check_profiles
    from omniroute_addon.verdicts.rule_examples import check_examples

    loaded, packs, book = _loaded(files)
    profiles = check_profiles(loaded.clients)
    checked = check_examples(packs.rules, book)
    unusable = [*loaded.problems, *book.problems]
    problems = [*unusable, *checked.problems]
    total = f"{counted(checked.rules, 'rule')}, {counted(checked.examples, 'example')}"
    clients = f"{counted(profiles.profiles, 'client profile')}, {counted(profiles.examples, 'example')}"
    if problems or profiles.problems:
        failures = (
            (len(unusable), "problem", " of the files themselves"),
            (checked.wrong, "wrong example", ""),
            (checked.unproven, "rule", " without both sorts of examples"),
        )
        told = [f"{counted(number, noun)}{which}" for number, noun, which in failures if number]
        raise InputError(
            [
                *problems,
                *profiles.problems,
                f"{total}: {', '.join(told) or 'all as expected'}",
                f"{clients}: {counted(len(profiles.problems), 'problem') if profiles.problems else 'all as expected'}",
            ]
        )
    click.echo(f"{total}: all as expected")
    click.echo(f"{clients}: all as expected")


@rules.command(short_help="Say how well the rules read a corpus FILE.")
@click.argument("file", type=_EXISTING)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON instead of tables.")
@file_options("config", "rules")
def score(file: Path, as_json: bool, files: Files) -> None:
    """Judge every case of a corpus FILE and say how well the rules read it, with and without the provider known.

    The format and the way of counting are described in corpus/README.md.
    """
    from omniroute_addon.verdicts.corpus import load_corpus
    from omniroute_addon.verdicts.score import score as score_cases

    from .score_tables import score_tables

    packs, book = _in_force(files)
    report = score_cases(load_corpus(file), book, packs)
    if as_json:
        click.echo(json.dumps(report, indent=2, ensure_ascii=False))
        return
    click.echo(f"Cases: {report['cases']}\n")
    for title, part in (("provider known", report), ("provider not known", report["without_provider"])):
        click.echo(f"== {title}: {part['weighted']:.1%} of all fields right, debatable cases at half weight\n")
        click.echo(score_tables(part))


@rules.command(short_help="Say what an answer means, and which rule says so.")
@click.option("--status", type=click.IntRange(0, 599), help="HTTP status; 0: no answer, the body is the fault's text.")
@click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help="A header of the answer; repeatable.")
@click.option("--body", help="The body as text.")
@click.option("--body-file", type=_EXISTING, help="The body from a file, as received.")
@click.option("--provider", help="Who answered, as in `omniroute providers`; not known when left out.")
@click.option("--dialect", type=click.Choice(DIALECTS), help="In which dialect the client asked.")
@click.option("--stream", is_flag=True, help="The client had asked for a stream and the body is one.")
@click.option("--flow", "flows", type=_EXISTING, help="A recorded mitmproxy flow file in place of all of these.")
@click.option("--index", type=int, default=0, show_default=True, help="Which flow of that file, from 0.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict and the rules tried as JSON.")
@file_options("config", "rules")
def explain(
    files: Files,
    status: int | None,
    headers: tuple[str, ...],
    body: str | None,
    body_file: Path | None,
    provider: str | None,
    dialect: DialectName | None,
    stream: bool,
    flows: Path | None,
    index: int,
    as_json: bool,
) -> None:
    """Say what an answer means, which rule says so, and why each rule before it did not apply."""
    from omniroute_addon.verdicts.from_wire import answer_from_wire, dialect_of_body

    packs, book = _in_force(files)
    if provider is not None and provider not in packs.providers:
        raise InputError([unknown("provider", provider, packs.providers)])
    if flows is not None:
        recorded = _flow(flows, index, packs)
        if recorded.ours:
            raise InputError([f"{flows}: flow {index} was {BY_US}. No provider said it, so no rule is about it."])
        provider, dialect, heard = recorded.provider, recorded.dialect, recorded.heard
    elif status is None:
        raise click.UsageError("Give --status (and --header, --body), or --flow with a recorded file.")
    else:
        raw = body_file.read_bytes() if body_file else (body or "").encode()
        heard = answer_from_wire(
            status=status,
            headers=dict(_header(text) for text in headers),
            body=raw,
            stream=stream,
            dialect=dialect or dialect_of_body(raw),
        )
    verdict = book.judge(heard.answer, provider=provider, dialect=dialect, now=_now())
    tried = book.trace(heard.answer, provider=provider, dialect=dialect)
    if as_json:
        data = {"verdict": asdict(verdict), "delivered": not heard.failed, "tried": [asdict(rule) for rule in tried]}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    from tabulate import tabulate

    if not heard.failed:
        click.echo("The proxy delivers this answer without asking the rules; asked, they say:\n")
    rows = [
        (name, shown(verdict, name)) for name in (*_SHOWN, "cooldown_s", "reason", "restatement", "rule", "message")
    ]
    click.echo(tabulate(rows, tablefmt="plain", disable_numparse=True))
    click.echo(f"\n{counted(len(tried), 'rule')} {'was' if len(tried) == 1 else 'were'} tried, in this order:\n")
    steps = [(t.part, t.rule.id, outcome(t.missed), f"{t.rule.file}:{t.rule.line}") for t in tried]
    click.echo(tabulate(steps, headers=("list", "rule", "outcome", "place"), tablefmt="plain"))


@rules.command(short_help="Judge a recorded mitmproxy dump.")
@click.argument("flows", type=_EXISTING)
@click.option(
    "--against",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Another rules folder: one with a _generic.yaml stands for all rules, any other for your own packs.",
)
@file_options("config", "rules")
def replay(flows: Path, against: Path | None, files: Files) -> None:
    """Judge a recorded mitmproxy dump under the current rules.

    With --against show only what another folder changes. Answers that omniroute wrote itself are not judged.
    """
    from tabulate import tabulate

    from .recorded import read_flows

    packs, book = _in_force(files)
    other = _other_book(against, files) if against else None
    rows: list[tuple[Any, ...]] = []
    count = ours = 0
    for flow in read_flows(flows, packs):
        if flow.ours:
            ours += 1
            if other is None:
                rows.append((flow.index, flow.name, flow.heard.answer.status, BY_US))
            continue
        count += 1
        verdict = _judge(book, flow)
        if other is None:
            rows.append(
                (flow.index, flow.name, flow.heard.answer.status, *(shown(verdict, n) for n in _SHOWN), verdict.rule.id)
            )
            continue
        changed = _judge(other, flow)
        for name in (*_SHOWN, "rule"):
            before, after = shown(verdict, name), shown(changed, name)
            if (verdict.rule.id != changed.rule.id) if name == "rule" else before != after:
                rows.append((flow.index, flow.name, name, before, after))
    heads = ("flow", "request", "field", "now", "against") if other else ("flow", "request", "sent", *_SHOWN, "rule")
    if rows:
        click.echo(tabulate(rows, headers=heads, tablefmt="plain", disable_numparse=True))
    differ = len({row[0] for row in rows})
    told = [f"{counted(count, 'flow')} judged"]
    if ours:
        told.append(f"{ours} {BY_US}")
    if other:
        told.append(f"{differ} {'differs' if differ == 1 else 'differ'}")
    click.echo(", ".join(told))


def _loaded(files: Files) -> tuple[Any, Packs, RuleBook]:
    """What people wrote, the packs and the rule book that follow from it, as the proxy has them."""
    loaded = files.load()
    return loaded, loaded.packs, _book(loaded.packs, loaded.config.operator_rules)


def _in_force(files: Files) -> tuple[Packs, RuleBook]:
    """The same for a command that only asks: what cannot be used is said, and the rest is asked."""
    loaded, packs, book = _loaded(files)
    for problem in (*loaded.problems, *book.problems):
        click.echo(f"warning: left out: {problem}", err=True)
    return packs, book


def _book(packs: Packs, operator: Any) -> RuleBook:
    from omniroute_addon.verdicts import RuleBook

    categories = {provider.id: provider.category for provider in packs.providers.values()}
    return RuleBook.build(packs.rules, categories=categories, operator=operator)


def _other_book(folder: Path, files: Files) -> RuleBook:
    from omniroute_addon.pack_files import PackFolder, pack_folders
    from omniroute_addon.packs import load_packs

    whole = (folder / "_generic.yaml").exists()
    folders = (PackFolder(path=folder),) if whole else pack_folders(folder)
    packs, problems = load_packs(folders)
    if problems:
        raise InputError(problems)
    return _book(packs, files.load().config.operator_rules)


def _flow(path: Path, index: int, packs: Packs) -> Recorded:
    from .recorded import read_flows

    there = []
    for flow in read_flows(path, packs):
        if flow.index == index:
            return flow
        there.append(flow.index)
    which = f"There are {there[0]} to {there[-1]}." if there else "There is none at all."
    raise InputError([f"{path}: there is no finished HTTP flow number {index}. {which}"])


def _judge(book: RuleBook, flow: Recorded) -> Verdict:
    return book.judge(flow.heard.answer, provider=flow.provider, dialect=flow.dialect, now=_now())


def _now() -> float:
    from omniroute_addon.clock import Clock

    return Clock().now()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise click.BadParameter(f"'{text}' is no header; write NAME:VALUE", param_hint="--header")
    return name.strip().lower(), value.strip()
