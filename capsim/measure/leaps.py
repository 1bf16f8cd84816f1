"""What leaps say about time: how long they take, and how full the replicas were."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


def leap_durations(leaps: LeapColumns) -> Floats:
    """Seconds of each leap, shape (m,): the sum of ``first + i * slope`` over its steps."""
    return leaps.steps * leaps.first + leaps.slope * (leaps.steps * ((leaps.steps - 1) / 2))


def leaps_since(leaps: LeapColumns, time: float) -> LeapColumns:
    """Keep the leaps that start at or after `time` seconds."""
    kept = np.flatnonzero(leaps.start >= time)
    rows: slice | NDArray[np.intp] = kept
    if len(kept) and kept[-1] - kept[0] == len(kept) - 1:
        rows = slice(int(kept[0]), int(kept[-1]) + 1)  # of one replica, all that follow: no copy is needed
    return LeapColumns(**{field.name: getattr(leaps, field.name)[rows] for field in fields(leaps)})


def most_blocks(leaps: LeapColumns) -> Counts:
    """KV blocks held in the last step of each leap, shape (m,); too many where windows freed some."""
    return leaps.blocks + leaps.growth


def mean_blocks(leaps: LeapColumns) -> Floats:
    """KV blocks held along each leap on average, shape (m,), as if they rose evenly.

    Exact for a leap of one step, or one that took no block; otherwise off by at most half its growth, and too
    high where windows freed blocks meanwhile.
    """
    return leaps.blocks + leaps.growth / 2


def mean_unfilled(leaps: LeapColumns, block_size: int) -> Floats:
    """Tokens that the blocks held have room for along each leap on average, shape (m,), as if it changed evenly.

    Each decode fills a place in every step after the first, and each block taken adds `block_size` of them.
    Only where all layers keep all tokens.
    """
    taken, steps = leaps.growth.astype(np.int64), leaps.steps.astype(np.int64)
    return leaps.unfilled + (block_size * taken - (steps - 1) * leaps.decodes) / 2


def mean_over(values: Floats | Counts, durations: Floats) -> float:
    """Mean of values, shape (m,), that lasted so many seconds each; NaN if that is no time."""
    time = float(durations.sum())
    # Not a matrix product: its rounding depends on how many threads it has.
    return float((values * durations).sum() / time) if time else float("nan")


@dataclass(frozen=True)
class Occupancy:
    """How full the replicas were, means over the time in which they worked (idle time counts nowhere).

    Attributes:
        steps: forward passes.
        busy_time: seconds of work, summed over replicas.
        mixed_steps: share of the steps that computed prefill chunks and decodes together; NaN without steps.
        running_mean, running_max: sequences in the batch of a replica.
        waiting_mean, waiting_max: sequences in the queue of a replica.
        blocks_mean, blocks_max: KV blocks held by a replica. The most is exact; in the mean they rise evenly
            along a leap, which is off by at most half of what its decodes took. Both are too high where
            windows freed blocks inside leaps.
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
        steps = int(leaps.steps.sum())
        mixed = leaps.steps[(leaps.chunks > 0) & (leaps.decodes > 0)].sum()
        return cls(
            steps=steps,
            busy_time=float(durations.sum()),
            mixed_steps=float(mixed / steps) if steps else float("nan"),
            running_mean=mean_over(leaps.running, durations),
            running_max=int(leaps.running.max(initial=0)),
            waiting_mean=mean_over(leaps.waiting, durations),
            waiting_max=int(leaps.waiting.max(initial=0)),
            blocks_mean=mean_over(mean_blocks(leaps), durations),
            blocks_max=int(most_blocks(leaps).max(initial=0)),
        )
