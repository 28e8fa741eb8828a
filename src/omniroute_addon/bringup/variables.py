"""The variables that bring any program behind a proxy, from where the proxy is and what the environment holds already.

One set serves all programs; each was measured on its own (`programs.py`). Upper case suffices for all of them, but where
`https_proxy` is set as well it wins, so it is set too. `HTTP_PROXY` is left alone: providers speak TLS, and a program's
own services on plain http must not take the way round. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from .programs import CODEX_CA, CURL_CA, NODE_CA, OPENSSL_CA, REQUESTS_CA

LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
"""A program's own services on this machine are no business of a proxy."""
ANY_TOKEN = "x"
"""The password when the operator demands none: some clients send the name only together with one."""
PRELOAD = Path(__file__).with_name("node_proxy.cjs")
"""What makes `fetch` of an older Node look at `HTTPS_PROXY`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """A proxy as a client sees it."""

    host: str
    port: int
    bundle: Path
    """All authorities that a client behind it needs."""
    authority: Path
    """The proxy's own alone, for clients that add to theirs."""
    agent: str = ""
    """Names the agent; empty: none is named."""
    token: str = ""

    @property
    def url(self) -> str:
        """For `HTTPS_PROXY`."""
        login = f"{quote(self.agent, safe='')}:{quote(self.token or ANY_TOKEN, safe='')}@" if self.agent else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{login}{host}:{self.port}"


def variables(behind: Behind, environ: Mapping[str, str], managed: Iterable[str] = ()) -> dict[str, str]:
    """Name -> value to set. `managed`: hosts that must go through the proxy whatever `NO_PROXY` says now.

    A Node program that has authorities of its own named (`NODE_EXTRA_CA_CERTS`) keeps them: they are in the bundle.
    """
    bundle = str(behind.bundle)
    extra = environ.get(NODE_CA, "")
    keeps_own = bool(extra) and Path(extra) not in (behind.authority, behind.bundle)
    found = {
        "HTTPS_PROXY": behind.url,
        OPENSSL_CA: bundle,
        NODE_CA: bundle if keeps_own else str(behind.authority),
        CODEX_CA: bundle,
        CURL_CA: bundle,
        REQUESTS_CA: bundle,
        "NODE_USE_ENV_PROXY": "1",
    }
    if "https_proxy" in environ:
        found["https_proxy"] = behind.url
    for name in ("NO_PROXY", "no_proxy"):
        if environ.get(name):
            found[name] = no_proxy(environ[name], managed)
    return found


def no_proxy(present: str, managed: Iterable[str] = ()) -> str:
    """An exception list without what would lead around the proxy: `*`, and entries that cover a managed host."""
    hosts = [host.lower().removeprefix("*.").partition(":")[0] for host in managed]
    kept: list[str] = []
    for entry in present.replace(" ", ",").split(","):
        name = entry.strip().lower().removeprefix("*").removeprefix(".").partition(":")[0]
        around = entry.strip() == "*" or any(host == name or host.endswith(f".{name}") for host in hosts if name)
        if entry.strip() and (entry.strip() in LOCAL_NAMES or not around):
            kept.append(entry.strip())
    return ",".join(dict.fromkeys((*kept, *LOCAL_NAMES)))


def node_options(present: str, preload: Path = PRELOAD) -> str:
    """`NODE_OPTIONS` with our preload, once. Node takes paths with spaces in quotes, with backslashes doubled."""
    text = str(preload)
    if text in present or text.replace("\\", "\\\\") in present:
        return present
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    ours = f'--require "{escaped}"' if any(c in text for c in ' "\\') else f"--require {text}"
    return f"{present} {ours}".strip()
