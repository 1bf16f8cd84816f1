"""What leaps say about time: how long they take, and how full the replicas were."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns
from capsim.measure.long_sum import long_sum

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]
Figure = Callable[[LeapColumns], NDArray[Any]]
"""One number a leap, shape (m,)."""

AT_ONCE = 1 << 15
"""Leaps of which a figure is made at a time: a run has millions of them."""


def leap_rows(leaps: LeapColumns, rows: slice | NDArray[np.bool_]) -> LeapColumns:
    """Some of the leaps, without a copy where they are a slice."""
    return LeapColumns(**{field.name: getattr(leaps, field.name)[rows] for field in fields(leaps)})


def leap_parts(leaps: LeapColumns, at_once: int = AT_ONCE) -> Iterator[tuple[slice, LeapColumns]]:
    """Some leaps at a time, with their rows."""
    for first in range(0, len(leaps.start), at_once):
        rows = slice(first, first + at_once)
        yield rows, leap_rows(leaps, rows)


def leap_durations(leaps: LeapColumns) -> Floats:
    """Seconds of each leap, shape (m,): the sum of ``first + i * slope`` over its steps."""
    return leaps.steps * leaps.first + leaps.slope * (leaps.steps * ((leaps.steps - 1) / 2))


def leaps_since(leaps: LeapColumns, time: float) -> LeapColumns:
    """Keep the leaps that start at or after `time` seconds."""
    kept = leaps.start >= time
    first = len(kept) - int(np.count_nonzero(kept))
    # Of one replica they are the last ones, and no copy is needed.
    return leap_rows(leaps, slice(first, None) if kept[first:].all() else kept)


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


def mean_over_time(leaps: LeapColumns, figure: Figure) -> float:
    """Mean of a figure over the time that the leaps take; NaN if that is none."""
    time = busy_time(leaps)
    return sum_over_time(leaps, figure) / time if time else float("nan")


def sum_over_time(leaps: LeapColumns, figure: Figure) -> float:
    """Sum of a figure times the seconds of its leap."""
    # Not a matrix product: its rounding depends on how many threads it has.
    return _sum(leaps, lambda part: figure(part) * leap_durations(part))


def busy_time(leaps: LeapColumns) -> float:
    """Seconds that the leaps take, summed."""
    return _sum(leaps, leap_durations)


def _sum(leaps: LeapColumns, figure: Figure) -> float:
    return long_sum((figure(part) for _, part in leap_parts(leaps)), len(leaps.start))


def share_of_steps(leaps: LeapColumns, chosen: Callable[[LeapColumns], NDArray[np.bool_]]) -> float:
    """Share of all steps that the leaps chosen have, 0 without any; `chosen` gives one truth a leap, shape (m,)."""
    steps = sum(int(part.steps[chosen(part)].sum()) for _, part in leap_parts(leaps))
    return steps / max(1, int(leaps.steps.sum()))


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
        steps = int(leaps.steps.sum())
        mixed = leaps.steps[(leaps.chunks > 0) & (leaps.decodes > 0)].sum()
        return cls(
            steps=steps,
            busy_time=busy_time(leaps),
            mixed_steps=float(mixed / steps) if steps else float("nan"),
            running_mean=mean_over_time(leaps, lambda part: part.running),
            running_max=int(leaps.running.max(initial=0)),
            waiting_mean=mean_over_time(leaps, lambda part: part.waiting),
            waiting_max=int(leaps.waiting.max(initial=0)),
            blocks_mean=mean_over_time(leaps, mean_blocks),
            blocks_max=int(most_blocks(leaps).max(initial=0)),
        )
