"""Loads plugins and asks them: the one door through which every mechanism enters, bundled or not.

Bundled plugins, a user's folder and entry points are loaded the same way and differ only in their place in line. Asking
goes through `first` and `each`, which keep one plugin's fault from becoming the request's.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pluggy

from . import hookspecs
from .plugin_answers import checked, checked_headers

log = logging.getLogger(__name__)

Origin = Literal["bundled", "entry point", "user"]
State = Literal["on", "off", "quarantined", "broken"]
HOOKS = tuple(name for name, value in vars(hookspecs).items() if hasattr(value, f"{hookspecs.PROJECT}_spec"))


@dataclass(slots=True, kw_only=True)
class PluginInfo:
    """What `omniroute plugins` shows of one plugin."""

    name: str
    origin: Origin
    version: str
    hooks: tuple[str, ...]
    """Hooks it implements, in the order of a request's life."""
    state: State
    detail: str = ""
    """Why it is not on."""
    faults: int = field(default=0, repr=False)
    """Faults in a row; a good answer sets it to 0."""


@dataclass(frozen=True, slots=True)
class _Voice:
    """One plugin's implementation of one hook, ready to be called."""

    plugin: PluginInfo
    function: Any
    arguments: tuple[str, ...]

    def ask(self, arguments: dict[str, Any]) -> Any:
        return self.function(*[arguments[name] for name in self.arguments])


class PluginHost:
    """All plugins of one proxy.

    `disabled` are names that are listed but never asked. `max_faults` faults in a row quarantine a plugin.
    """

    def __init__(self, *, disabled: Iterable[str] = (), max_faults: int = 10) -> None:
        self._disabled = frozenset(disabled)
        self._max_faults = max_faults
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._infos: dict[str, PluginInfo] = {}
        self._voices: dict[str, tuple[_Voice, ...]] = {}

    def __repr__(self) -> str:
        return f"<PluginHost {' '.join(f'{i.name}={i.state}' for i in self._infos.values())}>"

    # ------------------------------------------------------------ loading

    def load(self, *, bundled: Path, user: Path | None, entry_points: bool = True) -> None:
        """Load everything. pluggy asks the last one registered first, so the user's own come last here.

        A user's file with a bundled plugin's name replaces it.
        """
        own = {path.stem: path for path in _plugin_files(user)}
        for path in _plugin_files(bundled):
            if path.stem not in own:
                self._load_file(path, "bundled")
        if entry_points:
            for entry in importlib.metadata.entry_points(group=hookspecs.PROJECT):
                self._load_entry_point(entry)
        for path in own.values():
            self._load_file(path, "user")

    def _load_file(self, path: Path, origin: Origin) -> None:
        name = f"omniroute_addon.plugins.{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader, path
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # noqa: BLE001 - anybody's code; told with its name, the proxy goes on without it
            sys.modules.pop(name, None)
            self._broken(path.stem, origin, f"{path}: {type(error).__name__}: {error}")
        else:
            self.register(module, name=path.stem, origin=origin)

    def _load_entry_point(self, entry: importlib.metadata.EntryPoint) -> None:
        try:
            plugin = entry.load()
        except Exception as error:  # noqa: BLE001 - anybody's code; told with its name, the proxy goes on without it
            self._broken(entry.name, "entry point", f"{entry.value}: {type(error).__name__}: {error}")
        else:
            self.register(plugin, name=entry.name, origin="entry point")

    def register(self, plugin: ModuleType | object, *, name: str, origin: Origin = "user") -> None:
        """Add one plugin: a module, or the object that the module calls `plugin`."""
        version = str(getattr(plugin, "VERSION", "")) or ("0" if origin != "bundled" else hookspecs_version())
        voice = getattr(plugin, "plugin", plugin) if isinstance(plugin, ModuleType) else plugin
        if name in self._infos:
            self._broken(
                f"{name} ({origin})", origin, f"a plugin called '{name}' is loaded already; rename one of them"
            )
            return
        if name in self._disabled:
            self._infos[name] = PluginInfo(
                name=name, origin=origin, version=version, hooks=_hooks_of(voice), state="off", detail="switched off"
            )
            return
        try:
            self._pluggy.register(voice, name=name)
            self._pluggy.check_pending()
            for hook in HOOKS:
                for impl in getattr(self._pluggy.hook, hook).get_hookimpls():
                    if impl.plugin_name == name and (impl.wrapper or impl.hookwrapper):
                        raise ValueError(
                            f"hook '{hook}' is a wrapper, which is not supported; return an answer instead"
                        )
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._pluggy.has_plugin(name):
                self._pluggy.unregister(name=name)
            self._broken(name, origin, str(error))
            return
        self._infos[name] = PluginInfo(
            name=name, origin=origin, version=version, hooks=_hooks_of(voice), state="on", detail=""
        )
        self._voices.clear()

    def _broken(self, name: str, origin: Origin, detail: str) -> None:
        log.warning("plugin %s (%s) was not loaded: %s", name, origin, detail)
        self._infos[name] = PluginInfo(name=name, origin=origin, version="", hooks=(), state="broken", detail=detail)

    # ------------------------------------------------------------ asking

    def first(self, hook: str, /, **arguments: Any) -> Any:
        """The first answer that is not None, or None."""
        for voice in self._voices_of(hook):
            answer = self._ask(voice, hook, arguments)
            if answer is not None:
                return answer
        return None

    def each(self, hook: str, /, **arguments: Any) -> list[Any]:
        """All answers that are not None, in order."""
        return [a for v in self._voices_of(hook) if (a := self._ask(v, hook, arguments)) is not None]

    def listens(self, hook: str, /) -> bool:
        """Somebody implements the hook: callers skip preparing arguments when nobody does."""
        return bool(self._voices_of(hook))

    def _voices_of(self, hook: str) -> tuple[_Voice, ...]:
        voices = self._voices.get(hook)
        if voices is None:
            impls = reversed(getattr(self._pluggy.hook, hook).get_hookimpls())
            voices = tuple(_Voice(self._infos[i.plugin_name], i.function, tuple(i.argnames)) for i in impls)
            self._voices[hook] = voices
        return voices

    def _ask(self, voice: _Voice, hook: str, arguments: dict[str, Any]) -> Any:
        try:
            if hook == "prepare":
                self._prepare(voice, arguments)
                answer = None
            else:
                answer = voice.ask(arguments)
                if answer is not None and answer != ():  # the two most usual answers need no check
                    answer = checked(hook, answer)
        except Exception:  # a plugin's fault is not the request's (design.md §7.7)
            log.exception("plugin %s failed in %s; its answer is skipped", voice.plugin.name, hook)
            self.fault(voice.plugin.name)
            return None
        if voice.plugin.faults:
            voice.plugin.faults = 0
        return answer

    @staticmethod
    def _prepare(voice: _Voice, arguments: dict[str, Any]) -> None:
        """All of what a plugin did to the headers, or nothing of it."""
        headers: dict[str, str] = arguments["headers"]
        draft = dict(headers)
        voice.ask({**arguments, "headers": draft})
        done = checked_headers(draft)
        headers.clear()
        headers.update(done)

    def fault(self, name: str) -> None:
        """Count a fault; too many in a row and the plugin is asked no more."""
        info = self._infos[name]
        info.faults += 1
        if info.faults >= self._max_faults and info.state == "on":
            info.state, info.detail = "quarantined", f"{info.faults} faults in a row"
            self._pluggy.unregister(name=name)
            self._voices.clear()
            log.error("plugin %s is quarantined after %d faults in a row; restart to try it again", name, info.faults)

    # ------------------------------------------------------------ looking

    def plugins(self) -> list[PluginInfo]:
        """Every plugin that was found, in the order in which they are asked."""
        rank = {"user": 0, "entry point": 1, "bundled": 2}
        return sorted(self._infos.values(), key=lambda info: (rank[info.origin], info.name))


def hookspecs_version() -> str:
    """Bundled plugins are as old as the package."""
    from . import __version__

    return __version__


def _plugin_files(folder: Path | None) -> Iterator[Path]:
    if folder is None or not folder.is_dir():
        return
    yield from sorted(p for p in folder.glob("*.py") if not p.stem.startswith("_"))


def _hooks_of(plugin: object) -> tuple[str, ...]:
    marker = f"{hookspecs.PROJECT}_impl"
    return tuple(hook for hook in HOOKS if hasattr(getattr(plugin, hook, None), marker))
