"""One file with every certificate authority that a client behind the proxy must trust."""

from __future__ import annotations

import ssl
from pathlib import Path

KEY_BITS = 2048
"""As mitmproxy itself makes its authority's key."""


def own_authority(confdir: Path) -> Path:
    """mitmproxy's certificate in `confdir`, made now when this is the first start. Raises OSError."""
    from mitmproxy.certs import CertStore
    from mitmproxy.options import CONF_BASENAME

    certificate = confdir / f"{CONF_BASENAME}-ca-cert.pem"
    if not certificate.exists():
        CertStore.from_store(confdir, CONF_BASENAME, KEY_BITS)
    return certificate


def write_bundle(confdir: Path) -> Path:
    """Write the system's authorities and ours into one file and return its path. Raises OSError.

    `SSL_CERT_FILE` replaces a client's authorities, and hosts of no pack show their real certificates: with ours
    alone a client could reach providers and nothing else.
    """
    bundle = confdir / "omniroute-ca-bundle.pem"
    text = _system_authorities().rstrip(b"\n") + b"\n" + own_authority(confdir).read_bytes()
    if not bundle.exists() or bundle.read_bytes() != text:
        bundle.write_bytes(text)
    return bundle


def _system_authorities() -> bytes:
    system = ssl.get_default_verify_paths().cafile
    if system and Path(system).is_file():
        return Path(system).read_bytes()
    import certifi

    return Path(certifi.where()).read_bytes()
