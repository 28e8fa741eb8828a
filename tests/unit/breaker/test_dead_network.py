"""Many providers without any answer at once are our own dead network."""

from __future__ import annotations

from omniroute_addon.breaker.dead_network import WITHIN_MS, DeadNetwork

T0 = 1_800_000_000_000


def test_only_providers_without_any_answer_lately_are_silent() -> None:
    network = DeadNetwork()
    for name in ("a", "b", "c"):
        network.failed(name, T0)
    network.answered("b", T0 - 1)
    network.answered("c", T0 - WITHIN_MS)
    assert network.silent(T0) == ["a", "c"]
    assert network.silent(T0 + WITHIN_MS - 1) == ["a", "b", "c"]
    assert network.silent(T0 + WITHIN_MS) == []
    assert repr(network) == "<DeadNetwork failed=['a', 'b', 'c']>"
