"""Is this a model call, whose, and who could serve it? The stages identify and resolve of a request's life."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache

from .clients.session import session_of
from .core import Core
from .dialects import dialect
from .exchange import Exchange
from .model import Auth, Connection, ModelCall, Secret, Target
from .plugin_host import PluginHost
from .wire import SECRET_HEADERS, Incoming, as_mapping, client_secret, decoded_body

log = logging.getLogger(__name__)


class Identifier:
    """Raises nothing for any input: what cannot be understood is not ours."""

    def __init__(self, core: Core, plugins: PluginHost, new_id: Callable[[], str]) -> None:
        self._core = core
        self._plugins = plugins
        self._new_id = new_id

    def decrypts(self, host: str, port: int) -> bool:
        """Whether TLS to this host is opened: a plugin says so, or a pack names it."""
        answer = self._plugins.first("intercept", host=host, port=port)
        return bool(answer) if answer is not None else self._core.packs.for_host(host, port) is not None

    def is_ours(self, method: str, host: str, port: int, path: str) -> bool:
        """Might be a model call: a POST to a door of a known provider. Cheap; runs for every request."""
        return method == "POST" and self._core.packs.match_call(host, port, path) is not None

    def identify(
        self, incoming: Incoming, *, host: str, peer: str | None, trusted: bool, agent: str | None = None
    ) -> Exchange | None:
        """The exchange for a model call, or None for everything that passes as without us.

        `host` is the name that the client meant (in transparent mode `incoming.host` is an address), `agent` the user
        name that it gave to the proxy.
        """
        found = self._core.packs.match_call(host, incoming.port, incoming.path) if incoming.method == "POST" else None
        if found is None:
            return None
        (provider, endpoint), now = found, self._core.clock.now()
        speech = dialect(endpoint.dialect)
        fields = {name.lower(): value for name, value in incoming.headers}
        profile = self._core.clients.recognise(fields, host=host, path=incoming.path, agent=agent)
        if self._core.clients.is_side_path(profile, incoming.path):
            return None
        try:
            body = decoded_body(incoming)
            facts = speech.read_call(path=incoming.path, body=body)
        except ValueError as error:
            # The provider's own words about a malformed request are better than ours (A21).
            log.info("not a readable %s request to %s, passed on as it is: %s", endpoint.dialect, host, error)
            return None
        secret = client_secret(incoming)
        call = ModelCall(
            provider=provider.id,
            dialect=endpoint.dialect,
            model=facts.model,
            stream=facts.stream,
            session=session_of(profile, fields, facts.body, agent=agent, owner=secret.digest if secret else peer or ""),
            client_profile=profile.id,
            tools=facts.tools,
            history_items=facts.history_items,
            body_bytes=len(body),
            client=peer,
            agent=agent,
            trusted=trusted,
        )
        if self._plugins.listens("identify"):
            seen = {k: v for k, v in as_mapping(incoming.headers).items() if k.encode() not in SECRET_HEADERS}
            call = self._plugins.first("identify", call=call, headers=seen) or call
        return Exchange(
            id=self._new_id(),
            call=call,
            incoming=incoming,
            body=body,
            dialect=speech,
            profile=self._core.clients.profiles.get(call.client_profile, profile),
            model_in_path=facts.model_in_path,
            targets=self._resolve(call, incoming, host, secret, endpoint.auth or provider.auth),
            started_at=now,
            deadline_at=now + self._core.config.settings.deadline_ms / 1000,
            permits=self._core.warming(),
        )

    def _resolve(
        self, call: ModelCall, incoming: Incoming, host: str, secret: Secret | None, auth: Auth
    ) -> tuple[Target, ...]:
        connection = _own_connection(call.provider, secret)
        # Without the query, which may hold the credential; by name, so that the provider's own door is known as such.
        name = f"[{host}]" if ":" in host else host
        url = f"{incoming.scheme}://{name}:{incoming.port}{incoming.path.partition('?')[0]}"
        own = Target(connection=connection, dialect=call.dialect, url=url, model=call.model, auth=auth)
        if not call.trusted:
            return (own,)
        targets = self._core.config.targets_for(call, own, self._core.packs) or (own,)
        return tuple(self._plugins.first("resolve", call=call, targets=targets) or ()) or targets


@lru_cache(maxsize=1024)
def _own_connection(provider: str, secret: Secret | None) -> Connection:
    """The client's own credential is a connection, too."""
    return Connection(id=f"client:{secret.digest}" if secret else "client", provider=provider, secret=secret, own=True)
