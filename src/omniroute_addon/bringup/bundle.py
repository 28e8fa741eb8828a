"""One file with every authority that a client behind the proxy must trust, built from others and kept fresh.

`SSL_CERT_FILE` replaces a client's authorities, and hosts of no pack show their real certificates: with ours alone a
client could reach providers and nothing else. What the user trusts already (`SSL_CERT_FILE`, `NODE_EXTRA_CA_CERTS` … of a
company's own authority) stays trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import ssl
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .programs import CA_VARIABLES, OPENSSL_CA

NAME = "omniroute-ca-bundle"
SYSTEM_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # RHEL 7 and later
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # Alpine, macOS, BSD
    "/usr/local/etc/openssl@3/cert.pem",  # Homebrew
    "/opt/homebrew/etc/openssl@3/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",  # FreeBSD
)
_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files that a bundle is made of."""

    base: Path
    """The authorities that stand for the rest of the world."""
    extras: tuple[Path, ...] = ()
    """What the user trusts besides."""
    special: bool = False
    """Base or extras come from the user's variables: the bundle gets a name of its own."""


def find_sources(environ: Mapping[str, str], confdir: Path, system_files: Iterable[str] = SYSTEM_FILES) -> Sources:
    """Where the authorities of this machine and this user are. Raises OSError when there are none at all."""
    system = _system_file(system_files)
    named = {name: Path(environ[name]).expanduser() for name in CA_VARIABLES if environ.get(name)}
    named = {
        name: path
        for name, path in named.items()
        if not is_ours(path, confdir) and path.is_file() and not path.samefile(system)
    }
    base = named.pop(OPENSSL_CA, None)
    extras = tuple(path for path in dict.fromkeys(named.values()) if path != base)
    return Sources(base=base or system, extras=extras, special=bool(base or extras))


def is_ours(path: Path, confdir: Path) -> bool:
    """A file that we, or mitmproxy, wrote: it must not become a source of itself."""
    return path.parent == confdir and path.name.startswith((NAME, "mitmproxy-ca-cert"))


def _system_file(candidates: Iterable[str]) -> Path:
    # What this Python's OpenSSL was built with comes last: on macOS it is a file that may be empty.
    for candidate in (*candidates, ssl.get_default_verify_paths().openssl_cafile):
        with contextlib.suppress(OSError):
            if (path := Path(candidate)).is_file() and _BEGIN in path.read_bytes():
                return path
    import certifi

    return Path(certifi.where())


def write_bundle(confdir: Path, authority: Path, environ: Mapping[str, str] | None = None) -> Path:
    """Make or freshen the bundle beside `authority` and return its path. Raises OSError.

    It is written as a whole or not at all, and only when something in it changed: agents may be reading it.
    """
    sources = find_sources({} if environ is None else environ, confdir)
    path = bundle_path(confdir, sources)
    text = content(sources, authority)
    if not path.exists() or path.read_bytes() != text:
        replace_file(path, text)
    return path


def bundle_path(confdir: Path, sources: Sources) -> Path:
    """Two terminals with different authorities of their own must not overwrite each other's bundle."""
    if not sources.special:
        return confdir / f"{NAME}.pem"
    said = "\0".join(map(str, (sources.base, *sources.extras)))
    return confdir / f"{NAME}-{hashlib.sha256(said.encode()).hexdigest()[:8]}.pem"


def content(sources: Sources, authority: Path) -> bytes:
    """The text of the bundle: every certificate once. Raises OSError."""
    parts = [sources.base.read_bytes().rstrip(b"\n"), *(path.read_bytes().rstrip(b"\n") for path in sources.extras)]
    ours = authority.read_bytes()
    if not certificates(ours) <= certificates(b"\n".join(parts)):
        parts.append(ours.rstrip(b"\n"))
    return b"\n".join(parts) + b"\n"


def certificates(text: bytes) -> set[bytes]:
    """Every certificate of a PEM text, without the white space that differs between writers."""
    pieces = (part.partition(_END)[0] for part in text.split(_BEGIN)[1:])
    return {b"".join(piece.split()) for piece in pieces}


def holds(file: Path, authority: Path) -> bool | None:
    """The file contains our authority; None when one of them cannot be read."""
    try:
        ours = certificates(authority.read_bytes())
        return bool(ours) and ours <= certificates(file.read_bytes())
    except OSError:
        return None


def replace_file(path: Path, text: bytes, *, mode: int = 0o644) -> None:
    """Write a file in one step: whoever reads it meanwhile sees the old one or the new one. Raises OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
