"""How a proxy that we start gets out itself: as the user's programs did before. Pure but for a look at the disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .bundle import is_ours


def outer_proxy(environ: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Options that lead through the proxy that `HTTPS_PROXY` named before us; none when the user chose a mode.

    SOCKS is left out: mitmproxy cannot go out through it.
    """
    if any(word in ("-m", "--mode") or word.startswith(("--mode=", "mode=", "--set=mode=")) for word in options):
        return []
    try:
        url = urlsplit(environ.get("https_proxy") or environ.get("HTTPS_PROXY") or "")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return []
    if url.scheme not in ("http", "https") or not url.hostname:
        return []
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    found = ["--mode", f"upstream:{url.scheme}://{host}:{port}"]
    if url.username is not None:
        found += ["--set", f"upstream_auth={unquote(url.username)}:{unquote(url.password or '')}"]
    return found


def outer_authorities(environ: Mapping[str, str], confdir: Path, options: Sequence[str]) -> list[str]:
    """Options that trust whom `SSL_CERT_FILE` names: behind a company's inspecting proxy nothing else would do."""
    name = environ.get("SSL_CERT_FILE", "")
    said = any("ssl_verify_upstream_trusted_ca=" in word or "ssl_insecure" in word for word in options)
    if not name or said or is_ours(Path(name), confdir) or not Path(name).is_file():
        return []
    return ["--set", f"ssl_verify_upstream_trusted_ca={name}"]
