"""Is this exchange a model call? And what is checked of it, then, by whom."""

from __future__ import annotations

import logging
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

from mitmproxy.proxy import commands

from ..exchange import Exchange
from .answering import AnsweringStream
from .copies import incoming_of, meant_host

log = logging.getLogger(__name__)


class RecognisingStream(AnsweringStream):
    """A model call is read whole; mitmproxy's checks of its answer are made for each attempt instead."""

    def check_body_size(self, request: bool) -> Generator[commands.Command, Any, bool]:
        """Without `stream_large_bodies`: a model call is read whole, and how its answer travels the watch decides."""
        if not self.context.options.stream_large_bodies or not self._may_be_ours():
            return super().check_body_size(request)
        return self._check_limit_only(request)

    def _check_limit_only(self, request: bool) -> Generator[commands.Command, Any, bool]:
        options = self.context.options
        limit = SimpleNamespace(body_size_limit=options.body_size_limit, stream_large_bodies=None)
        self.context.options = limit  # type: ignore[assignment]
        try:
            return (yield from super().check_body_size(request))
        finally:
            self.context.options = options

    def check_invalid(self, request: bool) -> Generator[commands.Command, Any, bool]:
        """The head of a model call's answer was checked when it came, as part of its attempt."""
        return super().check_invalid(request) if request or self.exchange is None else _nothing_wrong()

    def _may_be_ours(self) -> bool:
        request = self.flow.request
        return self.exchange is not None or self.engine.is_ours(
            request.method, meant_host(self.flow), request.port, request.path
        )

    def recognise(self) -> Exchange | None:
        """The exchange, when the request is a model call; None for everything that passes as without us."""
        request, host = self.flow.request, meant_host(self.flow)
        if not self.engine.is_ours(request.method, host, request.port, request.path):
            return None
        peer = self.context.client.peername[0] if self.context.client.peername else ""
        try:
            caller = self.engine.callers.of(self.flow, self.context.client)
            return self.engine.identify(
                incoming_of(request),
                host=host,
                peer=peer,
                agent=caller.name if caller else None,
                trusted=self.engine.trusts(peer, caller),
            )
        except Exception:  # our own fault never becomes the user's failure: the request goes as without us
            log.exception("could not identify a request to %s; it passes as it is", host)
            return None


def _nothing_wrong() -> Generator[commands.Command, Any, bool]:
    return False
    yield  # a generator, as mitmproxy expects
