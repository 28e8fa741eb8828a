"""The files behind a running proxy: loads them, notices changes, and keeps the last good version of a file that breaks.

`Sources` starts no thread and reads no clock. The addon calls `poll()` in a worker thread every second: a hundred
`stat` calls when nothing changed, one reading of the changed files when something did.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .clients.book import ClientBook
from .clients.merge import build_clients
from .clients.profile_files import ProfileSource, client_folder, read_profile_file
from .config import Config, ConfigReading, config_without_file, read_config
from .pack_files import SUFFIXES, PackFolder, PackSource, read_pack_file
from .packs import Packs, build_packs
from .secrets import Vault

type Stamp = tuple[int, int, int] | None
"""(mtime_ns, size, inode) of a file; None when it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One consistent state of all files."""

    packs: Packs
    config: Config
    clients: ClientBook = field(default_factory=ClientBook)
    problems: tuple[str, ...] = ()
    """What is wrong, one text each. Everything else is in force."""
    refused: bool = False
    """The configuration file cannot be used, and no earlier version of it is in force: what it asks for is not done."""
    warnings: tuple[str, ...] = ()
    """What works but should be looked at."""


@dataclass(slots=True)
class _Kept[Source]:
    """A file as it was last read."""

    stamp: Stamp
    good: Source | None = None
    problems: list[str] = field(default_factory=list)


class _Layers[Source]:
    """The files of one sort, folder by folder, each read again only when it changed."""

    def __init__(
        self,
        folders: Sequence[PackFolder],
        read: Callable[[PackFolder, Path], tuple[Source | None, list[str]]],
    ) -> None:
        self.folders = tuple(folders)
        self._read = read
        self._kept: dict[str, _Kept[Source]] = {}

    def load(self, stamps: Mapping[str, Stamp]) -> tuple[list[list[Source]], list[str]]:
        """What is in force of each folder, and what is wrong."""
        layers: list[list[Source]] = []
        problems: list[str] = []
        for folder in self.folders:
            kept = [self._one(folder, path, stamps.get(_key(folder, path.name))) for path in _files(folder)]
            layers.append([entry.good for entry in kept if entry.good is not None])
            problems += [text for entry in kept for text in entry.problems]
        for gone in self._kept.keys() - stamps.keys():
            del self._kept[gone]
        return layers, problems

    def _one(self, folder: PackFolder, path: Path, stamp: Stamp) -> _Kept[Source]:
        key = _key(folder, path.name)
        kept = self._kept.get(key)
        if kept is not None and stamp is not None and kept.stamp == stamp:
            return kept
        good, problems = self._read(folder, path)
        if good is None and kept is not None and kept.good is not None:
            good = kept.good
            problems.append(f"{folder.shown(path)}: the version of before the edit stays in force.")
        self._kept[key] = _Kept(stamp, good, problems)
        return self._kept[key]


class Sources:
    """Configuration file, pack folders (bundled first) and environment of one proxy. Use from one thread at a time."""

    def __init__(
        self,
        *,
        config: Path | None,
        folders: Sequence[PackFolder],
        environ: Mapping[str, str] | None = None,
        required: bool = False,
    ) -> None:
        """`required`: a configuration file that is not there is a problem, because somebody named it."""
        self._config_path = config
        self._packs: _Layers[PackSource] = _Layers(folders, read_pack_file)
        self._clients: _Layers[ProfileSource] = _Layers([client_folder(f) for f in folders], read_profile_file)
        self._required = required
        self._vault = Vault(
            environ=os.environ if environ is None else environ, folder=config.parent if config else Path()
        )
        self._config: Config | None = None
        self._key_files: tuple[Path, ...] = ()
        self._snapshot: Mapping[str, Stamp] | None = None

    def __repr__(self) -> str:
        return (
            f"<Sources config={self._config_path} folders={len(self._packs.folders)} files={len(self._snapshot or ())}>"
        )

    def poll(self) -> Loaded | None:
        """A new state when any file changed since the last `load`, else None."""
        return self.load() if self.changed() else None

    def changed(self) -> bool:
        """Some file was added, removed or written since the last `load`."""
        return self._snapshot != self._stamps()

    def load(self) -> Loaded:
        """Read what changed and put everything together. Never raises for what people wrote."""
        # Taken before reading: an edit while we read shows up as a change the next time.
        stamps = self._stamps()
        layers, problems = self._packs.load(stamps)
        packs, found = build_packs(layers)
        profiles, unread = self._clients.load(stamps)
        clients, unfit = build_clients(profiles)
        problems += [*found, *unread, *unfit]
        reading = self._load_config(packs)
        problems += reading.problems
        if reading.config is None and self._config is not None:
            problems.append(f"{self._config_path}: the configuration of before the edit stays in force.")
        self._config = reading.config or self._config
        if reading.config is not None:
            self._key_files = reading.files
        # Key files are known only now; the ones that were read before are in `stamps` already.
        self._snapshot = {**{str(path): _stamp(path) for path in self._key_files}, **stamps}
        return Loaded(
            packs=packs,
            clients=clients,
            config=self._config or config_without_file(self._vault.environ).config or Config(),
            problems=tuple(problems),
            refused=self._config is None,
            warnings=reading.warnings,
        )

    def _stamps(self) -> dict[str, Stamp]:
        """Every file as it is now. Taken every second, so by one look into each folder, and without a `Path` a file."""
        stamps: dict[str, Stamp] = {}
        for folder in (*self._packs.folders, *self._clients.folders):
            stamps |= _look(folder)
        paths = self._key_files if self._config_path is None else (self._config_path, *self._key_files)
        return stamps | {str(path): _stamp(path) for path in paths}

    def _load_config(self, packs: Packs) -> ConfigReading:
        path = self._config_path
        if path is None:
            return config_without_file(self._vault.environ)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            if not self._required:
                return config_without_file(self._vault.environ)
            text = f"{path}:1:1: the file does not exist. Create it, or correct the option `omniroute_config`."
            return ConfigReading(config=None, problems=(text,))
        except OSError as error:
            text = f"{path}:1:1: the file cannot be read ({error.strerror}). Check its permissions."
            return ConfigReading(config=None, problems=(text,))
        return read_config(raw, file=str(path), packs=packs, vault=self._vault)


def _files(folder: PackFolder) -> Sequence[Path]:
    try:
        return list(folder.files())
    except OSError:  # the folder went away, or may not be listed, between two looks
        return ()


def _key(folder: PackFolder, name: str) -> str:
    return f"{folder.path}/{name}"


def _is_meant(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _look(folder: PackFolder) -> dict[str, Stamp]:
    try:
        with os.scandir(folder.path) as entries:
            return {_key(folder, e.name): _stamp(e) for e in entries if _is_meant(e.name)}
    except OSError:  # it is not there, or may not be listed
        return {}


def _stamp(path: Path | os.DirEntry[str]) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
