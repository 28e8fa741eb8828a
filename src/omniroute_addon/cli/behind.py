"""What `exec`, `env` and `doctor` share: the proxy that is meant, and the environment that leads to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from omniroute_addon import places
from omniroute_addon.bringup import found, launch
from omniroute_addon.bringup.bundle import write_bundle
from omniroute_addon.bringup.node import Node, needs_preload, parse_version
from omniroute_addon.bringup.programs import Programs, agent_name
from omniroute_addon.bringup.variables import Behind, node_options, variables
from omniroute_addon.files import Files

from .path import SCRIPT
from .trust import own_authority

TOKEN = "OMNIROUTE_AGENT_TOKEN"
"""Holds the token of an agent, where the operator demands one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """A proxy that runs for one command."""

    process: launch.OwnProxy
    confdir: Path

    @property
    def port(self) -> int:
        return self.process.port

    @property
    def log(self) -> Path:
        return self.process.log

    def stop(self) -> None:
        self.process.stop()


def find_running(environ: Mapping[str, str], port: int | None = None) -> found.Running | None:
    """The proxy that runs already: on this port, else that of an `omniroute exec` around us, else one for everybody."""
    from .control import running_proxies

    inside = found.marked(environ)
    if inside is not None and port in (None, inside.port):
        return inside
    running = found.choose((proxy.about for proxy in running_proxies(places.state_file().parent)), port)
    if running is None and port is not None and found.listens(found.LOOPBACK, port):
        # One that cannot be asked (omniroute_control=off, or another state file); the person knows better.
        return found.Running(host=found.LOOPBACK, port=port, confdir=found.default_confdir())
    return running


def start_own(files: Files, options: Sequence[str], environ: Mapping[str, str]) -> Own:
    """Start one for one command. Raises NotStarted, OSError."""
    for option in options:
        if "=" not in option:
            raise click.BadParameter(f"'{option}' has no '='. Write --set NAME=VALUE.", param_hint="--set")
    said = dict(option.partition("=")[::2] for option in options)
    confdir = Path(said.get("confdir", found.default_confdir())).expanduser()
    own_authority(confdir)  # before mitmproxy writes it: we need it to tell the command whom to trust
    named = {"config": files.config, "rules": files.rules, "plugins": files.plugins}
    # A flow's line would put whole addresses into a file that stays, and Gemini's may hold a key.
    wanted = {"listen_host": found.LOOPBACK, "listen_port": "0", "flow_detail": "0", "confdir": str(confdir)}
    wanted |= {f"omniroute_{name}": str(path.absolute()) for name, path in named.items() if path is not None}
    words = [word for name, value in (wanted | said).items() for word in ("--set", f"{name}={value}")]
    process = launch.start(["-s", str(SCRIPT), *words], logs=places.default_state_dir() / "logs", environ=environ)
    return Own(process=process, confdir=confdir)


def behind(running: found.Running, agent: str, environ: Mapping[str, str]) -> Behind:
    """The proxy as a client of this name sees it. Raises OSError when the certificates cannot be written."""
    authority = own_authority(running.confdir)
    return Behind(
        host=running.host,
        port=running.port,
        bundle=write_bundle(running.confdir, authority, environ),
        authority=authority,
        agent=agent,
        token=environ.get(TOKEN, ""),
    )


def command_environment(
    running: found.Running, files: Files, command: Sequence[str], agent: str | None, environ: Mapping[str, str]
) -> tuple[str, dict[str, str]]:
    """What the agent is called, and the whole environment of its command. Raises OSError."""
    program = known_programs(files).recognise(command)
    name = agent_name(command, program) if agent is None else agent
    found = {**environ, **proxy_variables(behind(running, name, environ), environ)}
    if program is None or not (program.start and program.start.minds_proxy):
        node = installed_node(environ)
        if node is not None and needs_preload(node):
            found["NODE_OPTIONS"] = node_options(environ.get("NODE_OPTIONS", ""))
    return name, found


def known_programs(files: Files) -> Programs:
    """The bundled client profiles and the user's; what is wrong with them is told by `check` and `doctor`."""
    return Programs(files.clients().profiles.values())


def proxy_variables(client: Behind, environ: Mapping[str, str]) -> dict[str, str]:
    """What must be set. The packs are read only where an exception list could lead around the proxy."""
    excepted = environ.get("NO_PROXY") or environ.get("no_proxy")
    return variables(client, environ, managed_hosts() if excepted else ())


def managed_hosts() -> tuple[str, ...]:
    """All hosts of the bundled and the user's packs; what cannot be read is told by others."""
    from omniroute_addon.pack_files import pack_folders
    from omniroute_addon.packs import load_packs

    packs, _ = load_packs(pack_folders(None))
    hosts = dict.fromkeys(host for provider in packs.providers.values() for host in provider.hosts)
    return tuple(host for host in hosts if not host.startswith(("localhost", "127.", "[")))


def installed_node(environ: Mapping[str, str]) -> Node | None:
    """The Node on the PATH; None when there is none, or it does not answer."""
    file = shutil.which("node", path=environ.get("PATH", os.defpath))
    if file is None:
        return None
    clean = {name: value for name, value in environ.items() if name != "NODE_OPTIONS"}
    try:
        done = subprocess.run([file, "--version"], capture_output=True, text=True, timeout=10, check=False, env=clean)
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(done.stdout)
