"""How a proxy that we start gets out itself: as the user's programs did before. Looks at the disk, and who listens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from omniroute_addon.peers import is_loopback

from .bundle import is_ours
from .found import listens


def outer_proxy(environ: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Options that lead through the proxy that `HTTPS_PROXY` named before us; none when the user chose a mode.

    SOCKS is left out: mitmproxy cannot go out through it.
    """
    if any(word in ("-m", "--mode") or word.startswith(("--mode=", "mode=", "--set=mode=")) for word in options):
        return []
    named = _named(environ)
    if named is None:
        return []
    url, port = named
    name = url.hostname or ""
    host = f"[{name}]" if ":" in name else name
    found = ["--mode", f"upstream:{url.scheme}://{host}:{port}"]
    if url.username is not None:
        found += ["--set", f"upstream_auth={unquote(url.username)}:{unquote(url.password or '')}"]
    return found


def deserted(environ: Mapping[str, str]) -> str | None:
    """Where `HTTPS_PROXY` leads on this machine, if nobody listens there: a proxy that has ended, hardly ever one to come."""
    named = _named(environ)
    if named is None or not is_loopback(named[0].hostname or "") or listens(named[0].hostname or "", named[1]):
        return None
    return f"{named[0].hostname}:{named[1]}"


def without_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the proxy that it names."""
    return {name: value for name, value in environ.items() if name.lower() != "https_proxy"}


def _named(environ: Mapping[str, str]) -> tuple[SplitResult, int] | None:
    try:
        url = urlsplit(environ.get("https_proxy") or environ.get("HTTPS_PROXY") or "")
        port = url.port or (443 if url.scheme == "https" else 80)
    except ValueError:
        return None
    return (url, port) if url.scheme in ("http", "https") and url.hostname else None


def outer_authorities(environ: Mapping[str, str], confdir: Path, options: Sequence[str]) -> list[str]:
    """Options that trust whom `SSL_CERT_FILE` names: behind a company's inspecting proxy nothing else would do."""
    name = environ.get("SSL_CERT_FILE", "")
    said = any("ssl_verify_upstream_trusted_ca=" in word or "ssl_insecure" in word for word in options)
    if not name or said or is_ours(Path(name), confdir) or not Path(name).is_file():
        return []
    return ["--set", f"ssl_verify_upstream_trusted_ca={name}"]
