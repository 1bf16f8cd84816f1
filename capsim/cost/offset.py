from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from capsim.cost.shape import BatchShape
from capsim.cost.step import Factor, Line, StepCost
from capsim.errors import BadInput, Fault


class OffsetCost(StepCost):
    """Another step cost with every step longer by the same time: what the host does and the figures leave out.

    Args:
        cost: to which it is added.
        seconds: of each step, not negative.
        origin: where the seconds come from, for the report.

    Raises:
        BadInput: `seconds` is negative or not finite.
    """

    def __init__(self, cost: StepCost, seconds: float, origin: str = "fitted to a benchmark") -> None:
        if not 0 <= seconds < math.inf:
            what = f"{seconds} seconds"
            raise BadInput(Fault("step cost", what, "host overhead", "a number that is not negative"))
        self._cost = cost
        self._seconds = float(seconds)
        self._origin = origin
        self.source = cost.source
        self.description = f"{cost.description}, and {1e3 * seconds:.4g} ms more in every step"
        self.needs_spread = cost.needs_spread
        self.needs_window = cost.needs_window

    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""
        return self._cost.step(batch) + self._seconds

    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on; the slope is the other cost's."""
        first, slope, steps = self._cost.line(batch)
        return Line(first + self._seconds, slope, steps)

    def outside(self, *columns: Any) -> Any:
        """Which steps lie outside the range that the other cost was measured in."""
        return self._cost.outside(*columns)

    def describe(self) -> Mapping[str, Factor]:
        """The figures that the other cost rests on, and the seconds."""
        return {**self._cost.describe(), "added to every step": Factor(self._seconds, "fitted", self._origin)}
