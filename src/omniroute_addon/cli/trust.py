"""The certificates of a proxy: mitmproxy's own authority, and the bundle that clients trust."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omniroute_addon.bringup import bundle

KEY_BITS = 2048
"""As mitmproxy itself makes its authority's key."""
PATIENCE_S = 20.0
"""Making a key takes a second on a slow machine."""


def authority_path(confdir: Path) -> Path:
    """Where mitmproxy keeps its certificate; need not be there."""
    return confdir / "mitmproxy-ca-cert.pem"


def own_authority(confdir: Path) -> Path:
    """mitmproxy's certificate in `confdir`, made now when this is the first start. Raises OSError.

    mitmproxy makes key and certificate file by file: of two first starts at once one must wait, or the certificate that
    clients trust might not belong to the key.
    """
    certificate = authority_path(confdir)
    if not certificate.exists() or _lock(confdir).exists():
        with _alone(confdir):
            if not certificate.exists():
                from mitmproxy.certs import CertStore
                from mitmproxy.options import CONF_BASENAME

                CertStore.from_store(confdir, CONF_BASENAME, KEY_BITS)
    return certificate


def _lock(confdir: Path) -> Path:
    return confdir / ".omniroute-first-start"


@contextmanager
def _alone(confdir: Path) -> Iterator[None]:
    """Until the block ends nobody else is in it; what a killed process left behind counts for `PATIENCE_S` only."""
    confdir.mkdir(parents=True, exist_ok=True)
    lock, deadline = _lock(confdir), time.monotonic() + PATIENCE_S
    while True:
        try:
            lock.touch(exist_ok=False)
            break
        except FileExistsError:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def write_bundle(confdir: Path) -> Path:
    """The system's authorities, the user's and ours in one file that is fresh; its path. Raises OSError."""
    return bundle.write_bundle(confdir, own_authority(confdir), os.environ)
