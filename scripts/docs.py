"""Writes the generated parts of `docs/`, each between `<!-- generated: NAME -->` and `<!-- end -->`.

    .venv/bin/python scripts/docs.py            rewrite what is not current
    .venv/bin/python scripts/docs.py --check    only say what is not current; exit code 1 if anything is

What a table shows comes from the code that uses it, so a table cannot be wrong, only old; a test says when it is.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from omniroute_addon.model import Kind, Scope

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "omniroute_addon"
_EXAMPLE = re.compile(r"(?:^    .*\n)(?:^(?:    .*)?\n)*", re.MULTILINE)
"""An indented block of a docstring."""
_PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(headers: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; cells may hold anything but line breaks."""
    lines = [list(headers)]
    lines.append(["---"] * len(lines[0]))
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# ---------------------------------------------------------------- hooks


def signature(hook: Callable[..., Any]) -> str:
    """As it stands in `hookspecs.py`."""
    return f"{hook.__name__}{inspect.signature(hook)}".replace("'", "")


def _fenced(example: re.Match[str]) -> str:
    return f"```python\n{inspect.cleandoc(example[0])}\n```\n"


def hooks() -> str:
    from omniroute_addon import hookspecs
    from omniroute_addon.plugin_host import HOOKS

    source = inspect.getsource(hookspecs).splitlines()
    banners = {n: m[1].strip() for n, line in enumerate(source) if (m := re.match(r"# -{10,}(.*)", line))}
    parts: list[str] = []
    shown = ""
    for name in HOOKS:
        hook = getattr(hookspecs, name)
        line = inspect.getsourcelines(hook)[1] - 1
        stage = banners[max(n for n in banners if n < line)]
        if stage != shown:
            parts.append(f"## {stage}")
            shown = stage
        told = _EXAMPLE.sub(_fenced, f"{inspect.getdoc(hook)}\n").strip()
        parts.append(f"### `{name}`\n\n```python\n{signature(hook)}\n```\n\n{told}")
    return "\n\n".join(parts)


# ---------------------------------------------------------------- commands


def commands() -> str:
    import click

    from omniroute_addon.cli import cli

    def walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
        context = click.Context(
            command, parent, name, terminal_width=80, max_content_width=80, **command.context_settings
        )
        yield f"## `{context.command_path}`\n\n```text\n{command.get_help(context).strip()}\n```"
        if isinstance(command, click.Group):
            for child in command.list_commands(context):
                yield from walk(command.commands[child], child, context)

    return "\n\n".join(walk(cli, "omniroute", None))


# ---------------------------------------------------------------- settings and options


def _values(field: Any) -> str:
    """What a setting may be, in few words."""
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    if choices:
        return " or ".join(map(code, choices))
    bounds = {name: getattr(m, name) for m in field.metadata for name in ("ge", "le") if hasattr(m, name)}
    if bounds.get("le") is not None:
        return f"{bounds.get('ge', 0):,} … {bounds['le']:,}"
    return {bool: "`true` or `false`", int: "whole number"}.get(field.annotation, "list of names")


def settings() -> str:
    from omniroute_addon.settings import rows

    def default(value: Any) -> str:
        return code(str(value).lower() if isinstance(value, bool) else value)

    return table(
        ("setting", "default", "values", "meaning", "environment"),
        (
            (
                code(row.name),
                default(row.field.get_default(call_default_factory=True)),
                _values(row.field),
                row.field.description or "",
                ", else ".join(map(code, row.env)),
            )
            for row in rows()
        ),
    )


def options() -> str:
    from omniroute_addon.addon import OPTIONS

    return table(
        ("option", "default", "meaning"),
        (
            (code(name), code(str(default).lower() if isinstance(default, bool) else default), text)
            for name, (_, default, text, _) in OPTIONS.items()
        ),
    )


# ---------------------------------------------------------------- packs and answers


def providers() -> str:
    from omniroute_addon.packs import PackFolder, bundled_rules, load_packs

    packs, problems = load_packs([PackFolder(path=bundled_rules(), label="rules")])
    assert not problems, problems
    return table(
        ("id", "name", "hosts", "dialects"),
        (
            (
                code(provider.id),
                provider.name,
                ", ".join(map(code, provider.hosts)),
                ", ".join(endpoint.dialect for endpoint in provider.endpoints) or "(recognised only)",
            )
            for provider in packs.providers.values()
        ),
    )


def traits() -> str:
    from omniroute_addon.pack_schema import TRAITS

    return table(("trait", "meaning"), ((code(name), meaning) for name, meaning in TRAITS.items()))


def _fields(model: Any) -> str:
    return table(
        ("field", "meaning"),
        ((code(name), field.description) for name, field in model.model_fields.items() if field.description),
    )


def pack_fields() -> str:
    from omniroute_addon.pack_schema import PackFile

    return _fields(PackFile)


def _shape(hint: Any) -> str:
    """What may be written for a rule's field, in few words."""
    from omniroute_addon.verdicts import schema, schema_values

    named = {
        schema.Conditions: "conditions",
        schema_values.Codes: "word or list",
        schema_values.Names: "word or list",
        schema_values.Phrases: "phrase or list",
        schema_values.Seconds: "seconds, `500ms`, `60s`, `5m`, `6h`, `30d`",
        schema_values.Statuses: "status or list",
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


def connection_fields() -> str:
    from omniroute_addon.config_schema import ConnectionFile

    return _fields(ConnectionFile)


def route_fields() -> str:
    from omniroute_addon.config_schema import RouteFile

    return _fields(RouteFile)


def codes() -> str:
    from omniroute_addon.final_answer import CODES

    return table(("code", "sentence"), ((code(name), sentence) for name, sentence in CODES.items()))


# ---------------------------------------------------------------- names that only the source knows


def _constants(pattern: str, files: Iterable[Path]) -> set[str]:
    """Whole string and bytes constants that match, docstrings aside."""
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), file)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
                if re.fullmatch(pattern, text):
                    found.add(text)
    return found


def sources() -> list[Path]:
    """Every Python file that runs inside the proxy."""
    own = [p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] not in ("cli", "testing")]
    return [*own, *(ROOT / "plugins").glob("*.py")]


def header_names() -> set[str]:
    """Every header of ours that the proxy reads or writes."""
    return _constants(r"x-omniroute-[a-z-]*[a-z]", sources())


def exclusion_labels() -> set[str]:
    """Every label that an `Exclusion` is made with: a text, or a constant of the same file. Raises KeyError for others."""
    found: set[str] = set()
    for file in sources():
        tree = ast.parse(file.read_text(encoding="utf-8"), file)
        constants = {
            ast.unparse(node.targets[0]): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "Exclusion":
                values = (keyword.value for keyword in node.keywords if keyword.arg == "label")
                found |= {str(v.value if isinstance(v, ast.Constant) else constants[ast.unparse(v)]) for v in values}
    return found


# ---------------------------------------------------------------- writing


PARTS: dict[str, Callable[[], str]] = {
    "codes": codes,
    "commands": commands,
    "connection-fields": connection_fields,
    "hooks": hooks,
    "kind-defaults": kind_defaults,
    "options": options,
    "pack-fields": pack_fields,
    "phrases": phrases,
    "providers": providers,
    "route-fields": route_fields,
    "rule-classify": rule_classify,
    "rule-conditions": rule_conditions,
    "rule-examples": rule_examples,
    "rule-expect": rule_expect,
    "rule-restate": rule_restate,
    "rule-value-tests": rule_value_tests,
    "settings": settings,
    "traits": traits,
}


def current(text: str) -> str:
    """A document with every generated part as it should be. Raises KeyError for an unknown part."""
    return _PART.sub(lambda m: f"{m[1]}\n{PARTS[m['name']]()}\n\n{m[3]}", text)


def main(arguments: list[str]) -> int:
    stale = []
    for file in sorted([*DOCS.glob("*.md"), ROOT / "README.md"]):
        text = file.read_text(encoding="utf-8")
        if (wanted := current(text)) != text:
            stale.append(file.relative_to(ROOT))
            if "--check" not in arguments:
                file.write_text(wanted, encoding="utf-8")
    for path in stale:
        print(f"{path} is not current; run scripts/docs.py" if "--check" in arguments else f"{path} written")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
