"""What leaps say about time: how long they take, and how full the replicas were."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def leap_durations(leaps: LeapColumns) -> Floats:
    """Seconds of each leap, shape (m,): the sum of ``first + i * slope`` over its steps."""
    return leaps.steps * leaps.first + leaps.slope * (leaps.steps * (leaps.steps - 1) / 2)


def leaps_since(leaps: LeapColumns, time: float) -> LeapColumns:
    """Keep the leaps that start at or after `time` seconds."""
    rows = leaps.start >= time
    return LeapColumns(**{field.name: getattr(leaps, field.name)[rows] for field in fields(leaps)})


@dataclass(frozen=True)
class Occupancy:
    """How full the replicas were, means over the time in which they worked (idle time counts nowhere).

    Attributes:
        steps: forward passes.
        busy_time: seconds of work, summed over replicas.
        mixed_steps: share of the steps that computed prefill chunks and decodes together; NaN without steps.
        running_mean, running_max: sequences in the batch of a replica.
        waiting_mean, waiting_max: sequences in the queue of a replica.
        blocks_mean, blocks_max: KV blocks held by a replica when a leap begins; decodes take more along a
            leap, so both are a little low.
    """

    steps: int
    busy_time: float
    mixed_steps: float
    running_mean: float
    running_max: int
    waiting_mean: float
    waiting_max: int
    blocks_mean: float
    blocks_max: int

    @classmethod
    def of(cls, leaps: LeapColumns) -> Occupancy:
        """Summarize leaps, weighted by how long each took."""
        durations = leap_durations(leaps)
        busy = float(durations.sum())
        steps = int(leaps.steps.sum())
        mixed = leaps.steps[(leaps.chunks > 0) & (leaps.decodes > 0)].sum()

        def mean(values: Integers) -> float:
            # Not a matrix product: its rounding depends on how many threads it has.
            return float((values * durations).sum() / busy) if busy else float("nan")

        return cls(
            steps=steps,
            busy_time=busy,
            mixed_steps=float(mixed / steps) if steps else float("nan"),
            running_mean=mean(leaps.running),
            running_max=int(leaps.running.max(initial=0)),
            waiting_mean=mean(leaps.waiting),
            waiting_max=int(leaps.waiting.max(initial=0)),
            blocks_mean=mean(leaps.blocks),
            blocks_max=int(leaps.blocks.max(initial=0)),
        )
