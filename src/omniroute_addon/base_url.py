"""Where a connection's `base_url` puts a provider's door. Pure text.

The scheme, host and port are always those of the base. Its path `B` meets the door's path by the first rule that fits:

1. `B` ends with the dialect's own tail: somebody wrote the whole address, it is used as it is.
2. `B` is a beginning of the door's path, or of one of its aliases (a placeholder or `*` fits any segment): the rest
   follows. So `http://127.0.0.1:9000`, which has no path, changes only the host.
3. Else `B` replaces everything before the dialect's own tail. OpenAI clients give a base that ends before the tail;
   Anthropic and Google clients give one that ends before the version, so for these the version of the table is put
   between, unless `B` ends in a version of its own.

| dialect | tail |
|---|---|
| openai-chat | `/chat/completions` |
| openai-responses | `/responses` |
| anthropic-messages | `/messages`, with `/v1` before it |
| gemini | `/models/{model}:{method}`, with `/v1beta` before it |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from .model import DialectName, Endpoint

_TAILS: Final[dict[DialectName, tuple[str, str]]] = {
    "openai-chat": ("", "/chat/completions"),
    "openai-responses": ("", "/responses"),
    "anthropic-messages": ("/v1", "/messages"),
    "gemini": ("/v1beta", "/models/{model}:{method}"),
}
"""Dialect -> the version that its clients do not count to the base, and the tail."""
_VERSION = re.compile(r"v[0-9]+[a-z0-9]*")
_OPEN = re.compile(r"\{(?!model\}|method\})[a-z_]+\}")


@lru_cache(maxsize=4096)
def door_url(endpoint: Endpoint, base_url: str | None) -> str | None:
    """Absolute URL of a door, `{model}` and `{method}` still in it.

    None when the door's own URL names something that only a `base_url` can say (`https://{host}/v1/…`).
    """
    if base_url is None:
        return None if _OPEN.search(endpoint.url) else endpoint.url
    base = urlsplit(base_url)
    path = _joined(base.path.rstrip("/"), endpoint)
    return None if _OPEN.search(path) else urlunsplit((base.scheme, base.netloc, path, "", ""))


def filled_url(url: str, *, model: str, stream: bool) -> str:
    """The URL with `{model}` and `{method}` filled in; a model name can never leave its place in the path."""
    if "{" not in url:
        return url
    method = "streamGenerateContent" if stream else "generateContent"
    return url.replace("{model}", quote(model, safe="@")).replace("{method}", method)


def url_path(url: str) -> str:
    """The path of a URL that may hold placeholders anywhere."""
    after_host = url.partition("://")[2]
    slash = after_host.find("/")
    return after_host[slash:] if slash >= 0 else "/"


def _joined(base: str, endpoint: Endpoint) -> str:
    version, tail = _TAILS[endpoint.dialect]
    if base.endswith(tail):
        return base
    for path in (url_path(endpoint.url), *endpoint.aliases):
        rest = _rest(base.split("/"), path.split("/"))
        if rest is not None and "*" not in rest:
            return base + rest
    if _VERSION.fullmatch(base.rpartition("/")[2]):
        version = ""
    return base + version + tail


def _rest(base: list[str], path: list[str]) -> str | None:
    """What follows in `path` after the segments of `base`; None when it does not begin with them."""
    if len(base) >= len(path) or not all(_fits(have, want) for have, want in zip(base, path, strict=False)):
        return None
    return "".join(f"/{segment}" for segment in path[len(base) :])


def _fits(have: str, want: str) -> bool:
    return have == want or bool(want != "**" and re.fullmatch(_segment(want), have))


def _segment(glob: str) -> str:
    parts: Iterable[str] = re.split(r"(\{[a-z_]+\}|\*)", glob)
    return "".join("[^/]+" if part == "*" or part.startswith("{") else re.escape(part) for part in parts)
