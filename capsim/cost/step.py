"""The one interface between the engine and whatever knows how long a step takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from capsim.cost.shape import BatchShape


class Line(NamedTuple):
    """Times of consecutive pure-decode steps: step i (from 0) takes ``first + i * slope`` seconds.

    Attributes:
        first: seconds of the first step.
        slope: seconds by which each step outlasts the one before.
        steps: for how many steps this line holds, at least 1.
    """

    first: float
    slope: float
    steps: int

    def total(self, steps: int) -> float:
        """Seconds of the line's first `steps` steps, exact: an arithmetic series."""
        return steps * self.first + self.slope * (steps * (steps - 1) / 2)

    def steps_until(self, seconds: float) -> int:
        """Smallest number of steps, at least 1 and at most `self.steps`, that last `seconds` or longer."""
        low, high = 0, self.steps
        while high - low > 1:
            middle = (low + high) // 2
            if self.total(middle) < seconds:
                low = middle
            else:
                high = middle
        return high


class StepCost(ABC):
    """Seconds that one step of one replica takes, and for pure decode the exact line ahead.

    For a fixed number of decodes the cost is piecewise linear in their context. A `Line` is one piece of it, so
    that the sum over k steps is exact and the step in flight at a given time is found by bisection.

    Attributes:
        source: ``measured``, ``analytic`` or ``stated``: what the figures rest on.
        description: one sentence for the report.
    """

    source: str
    description: str

    @abstractmethod
    def step(self, batch: BatchShape) -> float:
        """Seconds of one step with this batch."""

    @abstractmethod
    def line(self, batch: BatchShape) -> Line:
        """Times of the steps from this pure-decode batch on, each adding one token to every context."""

    def total(self, batch: BatchShape, steps: int) -> float:
        """Exact seconds of `steps` consecutive pure-decode steps that begin with `batch`."""
        seconds = 0.0
        while steps > 0:
            line = self.line(batch)
            taken = min(steps, line.steps)
            seconds += line.total(taken)
            batch = grown(batch, taken)
            steps -= taken
        return seconds

    def steps_until(self, batch: BatchShape, seconds: float) -> int:
        """Inverse of `total`: the smallest number of steps, at least 1, that last `seconds` or longer."""
        done = 0
        while True:
            line = self.line(batch)
            piece = line.total(line.steps) if line.steps < UNBOUNDED else math.inf
            if piece >= seconds:
                return done + line.steps_until(seconds)
            seconds -= piece
            done += line.steps
            batch = grown(batch, line.steps)


UNBOUNDED = 1 << 60
"""`Line.steps` of a line that never ends."""


def grown(batch: BatchShape, steps: int) -> BatchShape:
    """The pure-decode batch after `steps` steps: every context is longer by one token per step."""
    return batch._replace(
        context=batch.context + steps * batch.decodes,
        squared_context=batch.squared_context + 2 * steps * batch.context + steps * steps * batch.decodes,
        largest_context=batch.largest_context + steps,
    )
