"""The simplest step cost: every step takes the same time."""

from __future__ import annotations

import math
from collections.abc import Mapping

from capsim.cost.shape import BatchShape
from capsim.cost.step import UNBOUNDED, Factor, Line, StepCost
from capsim.errors import BadInput


class ConstantCost(StepCost):
    """Every step takes `seconds`, whatever the batch.

    Args:
        seconds: of one step, above 0.

    Raises:
        BadInput: `seconds` is not a positive finite number.
    """

    source = "stated"

    def __init__(self, seconds: float) -> None:
        if not 0 < seconds < math.inf:
            raise BadInput(f"step cost: {seconds} seconds a step, expected a positive number")
        self.seconds = float(seconds)
        self.description = f"every step takes {1e3 * seconds:g} ms"
        self._line = Line(self.seconds, 0.0, UNBOUNDED)

    def step(self, batch: BatchShape) -> float:  # noqa: ARG002
        """Seconds of one step, the same for every batch."""
        return self.seconds

    def line(self, batch: BatchShape) -> Line:  # noqa: ARG002
        """One line without slope and without end."""
        return self._line

    def describe(self) -> Mapping[str, Factor]:
        """The stated seconds."""
        return {"seconds": Factor(self.seconds, "stated", "the scenario")}
