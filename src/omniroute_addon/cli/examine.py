"""What `omniroute doctor` looks at, a function for each thing. Each tells what it saw and, where needed, what to do."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from omniroute_addon.bringup import found, launch, self_test
from omniroute_addon.bringup.bundle import bundle_path, certificates, content, find_sources
from omniroute_addon.bringup.findings import Finding, broken, hint, ok
from omniroute_addon.bringup.node import minds_proxies, needs_preload
from omniroute_addon.bringup.port_owner import owner_of
from omniroute_addon.bringup.trust_check import Surroundings, trust
from omniroute_addon.files import Files
from omniroute_addon.model import ClientProfile, ClientStart
from omniroute_addon.peers import is_loopback

from .behind import find_running, installed_node, known_programs
from .path import SCRIPT
from .trust import authority_path, own_authority
from .words import counted

LOWEST_PYTHON = (3, 12)


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < LOWEST_PYTHON:
        yield broken("Python", version, "Install Python 3.12 or newer, and omniroute-addon with it.")
    else:
        yield ok("Python", f"{version} ({sys.executable})")


def mitmproxy() -> Iterator[Finding]:
    version = metadata.version("mitmproxy")
    from omniroute_addon.stream.install import SUPPORTED, missing

    if problems := missing():
        todo = f"Install a mitmproxy {SUPPORTED}: pip install 'mitmproxy{SUPPORTED.replace(' ', '')}'"
        yield broken("mitmproxy", f"{version} does not fit: {'; '.join(problems)}", todo)
    else:
        yield ok("mitmproxy", version)


def proxy(environ: Mapping[str, str], port: int) -> Iterator[Finding]:
    """Does one run, is its port free if not, and does this terminal lead there?"""
    running = find_running(environ)
    if running is not None:
        yield ok("proxy", f"runs at {running.host}:{running.port}")
    elif found.listens(found.LOOPBACK, port):
        who = owner_of(port) or "another program"
        todo = f"Stop that program, or start the proxy elsewhere: omniroute run -p {port + 1}"
        yield hint("port", f"{port} is used by {who}", f"{todo}. `omniroute exec` takes a free port by itself.")
    else:
        yield ok("port", f"{port} is free; no proxy runs yet")
    yield from _leads_there(environ, running)


def _leads_there(environ: Mapping[str, str], running: found.Running | None) -> Iterator[Finding]:
    name = "https_proxy" if environ.get("https_proxy") else "HTTPS_PROXY"
    value = environ.get(name, "")
    if not value:
        todo = 'Start programs with: omniroute exec -- COMMAND, or set the variables: eval "$(omniroute env)"'
        yield hint("HTTPS_PROXY", "is not set in this terminal", todo)
        return
    where = proxy_address(value)
    if where is None:
        yield broken(name, "names no http://HOST:PORT", 'Set it: eval "$(omniroute env)"')
    elif running is not None and where == (running.host, running.port):
        yield ok(name, "leads to the running proxy")
    elif not found.listens(*where):
        todo = 'Start the proxy (omniroute run) and set it again: eval "$(omniroute env)"'
        yield broken(name, f"leads to {where[0]}:{where[1]}, where nobody listens", todo)
    elif running is not None:
        todo = 'Set it again: eval "$(omniroute env)"'
        yield broken(name, f"leads to {where[0]}:{where[1]}, not to the running proxy", todo)
    else:
        yield hint(name, f"leads to {where[0]}:{where[1]}", "`omniroute exec` goes out through that proxy.")


def proxy_address(value: str) -> tuple[str, int] | None:
    """Host and port of a proxy variable; None when it is none that we could be."""
    try:
        url = urlsplit(value if "//" in value else f"http://{value}")
        return (url.hostname, url.port or 80) if url.scheme == "http" and url.hostname else None
    except ValueError:
        return None


def is_behind(environ: Mapping[str, str]) -> bool:
    """What starts from this terminal goes to a proxy on this machine that listens."""
    where = proxy_address(environ.get("https_proxy") or environ.get("HTTPS_PROXY") or "")
    return where is not None and is_loopback(where[0]) and found.listens(*where)


def certificate(environ: Mapping[str, str], confdir: Path) -> Iterator[Finding]:
    """The proxy's authority, and the bundle that holds it."""
    authority = authority_path(confdir)
    if not authority.exists():
        yield hint("certificate", f"{authority} is not there yet", "The first start of a proxy makes it.")
        return
    try:
        if not certificates(authority.read_bytes()):
            todo = f"Remove {confdir / 'mitmproxy-ca.pem'} and this file; the next start makes new ones."
            yield broken("certificate", f"{authority} holds no certificate", todo)
            return
        yield ok("certificate", str(authority))
        sources = find_sources(environ, confdir)
        bundle = bundle_path(confdir, sources)
        if not bundle.exists():
            yield hint("bundle", f"{bundle} is not there yet", "`omniroute run`, `exec` and `env` make it.")
        elif bundle.read_bytes() != content(sources, authority):
            yield hint("bundle", f"{bundle} is out of date", "`omniroute run`, `exec` and `env` make it anew.")
        else:
            yield ok("bundle", f"{bundle}, {counted(len(certificates(bundle.read_bytes())), 'authority')}")
    except OSError as error:
        yield broken("certificate", f"{error.filename}: {error.strerror}", "Give this user the right to read it.")


def programs(files: Files, environ: Mapping[str, str], confdir: Path, folder: Path) -> Iterator[Finding]:
    """Every known program that is installed: will it trust the proxy, started from here?"""
    authority = authority_path(confdir)
    if not authority.exists():
        return
    around = Surroundings(
        environ=environ,
        authority=authority,
        bundle=bundle_path(confdir, find_sources(environ, confdir)),
        is_behind=is_behind(environ),
        home=Path.home(),
        folder=folder,
    )
    for program in known_programs(files).all:
        if _is_installed(program, environ):
            yield trust(program, around)


def _is_installed(program: ClientProfile, environ: Mapping[str, str]) -> bool:
    path = environ.get("PATH", os.defpath)
    return any(shutil.which(name, path=path) for name in (program.start or ClientStart()).commands[:2])


def node(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Node's own `fetch` looks at no proxy before 24."""
    version = installed_node(environ)
    if version is None:
        return
    if minds_proxies(version):
        if environ.get("NODE_USE_ENV_PROXY") == "1" or not is_behind(environ):
            yield ok("Node", f"{version} looks at HTTPS_PROXY with NODE_USE_ENV_PROXY=1")
        else:
            yield broken(
                "Node", f"{version} ignores HTTPS_PROXY: NODE_USE_ENV_PROXY is not 1", "export NODE_USE_ENV_PROXY=1"
            )
        return
    text = f"{version} ignores HTTPS_PROXY, so scripts with an SDK go around the proxy"
    if "node_proxy.cjs" in environ.get("NODE_OPTIONS", ""):
        yield ok("Node", f"{version} is taught HTTPS_PROXY by NODE_OPTIONS")
    elif needs_preload(version):
        yield hint("Node", text, "Start them with: omniroute exec -- node SCRIPT (it teaches `fetch`), or use Node 24.")
    else:
        yield hint("Node", text, "Use Node 24 with NODE_USE_ENV_PROXY=1.")


def written(files: Files) -> Iterator[Finding]:
    """Configuration, packs and plugins, and whether every key is where it should be."""
    loaded = files.load()
    book = files.rule_book(loaded)
    plugins = files.plugin_host(loaded.config.settings).plugins()
    wrong = [
        *loaded.problems,
        *book.problems,
        *(f"plugin {p.name}: {p.detail}" for p in plugins if p.state == "broken"),
    ]
    config = loaded.config
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        yield broken("configuration", f"{wrong[0].partition(chr(10))[0]}{more}", "omniroute check tells all of it.")
    elif not files.config_path.exists():
        todo = "omniroute init writes one from the keys in the environment."
        yield hint(
            "configuration", f"{files.config_path} is not there: the agent's own key is the only connection", todo
        )
    else:
        yield ok("configuration", f"{counted(len(config.connections), 'connection')} ({files.config_path})")
    for warning in loaded.warnings:
        if " is left out: " in warning:
            yield broken("key", warning, "Put the key where the configuration says it is.")
        else:
            yield hint("configuration", warning)
    if not wrong and config.connections and not any(" is left out: " in w for w in loaded.warnings):
        yield ok("keys", f"all {counted(sum(c.secret is not None for c in config.connections), 'key')} found")
    if not wrong:
        yield ok("packs", f"{counted(len(loaded.packs.providers), 'provider')}, {counted(len(book.rules), 'rule')}")


def state(folder: Path) -> Iterator[Finding]:
    """The file in which timers survive a restart."""
    from omniroute_addon.store.checkup import trouble_of
    from omniroute_addon.store.state_file import files_set_aside

    file = folder / "state.db"
    if trouble := trouble_of(file):
        yield broken("state", trouble, "Mend that, or remove the file: timers then start anew.")
    elif not file.exists():
        yield ok("state", f"{file} is not there yet")
    else:
        yield ok("state", str(file))
    if aside := files_set_aside(file):
        yield hint("state", f"{aside[-1]} was damaged and set aside", "Remove it when you do not need it.")


def end_to_end(confdir: Path) -> Iterator[Finding]:
    """A request through a proxy of our own, to a fake provider."""
    import http.client
    from tempfile import TemporaryDirectory

    from omniroute_addon.bringup.bundle import write_bundle

    what = "self-test"
    with TemporaryDirectory(prefix="omniroute-doctor-") as name, self_test.fake_provider() as url:
        folder = Path(name)
        (folder / "omniroute.yaml").write_text(self_test.config(url), encoding="utf-8")
        settings = {
            "listen_host": found.LOOPBACK,
            "listen_port": "0",
            "flow_detail": "0",
            "confdir": str(confdir),
            "mode": "regular",
            "omniroute_config": str(folder / "omniroute.yaml"),
            "omniroute_rules": str(folder),
            "omniroute_plugins": str(folder),
            "omniroute_state": str(folder / "state"),
        }
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        environ = {**os.environ, **{key: f"sk-{key}" for key in self_test.KEYS}}
        try:
            bundle = write_bundle(confdir, own_authority(confdir), {})
            own = launch.start(["-s", str(SCRIPT), *words], logs=folder / "logs", environ=environ)
        except (launch.NotStarted, OSError) as error:
            yield broken(what, str(error), "Mend what the log says.")
            return
        try:
            self_test.ask(own.port, bundle)
        except (OSError, http.client.HTTPException, ValueError) as error:
            log = own.log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
            yield broken(
                what, f"a request through a new proxy failed: {error}. The proxy's last line: {log}", "Tell us."
            )
        else:
            yield ok(what, "a request through a new proxy, limited on its first connection, came back by its second")
        finally:
            own.stop()
