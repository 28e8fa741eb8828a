"""Where things are on this machine when nobody says otherwise."""

from __future__ import annotations

from pathlib import Path

import platformdirs

_APP = "omniroute"


def config_dir() -> Path:
    """The user's folder: `~/.config/omniroute` on Linux."""
    return platformdirs.user_config_path(_APP, appauthor=False)


def default_config_path() -> Path:
    """`omniroute.yaml` in the user's folder; need not exist."""
    return config_dir() / "omniroute.yaml"


def default_rules_dir() -> Path:
    """The user's own packs; need not exist."""
    return config_dir() / "rules"


def default_plugins_dir() -> Path:
    """The user's own plugins; need not exist."""
    return config_dir() / "plugins"


def default_state_dir() -> Path:
    """What must survive a restart: `~/.local/state/omniroute` on Linux; need not exist."""
    return platformdirs.user_state_path(_APP, appauthor=False)


def state_file(named: Path | None = None) -> Path:
    """The file of what the addon remembers; need not exist. A folder that somebody names gets one of the standard name."""
    path = named or default_state_dir()
    return path / "state.db" if named is None or path.is_dir() else path
