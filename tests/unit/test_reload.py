"""A change is noticed, a bad edit keeps the last good version of its file, and everything says so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omniroute_addon.pack_files import PackFolder
from omniroute_addon.reload import Sources

PACK = "id: {id}\nname: {name}\nendpoints: {{openai-chat: 'https://{id}.example/v1/chat/completions'}}\n"


class Desk:
    """A folder with a configuration, bundled and own packs, and somebody who edits them."""

    def __init__(self, root: Path, **environ: str) -> None:
        self.config = root / "omniroute.yaml"
        self.bundled, self.own = root / "bundled", root / "own"
        self.bundled.mkdir()
        self.write(self.bundled / "acme.yaml", PACK.format(id="acme", name="Acme"))
        self._ticks = 0
        self.environ: Mapping[str, str] = environ

    def sources(self, *, required: bool = False) -> Sources:
        folders = (PackFolder(path=self.bundled, label="rules"), PackFolder(path=self.own))
        return Sources(config=self.config, folders=folders, environ=self.environ, required=required)

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        # File times may be coarser than two edits of a test.
        self._ticks = getattr(self, "_ticks", 0) + 1
        os.utime(path, ns=(self._ticks * 10**9, self._ticks * 10**9))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path, KEY="secret")


def test_without_any_file_the_built_in_holds(tmp_path: Path) -> None:
    loaded = Sources(config=None, folders=(), environ={"STREAM_IDLE_TIMEOUT_MS": "5"}).load()
    assert (loaded.problems, loaded.warnings, loaded.config.settings.idle_timeout_ms) == ((), (), 5)
    assert dict(loaded.packs.providers) == {}


def test_the_process_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_IDLE_TIMEOUT_MS", "6")
    assert Sources(config=None, folders=()).load().config.settings.idle_timeout_ms == 6


def test_everything_is_loaded_together(desk: Desk) -> None:
    desk.write(desk.config, "connections: [{id: a, provider: acme, key: env:KEY}]")
    desk.write(desk.own / "mine.yaml", PACK.format(id="mine", name="Mine"))
    sources = desk.sources()
    loaded = sources.load()
    assert loaded.problems == ()
    assert list(loaded.packs.providers) == ["acme", "mine"]
    assert [c.id for c in loaded.config.connections] == ["a"]
    assert repr(sources) == f"<Sources config={desk.config} folders=2 files=3>"


def test_a_configuration_that_is_not_there_is_a_problem_only_when_somebody_named_it(desk: Desk) -> None:
    assert desk.sources().load().problems == ()
    assert desk.sources(required=True).load().problems == (
        f"{desk.config}:1:1: the file does not exist. Create it, or correct the option `omniroute_config`.",
    )


def test_a_configuration_that_cannot_be_opened_is_told(desk: Desk) -> None:
    desk.config.mkdir()
    (problem,) = desk.sources().load().problems
    assert problem.startswith(f"{desk.config}:1:1: the file cannot be read (")


def test_nothing_changed_is_noticed_without_reading(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = desk.sources()
    assert sources.changed()
    sources.load()
    monkeypatch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"read {path}"))
    assert not sources.changed()
    assert sources.poll() is None


@pytest.mark.parametrize("what", ["edit", "add", "remove", "config", "replace"])
def test_each_kind_of_change_is_noticed(desk: Desk, what: str) -> None:
    sources = desk.sources()
    sources.load()
    pack = desk.bundled / "acme.yaml"
    if what == "edit":
        desk.write(pack, PACK.format(id="acme", name="New"))
    elif what == "add":
        desk.write(desk.own / "mine.yaml", PACK.format(id="mine", name="Mine"))
    elif what == "remove":
        pack.unlink()
    elif what == "config":
        desk.write(desk.config, "")
    else:  # same size and time, other file: an editor's atomic rename
        twin = desk.bundled / "twin"
        desk.write(twin, PACK.format(id="acme", name="Emca"))
        found = pack.stat()
        os.utime(twin, ns=(found.st_mtime_ns, found.st_mtime_ns))
        twin.replace(pack)
    assert sources.changed()
    loaded = sources.poll()
    assert loaded is not None
    names = [p.name for p in loaded.packs.providers.values()]
    assert (
        names == {"edit": ["New"], "add": ["Acme", "Mine"], "remove": [], "config": ["Acme"], "replace": ["Emca"]}[what]
    )
    assert sources.poll() is None


def test_a_bad_edit_of_a_pack_keeps_the_last_good_version_and_says_so(desk: Desk) -> None:
    sources = desk.sources()
    sources.load()
    pack = desk.bundled / "acme.yaml"
    for _ in range(2):  # the second bad edit has no good version just before it
        desk.write(pack, "id: acme\nbogus: 1\n")
        loaded = sources.poll()
        assert loaded is not None
        assert loaded.packs.providers["acme"].name == "Acme"
        assert loaded.problems[0].startswith("rules/acme.yaml:2:1: unknown key 'bogus'.")
        assert loaded.problems[1:] == ("rules/acme.yaml: the version of before the edit stays in force.",)
    # The problem stays told as long as it is there, whatever else changes.
    desk.write(desk.own / "mine.yaml", PACK.format(id="mine", name="Mine"))
    loaded = sources.poll()
    assert loaded is not None
    assert len(loaded.problems) == 2
    desk.write(pack, PACK.format(id="acme", name="Better"))
    loaded = sources.poll()
    assert loaded is not None
    assert (loaded.packs.providers["acme"].name, loaded.problems) == ("Better", ())


def test_a_pack_that_was_never_good_is_left_out(desk: Desk) -> None:
    desk.write(desk.own / "bad.yaml", "id: [")
    loaded = desk.sources().load()
    assert list(loaded.packs.providers) == ["acme"]
    assert len(loaded.problems) == 1


def test_a_bad_edit_of_the_configuration_keeps_the_last_good_version_and_says_so(desk: Desk) -> None:
    desk.write(desk.config, "connections: [{id: a, provider: acme, key: env:KEY}]\nsettings: {idle_timeout_ms: 7}")
    sources = desk.sources()
    good = sources.load().config
    desk.write(desk.config, "connections: [{id: a, provider: amce, key: env:KEY}]")
    loaded = sources.poll()
    assert loaded is not None
    assert loaded.config is good
    assert loaded.problems[0].startswith(f"{desk.config}:1:33: unknown provider 'amce'. Did you mean 'acme'?")
    assert loaded.problems[1:] == (f"{desk.config}: the configuration of before the edit stays in force.",)
    desk.write(desk.config, "settings: {idle_timeout_ms: 8}")
    loaded = sources.poll()
    assert loaded is not None
    assert (loaded.config.settings.idle_timeout_ms, loaded.config.connections, loaded.problems) == (8, (), ())


def test_a_configuration_that_was_never_good_leaves_the_built_in_in_force(desk: Desk) -> None:
    desk.write(desk.config, "bogus: 1")
    desk.environ = {"STREAM_IDLE_TIMEOUT_MS": "5"}
    loaded = desk.sources().load()
    assert loaded.config.settings.idle_timeout_ms == 5
    assert len(loaded.problems) == 1


def test_a_new_key_in_a_key_file_is_a_change(desk: Desk) -> None:
    key = desk.config.parent / "key"
    desk.write(desk.config, "connections: [{id: a, provider: acme, key: 'file:key'}]")
    desk.write(key, "old")
    sources = desk.sources()
    before = sources.load().config.connections[0].secret
    assert sources.poll() is None
    desk.write(key, "new")
    loaded = sources.poll()
    assert loaded is not None
    after = loaded.config.connections[0].secret
    assert before is not None
    assert after is not None
    assert (before.value, after.value) == ("old", "new")
    key.unlink()
    loaded = sources.poll()
    assert loaded is not None
    assert loaded.config.connections == ()
    assert "connection 'a' is left out" in loaded.warnings[0]
    desk.write(key, "back")
    loaded = sources.poll()
    assert loaded is not None
    assert [c.id for c in loaded.config.connections] == ["a"]


def test_a_file_edited_while_it_is_read_is_read_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write(desk.config, "settings: {idle_timeout_ms: 7}")
    sources = desk.sources()
    read_bytes = Path.read_bytes

    def slow(path: Path) -> bytes:
        raw = read_bytes(path)
        if path == desk.config and b"7" in raw:
            desk.write(desk.config, "settings: {idle_timeout_ms: 88}")
        return raw

    monkeypatch.setattr(Path, "read_bytes", slow)
    assert sources.load().config.settings.idle_timeout_ms == 7
    loaded = sources.poll()
    assert loaded is not None
    assert loaded.config.settings.idle_timeout_ms == 88


def test_a_folder_that_cannot_be_listed_is_empty(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = desk.sources()

    def refuse(path: Path) -> None:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert dict(sources.load().packs.providers) == {}


@settings(max_examples=25)
@given(edits=st.lists(st.tuples(st.sampled_from(["omniroute.yaml", "own/a.yaml"]), st.binary(max_size=40)), max_size=5))
def test_no_edits_make_it_raise_or_lose_the_good_files(
    edits: list[tuple[str, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = Desk(tmp_path_factory.mktemp("desk"))
    sources = desk.sources()
    sources.load()
    for name, raw in edits:
        path = desk.config.parent / name
        desk.write(path, "")
        path.write_bytes(raw)
        loaded = sources.poll()
        assert loaded is not None
        assert "acme" in loaded.packs.providers


# ---------------------------------------------------------------- client profiles


def test_client_profiles_lie_below_the_packs_and_reload_with_them(desk: Desk) -> None:
    (desk.bundled / "clients").mkdir()
    (desk.own / "clients").mkdir(parents=True)
    desk.write(desk.bundled / "clients" / "robot.yaml", "{id: robot, when: {user_agent: robot/*}, waits: {head_s: 1}}")
    sources = desk.sources()
    loaded = sources.load()
    assert (loaded.problems, sources.poll()) == ((), None)
    assert loaded.clients.recognise({b"user-agent": b"Robot/1"}).waits.head_s == 1
    own = desk.own / "clients" / "mine.yaml"
    desk.write(own, "{id: robot, waits: {head_s: 2}}")
    changed = sources.poll()
    assert changed is not None and changed.clients.profiles["robot"].waits.head_s == 2
    desk.write(own, "{id: robot, waits: {head_s: soon}}")
    broken = sources.poll()
    assert broken is not None and broken.clients.profiles["robot"].waits.head_s == 2
    assert broken.problems == (
        f"{own}:1:29: 'head_s' must be a number, not 'soon'.",
        f"{own}: the version of before the edit stays in force.",
    )
    own.unlink()
    gone = sources.poll()
    assert gone is not None and (gone.problems, gone.clients.profiles["robot"].waits.head_s) == ((), 1)
