"""The proxy's own authority: made once, also when two first starts come together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omniroute_addon.cli import trust
from omniroute_addon.cli.trust import own_authority

MAKE = "import sys; from pathlib import Path; from omniroute_addon.cli.trust import own_authority as o; o(Path(sys.argv[1]))"


def test_of_first_starts_at_once_only_one_makes_the_key(tmp_path: Path) -> None:
    """The certificate that clients trust must belong to the key that the proxy signs with."""
    confdir = tmp_path / "new" / "confdir"
    started = [subprocess.Popen([sys.executable, "-c", MAKE, confdir]) for _ in range(4)]
    assert [process.wait(60) for process in started] == [0, 0, 0, 0]
    whole = (confdir / "mitmproxy-ca.pem").read_text()
    assert (confdir / "mitmproxy-ca-cert.pem").read_text().strip() in whole
    assert not (confdir / ".omniroute-first-start").exists()


def test_what_a_killed_start_left_behind_is_waited_for_and_then_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "PATIENCE_S", 0.1)
    (tmp_path / ".omniroute-first-start").touch()
    assert own_authority(tmp_path).is_file()
    assert not (tmp_path / ".omniroute-first-start").exists()
