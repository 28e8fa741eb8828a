"""omniroute-addon: keeps LLM agents working when their providers do not.

The core knows no mechanism by name. Start reading at `hookspecs.py` (a request's life as questions),
then `engine.py` (who asks them, in which order), then `stream.py` (how the answers reach the wire).
"""

from importlib.metadata import PackageNotFoundError, version

from .hookspecs import hookimpl

try:
    __version__ = version("omniroute-addon")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__", "hookimpl"]
