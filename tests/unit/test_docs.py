"""The documents are a test subject: what exists is written down, and what is written down works (`style.md` §13)."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import get_args

import click
import pytest

from omniroute_addon import hookspecs
from omniroute_addon.cli import cli
from omniroute_addon.config import read_config
from omniroute_addon.files import Files
from omniroute_addon.final_answer import CODES
from omniroute_addon.model import KINDS, SCOPES, ClientProfile
from omniroute_addon.options import OPTIONS
from omniroute_addon.pack_files import PackFolder, read_pack, read_pack_file
from omniroute_addon.packs import Packs, build_packs, bundled_rules, load_packs
from omniroute_addon.plugin_host import HOOKS, PluginHost
from omniroute_addon.secrets import Vault
from omniroute_addon.settings import rows
from omniroute_addon.verdicts import RuleBook
from omniroute_addon.verdicts.rule_examples import check_examples
from omniroute_addon.verdicts.schema import Reason

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = PackFolder(path=bundled_rules(), label="rules")
DOCUMENTS = {str(p.relative_to(ROOT)): p for p in [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]}


def _generator() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))  # as when it is run
    spec = importlib.util.spec_from_file_location("omniroute_docs", ROOT / "scripts" / "docs.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = _generator()
source_names = importlib.import_module("docs_parts.source_names")


def text(name: str) -> str:
    return DOCUMENTS[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_generated_parts_are_current(name: str) -> None:
    """Run scripts/docs.py when this fails."""
    assert docs.current(text(name)) == text(name)


def test_every_generator_is_used() -> None:
    used = {name for document in DOCUMENTS for name in re.findall(r"<!-- generated: ([\w-]+) -->", text(document))}
    assert used == docs.PARTS.keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_every_mitmproxy_option_is_documented(name: str) -> None:
    assert f"| `{name}` |" in text("docs/options.md")


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_documented_with_its_exact_signature(name: str) -> None:
    tree = ast.parse((ROOT / "src/omniroute_addon/hookspecs.py").read_text(encoding="utf-8"))
    hook = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    assert hook.returns
    written = f"{name}({ast.unparse(hook.args)}) -> {ast.unparse(hook.returns)}"
    assert f"```python\n{written}\n```" in text("docs/hooks.md")


def _commands(group: click.Group, *words: str) -> list[str]:
    names = [(*words, name) for name in group.commands]
    below = [_commands(c, *words, n) for n, c in group.commands.items() if isinstance(c, click.Group)]
    return [" ".join(name) for name in names] + [name for found in below for name in found]


@pytest.mark.parametrize("name", _commands(cli))
def test_every_command_is_documented(name: str) -> None:
    assert f"## `omniroute {name}`" in text("docs/commands.md")


@pytest.mark.parametrize("name", [*KINDS, *SCOPES, *get_args(Reason), *CODES, *sorted(source_names.exclusion_labels())])
def test_every_word_of_a_verdict_error_or_exclusion_is_documented(name: str) -> None:
    assert f"`{name}`" in text("docs/reasons.md")


@pytest.mark.parametrize("name", sorted(source_names.header_names()))
def test_every_header_of_ours_is_documented(name: str) -> None:
    assert f"| `{name}` |" in text("docs/headers.md")


@pytest.mark.parametrize("row", [*rows()], ids=lambda row: row.name)
def test_every_setting_is_documented_with_its_environment_variables(row) -> None:
    line = next(line for line in text("docs/configuration.md").splitlines() if line.startswith(f"| `{row.name}` |"))
    assert [name for name in row.env if f"`{name}`" not in line] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_link_leads_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", text(name))
    assert [link for link in links if not (DOCUMENTS[name].parent / link).exists()] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_ids_of_requirements_are_explained_where_they_stand(name: str) -> None:
    ids = re.search(r"\b(?:[A-Z]{2}-\d+|A\d\d)\b", text(name))
    explained = text(name).find("name requirements of this project's specification")
    assert ids is None or explained >= 0
    assert "spec/" not in text(name)


def test_every_example_of_a_hook_is_a_code_block() -> None:
    outside = re.sub(r"```python\n.*?```", "", text("docs/hooks.md"), flags=re.DOTALL)
    assert "@hookimpl" not in outside
    assert text("docs/hooks.md").count("```python\n@hookimpl\n") == len(HOOKS) - 1  # `stop` needs none


# ---------------------------------------------------------------- guides

GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "agents").glob("*.md"))}
STARTED = [p for p in Files(rules=Path("/nonexistent")).clients().profiles.values() if p.start and p.start.commands]


@pytest.mark.parametrize("name", GUIDES)
def test_readme_leads_to_every_guide(name: str) -> None:
    assert f"| [{name}](docs/agents/{name}.md) |" in text("README.md")


@pytest.mark.parametrize("name", GUIDES)
def test_guide_has_the_line_the_versions_and_the_faults(name: str) -> None:
    guide = GUIDES[name]
    assert "```console\n$ omniroute exec -- " in guide
    assert "**Tested:**" in guide and "## When things fail" in guide
    assert re.search(r"\b(?:[A-Z]{2}-\d+|A\d\d)\b", guide) is None


@pytest.mark.parametrize("program", STARTED, ids=lambda program: program.id)
def test_guide_names_what_the_profile_says(program: ClientProfile) -> None:
    """Every program that `omniroute exec` recognises has a page with its command and the variables that it trusts."""
    assert program.start
    pages = [
        g for g in GUIDES.values() if re.search(rf"omniroute exec -- .*\b{program.start.commands[0]}\b|{program.id}", g)
    ]
    assert [g for g in pages if all(f"`{variable}`" in g for variable in program.start.trusts)]


# ---------------------------------------------------------------- the examples work


@pytest.fixture(scope="module")
def packs() -> Packs:
    packs, problems = load_packs([BUNDLED])
    assert not problems
    return packs


def blocks(name: str, language: str, holding: str) -> list[str]:
    found = [b for b in re.findall(rf"```{language}\n(.*?)```", text(name), re.DOTALL) if holding in b]
    assert found, f"{name} has no example with {holding!r}"
    return found


@pytest.mark.parametrize("name", ["docs/configuration.md", "README.md"])
def test_examples_of_configurations_are_right(name: str, packs: Packs) -> None:
    together = "".join(blocks(name, "yaml", "provider:"))
    together = re.sub(r"(env|file):[^\s,}]+", "env:KEY", together)  # the reader's keys, not this machine's
    reading = read_config(together.encode(), file=name, packs=packs, vault=Vault(environ={"KEY": "a"}))
    assert reading.problems == ()
    assert reading.config and len(reading.config.connections) >= 3 and reading.config.routes


@pytest.mark.parametrize("name", ["docs/packs.md", "README.md"])
def test_examples_of_packs_are_right_and_their_rules_prove_themselves(name: str) -> None:
    together = "".join(b for b in blocks(name, "yaml", "") if "classify:" in b or "restate:" in b)
    source, problems = read_pack(together.encode(), file=name, stem="acme")
    assert problems == [] and source
    shared = [s for path in sorted(bundled_rules().glob("_*.yaml")) if (s := read_pack_file(BUNDLED, path)[0])]
    built, problems = build_packs([shared, [source]])
    assert problems == []
    match = built.match_call("api.acme.example", 443, "/v1/chat/completions")
    assert match and match[0].auth.header == "x-acme-key"
    checked = check_examples({"acme": built.rules["acme"]}, RuleBook.build(built.rules))
    assert checked.problems == () and checked.rules >= 1


@pytest.mark.parametrize(
    "part", ["rule-conditions", "rule-value-tests", "rule-restate", "rule-classify", "rule-examples", "rule-expect"]
)
def test_every_key_of_a_rule_has_a_meaning(part: str) -> None:
    rows = docs.PARTS[part]().splitlines()[2:]
    assert rows and [row for row in rows if row.split(" | ")[-1].strip(" |") == ""] == []


@pytest.mark.parametrize("name", ["docs/plugins.md", "README.md"])
def test_examples_of_plugins_load(name: str, tmp_path: Path) -> None:
    [example] = blocks(name, "python", "@hookimpl")
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    host = PluginHost()
    host.load(bundled=tmp_path / "none", user=tmp_path, entry_points=False)
    [info] = host.plugins()
    assert (info.state, info.hooks) == ("on", ("exclude",))


def test_example_in_the_hook_specifications_loads(tmp_path: Path) -> None:
    assert hookspecs.__doc__
    example = re.search(r"(    # ~/.*?)\n\nWhat holds", hookspecs.__doc__, re.DOTALL)
    assert example
    (tmp_path / "night_shift.py").write_text(re.sub("(?m)^    ", "", example[1]), encoding="utf-8")
    host = PluginHost()
    host.load(bundled=tmp_path / "none", user=tmp_path, entry_points=False)
    assert [(info.name, info.version, info.state) for info in host.plugins()] == [("night_shift", "1.0", "on")]


# ---------------------------------------------------------------- the generator itself


def test_stale_part_is_replaced_and_the_rest_stays() -> None:
    before = "a\n<!-- generated: traits -->\nold\n<!-- end -->\nb\n"
    after = docs.current(before)
    assert after.startswith("a\n<!-- generated: traits -->\n\n| trait |") and after.endswith("\n\n<!-- end -->\nb\n")
    assert docs.current(after) == after


def test_unknown_part_is_refused() -> None:
    with pytest.raises(KeyError):
        docs.current("<!-- generated: nothing -->\n<!-- end -->")


def test_cell_cannot_break_its_table() -> None:
    assert docs.table(("a",), [("x|y\nz",)]) == "| a |\n| --- |\n| x\\|y z |"


def test_pages_that_error_messages_name_exist() -> None:
    """A message that sends people to `docs: …` must not send them nowhere."""
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    assert [page for page in re.findall(r"docs: (\w+)\)", source) if f"docs/{page}.md" not in DOCUMENTS] == []
