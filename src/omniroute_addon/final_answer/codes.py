"""The stable `code` of the errors that we write ourselves."""

from __future__ import annotations

CODES: dict[str, str] = {
    "all_targets_cooling_down": "Every connection that could serve this request is resting after earlier failures.",
    "all_targets_excluded": "No connection may be used for this request.",
    "no_connection": "The configuration names no connection that can serve this request.",
    "connections_rejected": "The provider rejected the credential of every configured connection.",
    "upstream_unreachable": "No connection could be made to the provider, or it was cut before an answer.",
    "upstream_timeout": "The provider did not answer in time.",
    "upstream_error": "The provider failed.",
    "websocket_not_offered": "Send the request over HTTP, with an event stream: there another connection can take over.",
    "internal_error": "omniroute failed internally; its log says why.",
}
"""Stable `code` of the errors that we write ourselves, and the sentence that goes with it."""
