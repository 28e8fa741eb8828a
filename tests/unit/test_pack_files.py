"""Pack folders: one broken file hides no other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omniroute_addon import pack_files, places
from omniroute_addon.pack_files import PackFolder, bundled_rules, pack_folders, read_pack, read_pack_file

RULE = "  - {id: %s, when: {status: 429}, kind: rate_limit}\n"


def test_a_pack_knows_the_lines_of_its_rules() -> None:
    text = "\nid: acme\nclassify:\n" + RULE % "first" + RULE % "second"
    source, problems = read_pack(text.encode(), file="rules/acme.yaml", stem="acme")
    assert problems == []
    assert source is not None
    assert source.owner == "acme"
    assert source.lines == {"acme": 2, "first": 4, "second": 5}


def test_a_shared_file_has_rules_and_phrases_only() -> None:
    source, problems = read_pack(b"classify:\n" + (RULE % "r").encode(), file="_openai.yaml", stem="_openai")
    assert problems == []
    assert source is not None
    assert source.owner == "_openai"
    assert read_pack(b"", file="_openai.yaml", stem="_openai")[1] == []
    assert read_pack(b"id: x", file="_openai.yaml", stem="_openai")[1] == [
        "_openai.yaml:1:1: unknown key 'id'.\n  Known keys: classify, phrases, restate\n  Rename or remove it."
    ]


def test_yaml_and_schema_problems_come_together() -> None:
    source, problems = read_pack(b"id: a\nid: b\nbogus: 1\n", file="p.yaml", stem="p")
    assert source is None
    assert [text.partition(": ")[0] for text in problems] == ["p.yaml:2:1", "p.yaml:3:1"]


def test_an_empty_or_unreadable_pack_is_told() -> None:
    assert read_pack(b"# nothing\n", file="p.yaml", stem="p") == (
        None,
        ["p.yaml:1:1: the file is empty. Write at least `id:`, or delete the file."],
    )
    assert read_pack(b"a: [", file="p.yaml", stem="p")[1][0].startswith("p.yaml:1:5: not valid YAML:")


def test_files_are_read_in_order_without_hidden_ones_and_folders(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "_x.yaml", ".hidden.yaml", "notes.txt"):
        (tmp_path / name).write_text("id: x")
    (tmp_path / "clients").mkdir()
    (tmp_path / "clients" / "c.yaml").write_text("id: c")
    folder = PackFolder(path=tmp_path)
    assert [path.name for path in folder.files()] == ["_x.yaml", "a.yml", "b.yaml"]
    assert list(PackFolder(path=tmp_path / "missing").files()) == []


def test_a_file_is_shown_with_the_folders_label_or_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("id: a")
    source, _ = read_pack_file(PackFolder(path=tmp_path, label="rules"), tmp_path / "a.yaml")
    assert source is not None
    assert source.file == "rules/a.yaml"
    source, _ = read_pack_file(PackFolder(path=tmp_path), tmp_path / "a.yaml")
    assert source is not None
    assert source.file == str(tmp_path / "a.yaml")


@pytest.mark.skipif(sys.platform == "win32", reason="the system's own words")
def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    assert read_pack_file(PackFolder(path=tmp_path, label="rules"), tmp_path / "gone.yaml")[1] == [
        "rules/gone.yaml:1:1: the file cannot be read (No such file or directory). Check its permissions."
    ]


def test_the_search_path_is_bundled_then_user() -> None:
    assert [f.path for f in pack_folders(Path("mine"))] == [bundled_rules(), Path("mine")]
    assert pack_folders()[1].path == places.default_rules_dir()
    assert pack_folders()[0].label == "rules"


def test_in_a_wheel_the_packs_lie_inside_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "omniroute_addon"
    package.mkdir(parents=True)
    monkeypatch.setattr(pack_files, "__file__", str(package / "pack_files.py"))
    assert bundled_rules() == package / "rules"
    (tmp_path / "rules").mkdir()
    assert bundled_rules() == tmp_path / "rules"


NAMES = [
    "id",
    "hosts",
    "endpoints",
    "url",
    "aliases",
    "auth",
    "header",
    "query",
    "headers",
    "traits",
    "classify",
    "restate",
    "when",
    "unless",
    "kind",
    "status",
    "text",
    "examples",
    "phrases",
    "openai-chat",
    "quota_families",
    "source",
    "checked",
    "category",
    "json",
]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(values)
def test_no_mapping_makes_it_raise(value: object) -> None:
    import json

    source, problems = read_pack(json.dumps(value).encode(), file="p.yaml", stem="p")
    assert (source is None) == bool(problems)
    assert all(text.startswith("p.yaml:") for text in problems)


@given(st.binary(max_size=100))
def test_no_bytes_make_it_raise(raw: bytes) -> None:
    source, problems = read_pack(raw, file="p.yaml", stem="p")
    assert (source is None) == bool(problems)
