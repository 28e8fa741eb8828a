"""The file that `mitmdump -s "$(omniroute path)"` loads, alone in its folder.

mitmproxy puts a script's folder in front of `sys.path` and leaves it there: beside the package's own modules, our
`secrets.py` would become everybody's `secrets`.
"""

from omniroute_addon.addon import addons

__all__ = ["addons"]
