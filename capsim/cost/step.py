"""The one interface between the engine and whatever knows how long a step takes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
        linear = self.first - self.slope / 2
        root = math.sqrt(max(0.0, linear * linear + 2 * self.slope * seconds))
        guess = 2 * seconds / (linear + root) if linear + root > 0 else self.steps
        steps = min(max(1, math.ceil(guess)), self.steps)  # the root of the series, right up to rounding
        while steps < self.steps and self.total(steps) < seconds:
            steps += 1
        while steps > 1 and self.total(steps - 1) >= seconds:
            steps -= 1
        return steps


class Factor(NamedTuple):
    """A figure that a step cost rests on: its value, how it is known, and where it comes from.

    ``tag`` is ``measured``, ``data sheet``, ``fitted``, ``derived``, ``assumed`` or ``stated``.
    """

    value: float
    tag: str
    source: str


class StepCost(ABC):
    """Seconds that one step of one replica takes, and for pure decode the exact line ahead.

    For a fixed number of decodes the cost is piecewise linear in their context. A `Line` is one piece of it, so
    that the sum over k steps is exact and the step in flight at a given time is found by bisection.

    For a pure-decode batch ``line(batch).first`` is exactly ``step(batch)``, and ``first + i * slope`` is the step
    of the batch grown by i steps to rounding error. `line` and `step` run a few times per simulated request: a cost
    keeps what does not depend on the context per batch size, and may assume that `line` is given no chunks.

    Attributes:
        source: ``measured``, ``derived`` (on another GPU), ``analytic`` or ``stated``: what the figures rest on.
        description: one sentence for the report.
        needs_window: whether the cost reads `BatchShape.windowed_context` and `filling`; the engine keeps them only
            then, and takes no line past the step in which a decode fills the window.
        needs_spread: whether the cost reads `BatchShape.squared_context` and `largest_context`; the engine keeps them
            only then.
    """

    source: str
    description: str
    needs_spread: bool = False
    needs_window: bool = False

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

    def outside(
        self,
        prefill_tokens: NDArray[np.integer[Any]],
        chunks: NDArray[np.integer[Any]],  # noqa: ARG002
        chunk_past: NDArray[np.integer[Any]],  # noqa: ARG002
        decodes: NDArray[np.integer[Any]],  # noqa: ARG002
        context: NDArray[np.integer[Any]],  # noqa: ARG002
    ) -> NDArray[np.bool_]:
        """Which steps lie outside the range that was measured, shape (n,).

        A cost that is stated or computed has no such range: nothing lies outside.

        Args:
            prefill_tokens: tokens computed by the step's chunks, shape (n,) like all others.
            chunks: number of chunks.
            chunk_past: tokens before the chunks, summed over them.
            decodes: sequences that decode.
            context: sum of their contexts, tokens.
        """
        return np.zeros(len(prefill_tokens), dtype=np.bool_)

    def describe(self) -> Mapping[str, Factor]:
        """The figures that this cost rests on, by name, for the report."""
        return {}


UNBOUNDED = 1 << 60
"""`Line.steps` of a line that never ends."""


def grown(batch: BatchShape, steps: int) -> BatchShape:
    """The pure-decode batch after `steps` steps, in which none fills a window: every context is longer by as many."""
    return batch._replace(
        context=batch.context + steps * batch.decodes,
        windowed_context=batch.windowed_context + steps * batch.filling,
        squared_context=batch.squared_context + 2 * steps * batch.context + steps * steps * batch.decodes,
        largest_context=batch.largest_context + steps,
    )
