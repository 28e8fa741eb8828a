"""The files and folders that people write: those named by options, else the standard ones. For proxy and commands alike.

What is heavy is imported when it is used, because `omniroute --help` must not wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omniroute_addon.clients.book import ClientBook
    from omniroute_addon.packs import Packs
    from omniroute_addon.plugin_host import PluginHost
    from omniroute_addon.reload import Loaded, Sources
    from omniroute_addon.settings import Settings
    from omniroute_addon.verdicts import RuleBook


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """As the proxy would find them with the mitmproxy options of the same names."""

    config: Path | None = None
    """None: the standard file, which need not exist."""
    rules: Path | None = None
    plugins: Path | None = None
    state: Path | None = None

    @property
    def config_path(self) -> Path:
        from omniroute_addon import places

        return self.config or places.default_config_path()

    @property
    def rules_folder(self) -> Path:
        from omniroute_addon import places

        return self.rules or places.default_rules_dir()

    @property
    def plugins_folder(self) -> Path:
        from omniroute_addon import places

        return self.plugins or places.default_plugins_dir()

    @property
    def state_path(self) -> Path:
        """The file of what the proxy remembers."""
        from omniroute_addon import places

        return places.state_file(self.state)

    def sources(self) -> Sources:
        """Reads them, and notices changes."""
        from omniroute_addon.pack_files import pack_folders
        from omniroute_addon.reload import Sources

        return Sources(config=self.config_path, folders=pack_folders(self.rules), required=self.config is not None)

    def load(self) -> Loaded:
        """Everything that people write, and every problem in it. Never raises for what they wrote."""
        return self.sources().load()

    def packs(self) -> Packs:
        """The packs. Raises InputError when one of them cannot be used."""
        from omniroute_addon.errors import InputError
        from omniroute_addon.pack_files import pack_folders
        from omniroute_addon.packs import load_packs

        packs, problems = load_packs(pack_folders(self.rules))
        if problems:
            raise InputError(problems)
        return packs

    def clients(self) -> ClientBook:
        """The client profiles, without what cannot be used."""
        from omniroute_addon.clients.merge import build_clients
        from omniroute_addon.clients.profile_files import client_folder, read_profile_file
        from omniroute_addon.pack_files import pack_folders

        folders = [client_folder(folder) for folder in pack_folders(self.rules)]
        read = [[read_profile_file(folder, path)[0] for path in folder.files()] for folder in folders]
        return build_clients([[source for source in layer if source] for layer in read])[0]

    @staticmethod
    def rule_book(loaded: Loaded) -> RuleBook:
        """The rules that follow from what was loaded, and what is wrong with them."""
        from omniroute_addon.verdicts import RuleBook

        return RuleBook.build(
            loaded.packs.rules,
            categories={provider.id: provider.category for provider in loaded.packs.providers.values()},
            operator=loaded.config.operator_rules,
        )

    def plugin_host(self, settings: Settings) -> PluginHost:
        """All plugins, loaded as the proxy loads them."""
        from omniroute_addon.plugin_host import PluginHost
        from omniroute_addon.plugins import FOLDER

        host = PluginHost(disabled=settings.plugins.disabled, max_faults=settings.plugins.max_faults)
        host.load(bundled=FOLDER, user=self.plugins_folder)
        return host
