"""The steps that the quiet runs logged: how much longer they took than the profile says, and when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from capsim.cost import BatchShape, Line, StepCost
from tests.reference import ReferenceReplica, Work
from tests.truth.quiet_profile import KINDS, kind_of, profile_cost, steps_of
from tests.truth.quiet_run import Quiet

WINDOW = 4
"""Seconds."""


@dataclass(frozen=True, eq=False)
class LoggedSteps:
    """The steps of one run, as columns.

    Speeds are seconds that were logged over seconds by the step cost: 1.1 is a tenth slower. They hold no
    engine model.

    Attributes:
        window: number of the window that a step begins in, shape (n,).
        chunks: whether it has a chunk of a prompt, shape (n,).
        kinds: place among `KINDS`, shape (n,).
        seconds, priced: as logged and by the step cost, shape (n,).
    """

    window: NDArray[np.int64]
    chunks: NDArray[np.bool_]
    kinds: NDArray[np.int64]
    seconds: NDArray[np.float64]
    priced: NDArray[np.float64]

    @property
    def speed(self) -> float:
        """Of all steps."""
        return self._speed(np.ones(len(self.window), dtype=np.bool_))

    @property
    def decode_steps(self) -> float:
        """Of steps without a chunk of a prompt."""
        return self._speed(~self.chunks)

    @property
    def prompt_steps(self) -> float:
        """Of steps with one."""
        return self._speed(self.chunks)

    @property
    def windows(self) -> tuple[float, ...]:
        """Of each window but the last, which the end of the run cuts short."""
        return tuple(self._speed(self.window == start) for start in np.unique(self.window)[:-1])

    def at(self, window: int, kind: str) -> float:
        """Of the steps of a kind in a window; where it has none, of the kind, or of all."""
        alike = self.kinds == KINDS.index(kind)
        here = alike & (self.window == window)
        if here.any():
            return self._speed(here)
        return self._speed(alike) if alike.any() else self.speed

    def _speed(self, rows: NDArray[np.bool_]) -> float:
        return float(self.seconds[rows].sum() / self.priced[rows].sum())


@cache
def logged(run: Quiet) -> LoggedSteps:
    """The steps of a run."""
    steps, cost = steps_of(run), profile_cost()
    return LoggedSteps(
        np.array([int(step.start // WINDOW) for step in steps]),
        np.array([bool(step.batch.chunks) for step in steps]),
        np.array([KINDS.index(kind_of(step.batch)) for step in steps]),
        np.array([step.seconds for step in steps]),
        np.array([cost.step(step.batch) for step in steps]),
    )


class DriftingCost(StepCost):
    """The step cost at the speed that a run logged by kind of step and time; its user sets `now`, seconds."""

    source = "measured"

    def __init__(self, cost: StepCost, steps: LoggedSteps) -> None:
        self.description = f"{cost.description}, at the speed of a log"
        self.now = 0.0
        self._cost, self._steps = cost, steps
        self._speed = cache(steps.at)

    def step(self, batch: BatchShape) -> float:
        """Seconds of a step that begins now."""
        return self._cost.step(batch) * float(self._speed(int(self.now // WINDOW), kind_of(batch)))

    def line(self, batch: BatchShape) -> Line:
        """One step: when the next one begins is not known here."""
        return Line(self.step(batch), 0.0, 1)


class DriftingReplica(ReferenceReplica):
    """The plain replica on a `DriftingCost`, which it tells the time."""

    def step(self, work: Work, now: float) -> float:
        """Compute the batch; when it ends."""
        assert isinstance(self.cost, DriftingCost)
        self.cost.now = now
        return super().step(work, now)
