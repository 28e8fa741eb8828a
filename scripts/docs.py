"""Writes the generated parts of `docs/`, each between `<!-- generated: NAME -->` and `<!-- end -->`.

    .venv/bin/python scripts/docs.py            rewrite what is not current
    .venv/bin/python scripts/docs.py --check    only say what is not current; exit code 1 if anything is

What a table shows comes from the code that uses it, so a table cannot be wrong, only old; a test says when it is.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from docs_parts import rule_tables
from docs_parts.tables import code, table

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
_EXAMPLE = re.compile(r"(?:^    .*\n)(?:^(?:    .*)?\n)*", re.MULTILINE)
"""An indented block of a docstring."""
_PART = re.compile(r"(<!-- generated: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


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
    if get_origin(field.annotation) is dict:
        return "mapping"
    words = {bool: "`true` or `false`", bool | None: "`true` or `false`"}
    return words.get(field.annotation, "list of names" if "str" in str(field.annotation) else "list of numbers")


def settings() -> str:
    from omniroute_addon.settings import rows

    def default(value: Any) -> str:
        return "" if value is None else code(str(value).lower() if isinstance(value, bool) else value)

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
    from omniroute_addon.options import OPTIONS

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


def client_fields() -> str:
    from omniroute_addon.clients import profile_schema as written

    parts = (
        ("", written.ProfileFile),
        ("when.", written.WhenFile),
        ("session.", written.SessionFile),
        ("waits.", written.WaitsFile),
        ("retries.", written.RetriesFile),
        ("exhausted.", written.ExhaustedFile),
        ("exhausted.near.", written.FormFile),
        ("examples.", written.ProfileExample),
    )
    return table(
        ("field", "meaning"),
        (
            (code(prefix + name), field.description or "")
            for prefix, model in parts
            for name, field in model.model_fields.items()
        ),
    )


def clients() -> str:
    from omniroute_addon.clients.profile_files import client_folder, read_profile_file
    from omniroute_addon.packs import PackFolder, bundled_rules

    folder = client_folder(PackFolder(path=bundled_rules(), label="rules"))
    sources = [source for path in folder.files() if (source := read_profile_file(folder, path)[0])]

    def known_by(when: Any) -> str:
        conditions = [
            " or ".join(map(code, when.user_agent or ())),
            *(
                code(f"{name}: {'…' if values is True else ' or '.join(values)}")
                for name, values in when.headers.items()
            ),
            "the proxy user " + " or ".join(map(code, when.agent)) if when.agent else "",
        ]
        return " and ".join(filter(None, conditions))

    def listed(values: Any) -> str:
        by_value: dict[str, list[str]] = {}
        for dialect, value in (values or {}).items():
            by_value.setdefault(value, []).append(dialect)
        return "; ".join(f"{value}: {', '.join(names)}" for value, names in by_value.items())

    return table(
        ("id", "client", "tested", "known by", "keep-alive", "a broken stream ends with"),
        (
            (
                code(source.profile.id),
                source.profile.name or source.profile.id,
                source.profile.tested or "",
                "; ".join(map(known_by, source.profile.when or ())) or "(everybody else)",
                listed(source.profile.keep_alive),
                listed(source.profile.broken_stream) or "error_event",
            )
            for source in sources
        ),
    )


def connection_fields() -> str:
    from omniroute_addon.config_schema import ConnectionFile

    return _fields(ConnectionFile)


def route_fields() -> str:
    from omniroute_addon.config_schema import RouteFile

    return _fields(RouteFile)


def agent_fields() -> str:
    from omniroute_addon.config_schema import AgentFile

    return _fields(AgentFile)


def codes() -> str:
    from omniroute_addon.final_answer import CODES

    return table(("code", "sentence"), ((code(name), sentence) for name, sentence in CODES.items()))


# ---------------------------------------------------------------- management API


def api_routes() -> str:
    from omniroute_addon.api.routes import ROUTES

    return table(("route", "what"), ((code(f"{method} {path}"), text) for method, path, _, text in ROUTES))


def api_errors() -> str:
    from omniroute_addon.api.refusals import CODES

    return table(("code", "meaning"), ((code(name), text) for name, text in CODES.items()))


# ---------------------------------------------------------------- circuit breaker


def breaker_diagram() -> str:
    from omniroute_addon.breaker.diagram import mermaid

    return f"```mermaid\n{mermaid()}\n```"


def breaker_table() -> str:
    from omniroute_addon.breaker.diagram import rows

    headers = ("state", "event", "next state", "counters", "reason")
    return table(headers, ((code(a), b, code(c), d, code(e)) for a, b, c, d, e in rows()))


# ---------------------------------------------------------------- writing


PARTS: dict[str, Callable[[], str]] = {
    "agent-fields": agent_fields,
    "api-errors": api_errors,
    "api-routes": api_routes,
    "breaker-diagram": breaker_diagram,
    "breaker-table": breaker_table,
    "client-fields": client_fields,
    "clients": clients,
    "codes": codes,
    "commands": commands,
    "connection-fields": connection_fields,
    "hooks": hooks,
    "kind-defaults": rule_tables.kind_defaults,
    "options": options,
    "pack-fields": pack_fields,
    "phrases": rule_tables.phrases,
    "providers": providers,
    "route-fields": route_fields,
    "rule-classify": rule_tables.rule_classify,
    "rule-conditions": rule_tables.rule_conditions,
    "rule-examples": rule_tables.rule_examples,
    "rule-expect": rule_tables.rule_expect,
    "rule-restate": rule_tables.rule_restate,
    "rule-value-tests": rule_tables.rule_value_tests,
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
