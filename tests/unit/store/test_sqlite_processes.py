"""Real processes: one that is killed in the middle of its work, and several on one file."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from omniroute_addon.store.sqlite import opened

PROXY = """
import sys, time
from pathlib import Path
from omniroute_addon.store.sqlite import opened

path, who, rounds, delay_s = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
store = opened(path, delay_s=delay_s)
learned, settings = store.table("learned", keep=True), store.table("settings", keep=True)
settings.update(who, lambda old: {"made": "by a person"})
assert store.flush(), store.trouble
print("ready", flush=True)
for n in range(1, rounds + 1):
    with store.transaction():
        learned.update(f"{who}/left", lambda old: {"n": n})
        learned.update("shared", lambda old: {"who": who, "n": n})
        learned.update(f"{who}/right", lambda old: {"n": n})
    print(n, time.monotonic(), flush=True)
store.close()
assert not store.trouble, store.trouble
"""


def start(path: Path, who: str, *, rounds: int, delay_s: float) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROXY, str(path), who, str(rounds), str(delay_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kill_9_loses_at_most_the_last_second_and_never_a_setting(path: Path) -> None:
    proxy = start(path, "a", rounds=10**9, delay_s=0.02)
    assert proxy.stdout
    assert proxy.stdout.readline() == "ready\n"
    made: dict[int, float] = {}
    first = None
    for line in proxy.stdout:
        n, at = line.split()
        made[int(n)] = float(at)
        first = first or float(at)
        if float(at) - first > 0.5:
            break
    proxy.send_signal(signal.SIGKILL)
    for line in proxy.stdout:  # what it had still said
        if len(words := line.split()) == 2 and line.endswith("\n"):
            made[int(words[0])] = float(words[1])
    proxy.wait()
    proxy.stderr.close()  # type: ignore[union-attr]

    store = opened(path)
    assert store.table("settings", keep=True).get("a") == {"made": "by a person"}
    learned = store.table("learned", keep=True)
    left, right = learned.get("a/left"), learned.get("a/right")
    store.close()
    assert left is not None
    assert left == right, "a transaction is there whole"
    assert max(made.values()) - made[left["n"]] < 1.0


def test_several_proxies_on_one_file(path: Path) -> None:
    """They also start together: one makes the file and its tables, the others wait for it."""
    proxies = [start(path, who, rounds=300, delay_s=0.0) for who in "abcd"]
    for proxy in proxies:
        _, errors = proxy.communicate(timeout=60)
        assert (proxy.returncode, errors) == (0, "")
    with closing(sqlite3.connect(path)) as found:
        assert found.execute("pragma integrity_check").fetchone() == ("ok",)
        assert found.execute("select count(*) from _sqlite_migrations").fetchone() == (2,)
    store = opened(path)
    learned = dict(store.table("learned", keep=True).scan())
    store.close()
    assert learned.pop("shared")["n"] == 300
    assert learned == {f"{who}/{side}": {"n": 300} for who in "abcd" for side in ("left", "right")}
