"""Which Node looks at HTTPS_PROXY, and what our preload does for one that does not."""

from __future__ import annotations

import pytest

from omniroute_addon.bringup.node import minds_proxies, needs_preload, parse_version


@pytest.mark.parametrize(
    ("text", "minds", "preload"),
    [
        ("v16.20.0", False, False),
        ("v18.0.0\n", False, True),
        ("v20.20.2", False, True),
        ("v22.20.9", False, True),
        ("v22.21.0", True, False),
        ("v23.11.0", False, True),
        ("v24.0.0", True, False),
        ("v26.10.0", True, False),
    ],
)
def test_versions(text: str, minds: bool, preload: bool) -> None:
    node = parse_version(text)
    assert node and (minds_proxies(node), needs_preload(node)) == (minds, preload)
    assert str(node) == text.strip().removeprefix("v")


@pytest.mark.parametrize("text", ["", "node: not found", "v20"])
def test_what_is_no_version(text: str) -> None:
    assert parse_version(text) is None
