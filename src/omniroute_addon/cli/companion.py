"""The proxy of one command: mitmdump with our addon, for as long as the process that started it lives.

    python -m omniroute_addon.cli.companion [MITMPROXY OPTIONS]

`omniroute exec` becomes the command itself where the system allows it (`bringup/command.py`), so nobody is left to stop
the proxy: it notices by itself. On POSIX a lost parent shows in `getppid`; elsewhere standard input ends.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

from omniroute_addon.bringup.found import owner_of
from omniroute_addon.bringup.way_out import outer_authorities, outer_proxy

LOOK_EVERY_S = 0.2


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY_S)
    os.kill(os.getpid(), signal.SIGTERM)


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # Windows has no signal that one process may send to itself and mitmproxy would hear


def main() -> None:
    """Entry point of the process."""
    parent = owner_of(os.environ) or os.getppid()  # as we were told: it may be gone before we could ask
    watch, known = (_end_with_input, ()) if os.name == "nt" else (_end_with, (parent,))
    threading.Thread(target=watch, args=known, daemon=True).start()
    from mitmproxy.tools.main import mitmdump

    options = sys.argv[1:]
    confdir = next((o.partition("=")[2] for o in options if o.startswith("confdir=")), "~/.mitmproxy")
    options += outer_proxy(
        os.environ, options
    )  # here and not by the parent: a password must not stand in a command line
    options += outer_authorities(os.environ, Path(confdir).expanduser(), options)
    sys.argv = ["mitmdump", *options]  # mitmproxy explains errors by it
    mitmdump(options)


if __name__ == "__main__":
    main()
