"""The certificates of a proxy: mitmproxy's own authority, and the bundle that clients trust."""

from __future__ import annotations

import os
from pathlib import Path

from omniroute_addon.bringup import bundle

KEY_BITS = 2048
"""As mitmproxy itself makes its authority's key."""


def authority_path(confdir: Path) -> Path:
    """Where mitmproxy keeps its certificate; need not be there."""
    return confdir / "mitmproxy-ca-cert.pem"


def own_authority(confdir: Path) -> Path:
    """mitmproxy's certificate in `confdir`, made now when this is the first start. Raises OSError."""
    from mitmproxy.certs import CertStore
    from mitmproxy.options import CONF_BASENAME

    certificate = authority_path(confdir)
    if not certificate.exists():
        CertStore.from_store(confdir, CONF_BASENAME, KEY_BITS)
    return certificate


def write_bundle(confdir: Path) -> Path:
    """The system's authorities, the user's and ours in one file that is fresh; its path. Raises OSError."""
    return bundle.write_bundle(confdir, own_authority(confdir), os.environ)
