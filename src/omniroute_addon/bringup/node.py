"""Which Node looks at `HTTPS_PROXY`, and which needs our help. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


class Node(NamedTuple):
    """A version of Node."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse_version(text: str) -> Node | None:
    """What `node --version` printed."""
    match = _VERSION.match(text.strip())
    return Node(int(match[1]), int(match[2]), int(match[3])) if match else None


def minds_proxies(node: Node) -> bool:
    """`NODE_USE_ENV_PROXY=1` is understood: since 24.0, and 22.21."""
    return node >= (24, 0, 0) or (22, 21, 0) <= node < (23, 0, 0)


def needs_preload(node: Node) -> bool:
    """It has a `fetch` that our preload can teach: 18 and later."""
    return node.major >= 18 and not minds_proxies(node)
