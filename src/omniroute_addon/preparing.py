"""What goes on the wire for one target, and whether its answer is the provider's own. The stage prepare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from .exchange import Exchange
from .model import Target
from .plugin_host import PluginHost
from .wire import Bound, Outgoing, as_mapping, outgoing, repeats_an_answer, visible_headers

if TYPE_CHECKING:
    from .packs import Packs

_OURS = frozenset({"host", "content-length", "content-encoding", "transfer-encoding", "connection"})
"""Headers that follow from the target and the body; a plugin cannot set them."""


def prepared(ex: Exchange, target: Target, plugins: PluginHost) -> Outgoing:
    """The request for this target: its address, its credential, its name for the model, what plugins changed."""
    incoming = ex.incoming
    # Another provider need not know the client's coding (Codex sends zstd), so it gets the plain text.
    as_sent = not ex.repaired and (target.connection.own or incoming.body == ex.body)
    body = incoming.body if as_sent else ex.body
    if not target.connection.own and (target.model != ex.call.model or ex.model_in_path):
        _, body = ex.dialect.rename_model(path=incoming.path, body=ex.body, model=target.model)
    bound = Bound(
        headers=frozenset(name.encode("latin-1", "replace") for name in ex.profile.account_headers),
        to=plugins.first("bound", call=ex.call) if repeats_an_answer(incoming) else None,
    )
    changes = _changes(ex, target, plugins, bound) if plugins.listens("prepare") else None
    return outgoing(incoming, target=target, body=body, stream=ex.call.stream, changes=changes, bound=bound)


def _changes(ex: Exchange, target: Target, plugins: PluginHost, bound: Bound) -> Mapping[str, str | None]:
    before = as_mapping(visible_headers(ex.incoming, target=target, bound=bound))
    after = dict(before)
    plugins.each("prepare", call=ex.call, target=target, headers=after)
    changed = {k.lower(): v for k, v in after.items() if before.get(k) != v and k.lower() not in _OURS}
    return {**dict.fromkeys(before.keys() - after.keys()), **changed}


def is_native(target: Target, packs: Packs) -> bool:
    """The provider's own door over TLS: no gateway, no `base_url` (`ST-63`)."""
    provider = packs.providers.get(target.connection.provider)
    url = urlsplit(target.url)
    if provider is None or url.scheme != "https" or "passthrough_models" in provider.traits:
        return False
    found = packs.match_call(url.hostname or "", url.port or 443, url.path)
    return found is not None and found[0].id == provider.id
