"""Inter-token latency: the gaps between adjacent streamed tokens, out of leaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_STEPS = 5_000_000
"""Steps that are expanded one by one; a longer run is grouped."""
AT_ONCE = 1 << 14
"""Leaps that are expanded at a time."""
RELATIVE_BOUND = 1e-3
"""How far above the true gap a grouped one can lie, as a share of it."""


@dataclass(frozen=True)
class Gaps:
    """Gaps between adjacent tokens of one sequence, grouped.

    The user sees the same gaps as the engine, since what lies between them takes the same time for every
    token.

    Attributes:
        seconds: shape (k,).
        count: gaps of that length, shape (k,).
        bound: relative error of `seconds`, upwards; 0 if they are exact.
    """

    seconds: Floats
    count: Integers
    bound: float = 0.0

    @property
    def total(self) -> int:
        """Number of gaps."""
        return int(self.count.sum())

    def within(self, limit: float) -> int:
        """Count the gaps of at most `limit` seconds."""
        return int(self.count[self.seconds <= limit].sum())


def inter_token_gaps(
    leaps: LeapColumns, resumed_gaps: Floats, unserved: int = 0, most_steps: int = MOST_STEPS
) -> Gaps:
    """Collect the gaps of a run.

    Step i of a leap is a gap of ``first + i * slope`` seconds for each sequence that decodes in it. Where
    more than `most_steps` steps differ in length, runs of steps of one leap that differ by less than
    `RELATIVE_BOUND` count as
    the longest of them: bins with a bounded relative error, reported with that bound.

    Args:
        leaps: of the run or a part of it.
        resumed_gaps: seconds from the last token before a preemption to the next one, one gap each, shape
            (g,).
        unserved: tokens that failed requests still owed; each counts as an infinite gap.
        most_steps: steps that are expanded one by one.
    """
    decoding = (leaps.decodes > 0) & (leaps.steps > 0)
    differing = np.where(leaps.slope == 0, 1, leaps.steps)[decoding].sum()
    bound = RELATIVE_BOUND if differing > most_steps else 0.0
    seconds, count = [], []
    for begin in range(0, len(decoding), AT_ONCE):
        rows = begin + np.flatnonzero(decoding[begin : begin + AT_ONCE])
        steps, first, slope = leaps.steps[rows].astype(np.int64), leaps.first[rows], leaps.slope[rows]
        groups = _groups(steps, first, slope, bound)
        longest, stands_for = _expanded(steps, first, slope, groups)
        seconds.append(longest)
        count.append(stands_for * np.repeat(leaps.decodes[rows], groups))
    missing = [unserved] if unserved > 0 else []
    return Gaps(
        np.concatenate([*seconds, resumed_gaps, np.full(len(missing), np.inf)]),
        np.concatenate([*count, np.ones(len(resumed_gaps), np.int64), np.array(missing, np.int64)]),
        bound,
    )


def _groups(steps: Integers, first: Floats, slope: Floats, bound: float) -> Integers:
    """Into how many groups the steps of each leap are cut, so that those of one differ by less than `bound`."""
    groups = np.where(slope == 0, 1, steps)
    if not bound:
        return groups
    shortest = np.minimum(first, first + (steps - 1) * slope)
    enough = np.ceil(steps * np.abs(slope) / (bound * shortest)).clip(1)
    fewer: Integers = np.minimum(groups, enough).astype(np.int64)
    return fewer


def _expanded(steps: Integers, first: Floats, slope: Floats, groups: Integers) -> tuple[Floats, Integers]:
    """The longest step of each group of each leap, seconds, and how many steps it stands for.

    Group j of g holds the steps from floor(j n / g) up to, not including, floor((j + 1) n / g).
    """
    leap = np.repeat(np.arange(len(steps)), groups)
    place = np.arange(len(leap)) - np.repeat(np.cumsum(groups) - groups, groups)
    start, stop = place * steps[leap] // groups[leap], (place + 1) * steps[leap] // groups[leap]
    longest = np.where(slope[leap] > 0, stop - 1, start)
    return first[leap] + longest * slope[leap], stop - start
