"""Plugins are loaded the same way whoever wrote them, and none of them can hurt a request."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from omniroute_addon import hookimpl
from omniroute_addon.plugin_host import HOOKS, PluginHost
from omniroute_addon.testing.calls import make_exclusion


def plugin(**hooks: Any) -> Any:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"from omniroute_addon import hookimpl\n{text}", encoding="utf-8")


def test_the_hooks_are_those_of_the_contract_in_order() -> None:
    assert HOOKS[:4] == ("start", "stop", "intercept", "upgrade")
    assert HOOKS[-3:] == ("finish", "timers", "reset")


def test_the_first_answer_wins_and_the_last_registered_is_asked_first() -> None:
    host = PluginHost()
    host.register(plugin(intercept=lambda host, port: False), name="a", origin="bundled")
    host.register(plugin(intercept=lambda host, port: None), name="b")
    assert host.first("intercept", host="h", port=1) is False
    host.register(plugin(intercept=lambda host: True), name="c")
    assert host.first("intercept", host="h", port=1) is True


def test_all_are_merged() -> None:
    host = PluginHost()
    one, two = make_exclusion(detail="one"), make_exclusion(detail="two")
    host.register(plugin(exclude=lambda targets: [one]), name="a")
    host.register(plugin(exclude=lambda now: None), name="b")
    host.register(plugin(exclude=lambda call: [two]), name="c")
    assert host.each("exclude", call=0, targets=(), now=0.0) == [(two,), (one,)]
    assert host.listens("exclude") and not host.listens("order")


def test_a_fault_is_logged_with_the_name_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    host = PluginHost()
    host.register(plugin(intercept=lambda host, port: True), name="good")
    host.register(plugin(intercept=lambda host, port: 1 / 0), name="bad")
    assert host.first("intercept", host="h", port=1) is True
    assert "plugin bad failed in intercept; its answer is skipped" in caplog.text


def test_repeated_faults_quarantine_and_a_good_answer_forgives(caplog: pytest.LogCaptureFixture) -> None:
    bad = [True]
    host = PluginHost(max_faults=3)
    host.register(plugin(intercept=lambda host: 1 / 0 if bad[0] else None), name="flaky")
    host.first("intercept", host="h", port=1)
    host.first("intercept", host="h", port=1)
    bad[0] = False
    host.first("intercept", host="h", port=1)
    bad[0] = True
    for _ in range(3):
        assert host.plugins()[0].state == "on"
        host.first("intercept", host="h", port=1)
    assert host.plugins()[0].state == "quarantined"
    assert host.plugins()[0].detail == "3 faults in a row"
    assert not host.listens("intercept")
    assert "plugin flaky is quarantined" in caplog.text


def test_a_disabled_plugin_is_listed_and_never_asked() -> None:
    host = PluginHost(disabled=["a"])
    host.register(plugin(intercept=lambda host: True), name="a")
    assert host.first("intercept", host="h", port=1) is None
    assert [(i.name, i.state, i.hooks) for i in host.plugins()] == [("a", "off", ("intercept",))]


def test_folders_are_loaded_alike_and_a_users_file_replaces_a_bundled_one(tmp_path: Path) -> None:
    bundled, user = tmp_path / "bundled", tmp_path / "user"
    write(bundled, "one.py", "@hookimpl\ndef intercept(host): return False\n")
    write(bundled, "two.py", "@hookimpl\ndef intercept(host): return None\n")
    write(bundled, "_private.py", "1/0\n")
    write(user, "one.py", "VERSION = '2.1'\n@hookimpl\ndef intercept(host): return True\n")
    host = PluginHost()
    host.load(bundled=bundled, user=user, entry_points=False)
    assert host.first("intercept", host="h", port=1) is True
    assert [(i.name, i.origin) for i in host.plugins()] == [("one", "user"), ("two", "bundled")]
    assert host.plugins()[0].version == "2.1"


def test_a_module_may_hand_out_an_object(tmp_path: Path) -> None:
    code = "class P:\n  @hookimpl\n  def intercept(self, host): return host == 'me'\nplugin = P()\n"
    write(tmp_path / "b", "obj.py", code)
    host = PluginHost()
    host.load(bundled=tmp_path / "b", user=tmp_path / "nothing", entry_points=False)
    assert host.first("intercept", host="me", port=1) is True


def test_a_file_that_cannot_be_loaded_is_told_and_the_rest_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path / "b", "broken.py", "import nothing_of_that_name\n")
    write(tmp_path / "b", "fine.py", "@hookimpl\ndef intercept(host): return True\n")
    host = PluginHost()
    host.load(bundled=tmp_path / "b", user=None, entry_points=False)
    assert host.first("intercept", host="h", port=1) is True
    broken = next(i for i in host.plugins() if i.name == "broken")
    assert broken.state == "broken" and "No module named 'nothing_of_that_name'" in broken.detail


def test_a_hook_that_does_not_fit_is_refused_with_its_name() -> None:
    host = PluginHost()
    host.register(plugin(intercept=lambda hostname: True), name="wrong")
    host.register(plugin(intercept=lambda host: True), name="right")
    host.register(plugin(intercept=lambda host: True), name="right")
    states = {i.name: i for i in host.plugins()}
    assert states["wrong"].state == "broken" and "hostname" in states["wrong"].detail
    assert states["right"].state == "on"
    assert "already" in states["right (user)"].detail


def test_wrappers_are_not_supported() -> None:
    def intercept(host: str) -> Any:
        yield

    host = PluginHost()
    host.register(SimpleNamespace(intercept=hookimpl(wrapper=True)(intercept)), name="wraps")
    assert host.plugins()[0].state == "broken" and "is a wrapper" in host.plugins()[0].detail
    assert not host.listens("intercept")


def test_repr_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    host = PluginHost(disabled=["off"])
    host.register(plugin(), name="off")
    host.register(plugin(), name="x")
    assert repr(host) == "<PluginHost off=off x=on>"
