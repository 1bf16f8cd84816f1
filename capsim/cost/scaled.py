from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capsim.cost.shape import BatchShape
from capsim.cost.step import Factor, Line, StepCost


class ScaledCost(StepCost):
    """Another step cost with every step `factor` times as long: what if the figures are off?

    Args:
        cost: what is scaled.
        factor: above 0; 1.1 makes every step 10 % slower.
    """

    def __init__(self, cost: StepCost, factor: float) -> None:
        self._cost = cost
        self._factor = factor
        self.source = cost.source
        self.description = f"{cost.description}, every step {factor:g} times as long"
        self.needs_spread = cost.needs_spread
        self.needs_window = cost.needs_window

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        return self._factor * self._cost.step(batch)

    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on."""
        first, slope, steps = self._cost.line(batch)
        return Line(self._factor * first, self._factor * slope, steps)

    def outside(self, *columns: Any) -> Any:
        """Which steps lie outside the range that the scaled cost was measured in."""
        return self._cost.outside(*columns)

    def describe(self) -> Mapping[str, Factor]:
        """The figures that the scaled cost rests on."""
        return self._cost.describe()
