"""Inter-token latency: the gaps between adjacent streamed tokens, out of leaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns
from capsim.measure.leaps import leap_parts
from capsim.measure.percentile import Part

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_STEPS = 5_000_000
"""Steps that are expanded one by one; a longer run is grouped."""
AT_ONCE = 1 << 13
"""Leaps that are expanded at a time: they may be of hundreds of steps each."""
RELATIVE_BOUND = 1e-3
"""How far above the true gap a grouped one can lie, as a share of it."""


@dataclass(frozen=True)
class Gaps:
    """Gaps between adjacent tokens of one sequence.

    There are as many as tokens, so they are made again, some at a time, for each figure that is asked for. The user
    sees the same gaps as the engine, since what lies between them takes the same time for every token.

    Attributes:
        parts: makes some gaps after the other: seconds, and how many gaps are of that length, shape (k,) each.
        bound: relative error of the seconds, upwards; 0 if they are exact.
    """

    parts: Callable[[], Iterator[Part]]
    bound: float = 0.0

    @property
    def seconds(self) -> Floats:
        """All lengths at once, shape (k,)."""
        return np.concatenate([seconds for seconds, _ in self.parts()])

    @property
    def count(self) -> Integers:
        """How many gaps are of each length, shape (k,)."""
        return np.concatenate([count for _, count in self.parts()])

    @property
    def total(self) -> int:
        """Number of gaps."""
        return sum(int(count.sum()) for _, count in self.parts())

    def within(self, limit: float) -> int:
        """Count the gaps of at most `limit` seconds."""
        return sum(int(count[seconds <= limit].sum()) for seconds, count in self.parts())


def inter_token_gaps(
    leaps: LeapColumns, resumed_gaps: Floats, unserved: int = 0, most_steps: int = MOST_STEPS
) -> Gaps:
    """The gaps of a run.

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
    differing = sum(int(_groups(part).sum()) for _, part in leap_parts(leaps, AT_ONCE))
    bound = RELATIVE_BOUND if differing > most_steps else 0.0

    def parts() -> Iterator[Part]:
        for _, part in leap_parts(leaps, AT_ONCE):
            yield _grouped(part, bound) if bound else _expanded(part)
        yield resumed_gaps, np.ones(len(resumed_gaps), np.int64)
        if unserved > 0:
            yield np.array([np.inf]), np.array([unserved])

    return Gaps(parts, bound)


def _groups(leaps: LeapColumns) -> Integers:
    """Into how many groups of equal steps each leap falls: none where nobody decodes."""
    steps = leaps.steps.astype(np.int64)
    groups: Integers = np.where(leaps.slope == 0, np.minimum(1, steps), steps) * (leaps.decodes > 0)
    return groups


def _expanded(leaps: LeapColumns) -> Part:
    """Each length of each leap, seconds, and how many gaps are of that length: one a decode and step."""
    groups = _groups(leaps)
    steps = np.where(leaps.slope == 0, leaps.steps.astype(np.int64), 1)
    seconds = np.repeat(leaps.first, groups) + _places(groups) * np.repeat(leaps.slope, groups)
    return seconds, np.repeat(steps * leaps.decodes, groups)


def _grouped(leaps: LeapColumns, bound: float) -> Part:
    """The longest of each group of steps that differ by less than `bound`, and how many gaps it stands for.

    Group j of g holds the steps from floor(j n / g) up to, not including, floor((j + 1) n / g).
    """
    steps, first, slope = leaps.steps.astype(np.int64), leaps.first, leaps.slope
    shortest = np.minimum(first, first + (steps - 1) * slope)
    enough = np.ceil(steps * np.abs(slope) / (bound * shortest)).clip(1)
    groups: Integers = np.minimum(_groups(leaps), enough).astype(np.int64)
    leap, place = np.repeat(np.arange(len(steps)), groups), _places(groups)
    start, stop = place * steps[leap] // groups[leap], (place + 1) * steps[leap] // groups[leap]
    longest = np.where(slope[leap] > 0, stop - 1, start)
    return first[leap] + longest * slope[leap], (stop - start) * np.repeat(leaps.decodes, groups)


def _places(groups: Integers) -> Integers:
    """Number of each group in its leap: 0, 1, ... up to `groups` of the first one, and so on."""
    places: Integers = np.arange(int(groups.sum())) - np.repeat(np.cumsum(groups) - groups, groups)
    return places
