"""Gaps between the tokens of each request, out of the steps of its replica."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns, RunLog
from capsim.measure.latency import failed

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TokenGaps:
    """Gaps of completed requests, pooled in the order of requests; a failed one has none.

    Attributes:
        seconds: shape (k,).
        starts: gaps of request i are ``seconds[starts[i]:starts[i + 1]]``, shape (n + 1,).
    """

    seconds: Floats
    starts: Integers


def steps_missed(log: RunLog) -> Integers:
    """Steps that each request's replica took between its first token and its last without it, shape (n,).

    A sequence makes at most one token in a step. So a completed request that missed no step made one token in
    every one of them, also if it was preempted before its first token. One that was preempted later missed
    those that ran meanwhile. A failed request has 0.
    """
    missed = np.zeros(len(log.requests.output), np.int64)
    for replica, rows in _by_replica(log):
        first, last = _steps_of(log, replica, rows)
        missed[rows] = last - first - (log.requests.output[rows] - 1)
    return missed


def token_gaps(log: RunLog) -> TokenGaps | None:
    """The gaps of every request, exact but for rounding; None where they cannot be told.

    Each request makes one token at the end of each of its replica's steps after the first token. Where one
    was preempted between tokens, the log has the length of the gap, but not which of the steps were missed,
    so that nobody can say between which tokens it lies: then there are none for the whole run.
    """
    if steps_missed(log).any():
        return None
    counts = np.where(failed(log), 0, log.requests.output - 1)
    starts = np.concatenate(([0], np.cumsum(counts)))
    seconds = np.empty(starts[-1])
    for replica, rows in _by_replica(log):
        first, last = _steps_of(log, replica, rows)
        # A gap is from the end of the step before: an idle replica in between belongs to it.
        gaps = np.diff(_step_ends(log.leaps, _leaps_of(log, replica)), prepend=np.nan)
        seconds[_ranges(starts[rows], last - first)] = gaps[_ranges(first, last - first)]
    return TokenGaps(seconds, starts)


def _by_replica(log: RunLog) -> list[tuple[int, Integers]]:
    """Each replica with the rows of the requests that it completed."""
    completed = ~failed(log)
    served = log.requests.replica
    return [
        (int(each), np.flatnonzero(completed & (served == each))) for each in np.unique(served[completed])
    ]


def _leaps_of(log: RunLog, replica: int) -> slice:
    """Rows of a replica's leaps, which lie together."""
    return slice(*np.searchsorted(log.leaps.replica, [replica, replica + 1]).tolist())


def _steps_of(log: RunLog, replica: int, rows: Integers) -> tuple[Integers, Integers]:
    """Numbers of the first step after each first token and of the first one after each last token.

    A token appears where a leap ends, and the next leap starts at that very time or later.
    """
    leaps = _leaps_of(log, replica)
    taken = np.concatenate(([0], np.cumsum(log.leaps.steps[leaps])))
    start = log.leaps.start[leaps]
    first = taken[np.searchsorted(start, log.requests.first_token[rows])]
    last = taken[np.searchsorted(start, log.requests.finish[rows])]
    return first, last


def _step_ends(leaps: LeapColumns, rows: slice) -> Floats:
    """When each step of these leaps ended, seconds, shape (steps,)."""
    steps = leaps.steps[rows].astype(np.int64)
    done = _ranges(np.ones_like(steps), steps)
    start, first, slope = (np.repeat(each[rows], steps) for each in (leaps.start, leaps.first, leaps.slope))
    ends: Floats = start + done * first + slope * (done * (done - 1) / 2)
    return ends


def _ranges(starts: Integers, counts: Integers) -> Integers:
    """The numbers from each start on, as many as its count, one range after the other."""
    before = np.cumsum(counts) - counts
    numbers: Integers = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return numbers
