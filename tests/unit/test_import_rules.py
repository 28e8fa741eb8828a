"""What may import what, as far as import-linter cannot tell: the standard library, and single modules of mitmproxy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "omniroute_addon"
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
PLUGINS = {path.name: path for path in sorted((ROOT / "plugins").glob("*.py"))}

PURE = {
    "agents.py",
    "clients/book.py",
    "clients/merge.py",
    "clients/profile_examples.py",
    "clients/profile_schema.py",
    "clients/session.py",
    "identify.py",
    "consequences.py",
    "content_coding.py",
    "core.py",
    "deadlines.py",
    "decisions.py",
    "engine.py",
    "errors.py",
    "exchange.py",
    "client_patience.py",
    "holding.py",
    "hookspecs.py",
    "signs_of_life.py",
    "input_problems.py",
    "learning.py",
    "nearest.py",
    "plugin_answers.py",
    "quoted.py",
    "preparing.py",
    "provider_failure.py",
    "provider_settings.py",
    "sort_of_answer.py",
    "upgrades.py",
    "watch.py",
    "wire.py",
    "yaml_source.py",
}
"""Modules that are given time, chance, network and disk (`style.md` §4); so are all files of `PURE_FOLDERS`."""
PURE_FOLDERS = (
    "breaker/",
    "cooldown/",
    "dialects/",
    "egress/",
    "final_answer/",
    "model/",
    "model_lockout/",
    "verdicts/",
    "waiting/",
)
IMPURE = {"time", "random", "asyncio", "sqlite3", "threading", "socket", "subprocess", "mitmproxy"}

USERS_OF_MITMPROXY = (
    "addon.py",
    "bringup/ready/",
    "certificate_help.py",
    "debug_checks.py",
    "dispatch.py",
    "entrance.py",
    "fast.py",
    "hooks_at_once.py",
    "stream/",
)
"""Public API included; `testing/` and `cli/` take what they need."""
PUBLIC_PLACES = (
    "mitmproxy.proxy.mode_specs",
    "mitmproxy.proxy.server_hooks",
    "mitmproxy.addonmanager.Loader",
    "mitmproxy.proxy.layers.modes.Socks5AuthData",
)
"""Part of what mitmproxy documents for addons, wherever it lies."""
USERS_OF_ITS_INTERNALS = ("dispatch.py", "hooks_at_once.py", "stream/")
TOOLS = ("testing/", "cli/")


def imports(path: Path, *, at_run_time: bool = False) -> Iterator[str]:
    """Every dotted name that a file imports, `from a import b` as `a.b`; at run time: not those for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"), path)
    skipped: set[ast.AST] = set()
    if at_run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                skipped.update(child for statement in node.body for child in ast.walk(statement))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.parent.parts[: len(path.parent.parts) - node.level + 1]
                prefix = ".".join(package[package.index("omniroute_addon") :]) if "omniroute_addon" in package else ""
                base = f"{prefix}.{base}".strip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def of(module: str, *names: str) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def pure() -> list[str]:
    return [name for name in MODULES if name in PURE or name.startswith(PURE_FOLDERS)]


def test_every_name_in_the_lists_is_a_module() -> None:
    assert PURE - MODULES.keys() == set()


@pytest.mark.parametrize("name", pure())
def test_pure_module_reads_no_clock_no_chance_and_does_no_io(name: str) -> None:
    assert [m for m in imports(MODULES[name], at_run_time=True) if m.partition(".")[0] in IMPURE] == []


@pytest.mark.parametrize("name", [n for n in MODULES if not n.startswith((*TOOLS, *USERS_OF_MITMPROXY))])
def test_mitmproxy_is_used_at_its_border_only(name: str) -> None:
    assert [m for m in imports(MODULES[name]) if of(m, "mitmproxy")] == []


@pytest.mark.parametrize("name", [n for n in MODULES if not n.startswith((*TOOLS, *USERS_OF_ITS_INTERNALS))])
def test_internals_of_mitmproxy_are_used_by_the_attempt_loop_only(name: str) -> None:
    internal = [m for m in imports(MODULES[name]) if of(m, "mitmproxy.proxy", "mitmproxy.addonmanager")]
    assert [m for m in internal if not of(m, *PUBLIC_PLACES)] == []


@pytest.mark.parametrize("name", MODULES)
def test_core_imports_no_plugin(name: str) -> None:
    """`design.md` §4: deleting a file from `plugins/` leaves a working proxy without that mechanism."""
    mechanisms = {f"omniroute_addon.plugins.{Path(plugin).stem}" for plugin in PLUGINS}
    assert [m for m in imports(MODULES[name]) if of(m, *mechanisms)] == []


@pytest.mark.parametrize("name", PLUGINS)
def test_plugin_knows_no_other_plugin_and_nothing_of_mitmproxy(name: str) -> None:
    others = {f"omniroute_addon.plugins.{Path(plugin).stem}" for plugin in PLUGINS if plugin != name}
    assert [m for m in imports(PLUGINS[name]) if of(m, "mitmproxy", *others)] == []


def test_rules_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "omniroute_addon" / "sub" / "a.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import time\nfrom ..plugins import b\nfrom mitmproxy.proxy import layer\n"
        "if TYPE_CHECKING:\n    import asyncio\n",
        encoding="utf-8",
    )
    assert list(imports(file)) == ["time", "omniroute_addon.plugins.b", "mitmproxy.proxy.layer", "asyncio"]
    assert "asyncio" not in imports(file, at_run_time=True)
