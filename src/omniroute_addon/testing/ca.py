"""A certificate authority for the fakes: any upstream host name, valid for the proxy that trusts `pem_file`."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

try:
    import trustme
except ImportError as error:
    raise ImportError("the fakes need trustme. Install it: pip install 'omniroute-addon[testing]'") from error

PROVIDER_HOSTS = (
    "api.openai.com",
    "api.anthropic.com",
    "generativelanguage.googleapis.com",
    "openrouter.ai",
    "api.groq.com",
    "api.deepseek.com",
    "api.mistral.ai",
    "chatgpt.com",
)
"""Real names that fakes answer to unless the test names others."""


class TestCA:
    """One authority; certificates are made when a name is first asked for."""

    __test__ = False  # for pytest: not a test class

    def __init__(self, folder: Path | None = None) -> None:
        self._ca = trustme.CA()
        self._contexts: dict[tuple[tuple[str, ...], tuple[str, ...]], ssl.SSLContext] = {}
        self.pem_file = (folder or Path(mkdtemp(prefix="omniroute-test-ca-"))) / "upstream-ca.pem"
        self._ca.cert_pem.write_to_path(str(self.pem_file))

    def server_context(self, *names: str, alpn: tuple[str, ...]) -> ssl.SSLContext:
        """TLS for a server that is called `names` (or any of `PROVIDER_HOSTS`) and 127.0.0.1."""
        names = names or PROVIDER_HOSTS
        if (names, alpn) not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._ca.issue_cert(*names, "127.0.0.1", "localhost").configure_cert(context)
            context.set_alpn_protocols(list(alpn))
            self._contexts[names, alpn] = context
        return self._contexts[names, alpn]

    def client_context(self) -> ssl.SSLContext:
        """TLS for a client that talks to the fakes directly, without a proxy between."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        return context


@cache
def shared_ca() -> TestCA:
    """The one authority of this process: making keys takes longer than most tests."""
    return TestCA()
