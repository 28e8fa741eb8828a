"""Those who wait for the same moment do not come in the same moment (`CW-37`, A37)."""

from __future__ import annotations

from omniroute_addon.waiting.herd import Herd


def test_one_alone_comes_within_a_quarter_of_a_second() -> None:
    assert Herd().spread(10.0, now=0.0, chance=1.0) == 0.25
    assert Herd().spread(10.0, now=0.0, chance=0.0) == 0.0


def test_the_more_there_are_the_wider_they_are_spread() -> None:
    herd = Herd()
    widths = [herd.spread(10.0, now=0.0, chance=1.0) for _ in range(50)]
    assert widths[:3] == [0.25, 0.5, 0.75]
    assert max(widths) == 10.0
    assert repr(herd) == "<Herd waiting=50>"


def test_only_those_of_the_same_moment_count() -> None:
    herd = Herd()
    herd.spread(10.0, now=0.0, chance=1.0)
    assert herd.spread(12.0, now=0.0, chance=1.0) == 0.25
    assert herd.spread(10.9, now=0.0, chance=1.0) == 0.5


def test_who_has_woken_is_forgotten() -> None:
    herd = Herd()
    herd.spread(10.0, now=0.0, chance=1.0)
    assert herd.spread(10.5, now=10.0, chance=1.0) == 0.25
    assert repr(herd) == "<Herd waiting=1>"
