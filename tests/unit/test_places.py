"""Where things are when nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from omniroute_addon import places


def test_everything_lies_in_the_users_own_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places.platformdirs, "user_config_path", lambda app, appauthor: tmp_path / app)
    monkeypatch.setattr(places.platformdirs, "user_state_path", lambda app, appauthor: tmp_path / "state" / app)
    assert places.default_config_path() == tmp_path / "omniroute" / "omniroute.yaml"
    assert places.default_rules_dir() == tmp_path / "omniroute" / "rules"
    assert places.default_plugins_dir() == tmp_path / "omniroute" / "plugins"
    assert places.default_state_dir() == tmp_path / "state" / "omniroute"
    assert list(tmp_path.iterdir()) == []
