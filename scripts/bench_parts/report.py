"""Figures with their quartiles and targets, as a table and as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tabulate import tabulate


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the median has to reach."""

    bound: Literal["≤", "≥"]
    limit: float

    def met(self, value: float) -> bool:
        return value <= self.limit if self.bound == "≤" else value >= self.limit


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the report: median and quartiles of one measure of one contender."""

    measure: str
    contender: str
    unit: str
    low: float
    median: float
    high: float
    target: Target | None = None

    def row(self) -> list[str]:
        digits = 2 if abs(self.median) < 100 else 0
        target = f"{self.target.bound} {self.target.limit:g} {self.unit}" if self.target else ""
        return [
            self.measure,
            self.contender,
            f"{self.median:,.{digits}f} {self.unit}",
            f"{self.low:,.{digits}f} … {self.high:,.{digits}f}",
            target,
            ("met" if self.target.met(self.median) else "MISSED") if self.target else "",
        ]

    def data(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"measure": self.measure, "contender": self.contender, "unit": self.unit}
        facts |= {"low": self.low, "median": self.median, "high": self.high}
        if self.target:
            facts |= {"target": f"{self.target.bound} {self.target.limit:g}", "met": self.target.met(self.median)}
        return facts


class Report:
    """Collects figures in the order in which they were measured."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []

    def add(
        self, measure: str, contender: str, unit: str, values: Sequence[float], target: Target | None = None
    ) -> None:
        spread = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [*values] * 3
        low, median, high = spread
        self.figures.append(
            Figure(measure=measure, contender=contender, unit=unit, low=low, median=median, high=high, target=target)
        )

    def table(self) -> str:
        headers = ["measure", "contender", "median", "quartiles", "target", ""]
        return tabulate([figure.row() for figure in self.figures], headers, disable_numparse=True)
