"""Errors of the management API: one JSON shape, stable codes."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import JSONResponse

from omniroute_addon.nearest import unknown

CODES: dict[str, str] = {
    "unauthorized": "The token is missing or wrong. It stands in the run file.",
    "host_not_allowed": "The `Host` header does not name this endpoint on loopback.",
    "origin_not_allowed": "A web page of another origin asked.",
    "through_the_proxy": "The request came through the proxy itself.",
    "unknown_route": "There is no such address.",
    "method_not_allowed": "The address does not take this method.",
    "bad_body": "The body is no JSON, or not what the route takes.",
    "bad_query": "A query parameter cannot be used.",
    "unknown_provider": "No pack and no timer knows this provider.",
    "unknown_connection": "Neither the configuration nor a timer knows this connection.",
    "unknown_model": "No timer and no connection names this model.",
    "unknown_request": "No request with this id is remembered.",
    "internal_error": "omniroute failed internally; its log says why.",
}
"""Stable `code` of an error, and what it means."""

HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class Refusal(Exception):
    """An answer that is no success. The text goes to the person who asked and holds no secret."""

    def __init__(self, status: int, code: str, text: str = "") -> None:
        assert code in CODES, code
        super().__init__(text or CODES[code])
        self.status = status
        self.code = code

    def response(self) -> JSONResponse:
        """`{"error": "<text>", "code": "<code>"}`."""
        headers = {**HEADERS, **({"www-authenticate": "Bearer"} if self.status == 401 else {})}
        return JSONResponse({"error": str(self), "code": self.code}, self.status, headers)


def unknown_name(what: str, name: str, known: Iterable[str]) -> Refusal:
    """404 with the nearest known names."""
    return Refusal(404, f"unknown_{what}", unknown(what, name, known))
