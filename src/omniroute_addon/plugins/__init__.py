"""Import home of the mechanisms: in a checkout they lie in `plugins/` at the root, in a wheel beside this file."""

from pathlib import Path

_ROOT = Path(__file__).resolve().parents[3] / "plugins"
FOLDER: Path = _ROOT if _ROOT.is_dir() else Path(__file__).resolve().parent
"""Where the bundled plugins are."""

if str(FOLDER) not in __path__:
    __path__.append(str(FOLDER))
