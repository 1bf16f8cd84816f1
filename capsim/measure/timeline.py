"""One run over time, in a bounded number of bins: arrivals and ends, batch, queue and KV blocks of the replicas."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import LeapColumns, RunLog
from capsim.measure.latency import failed
from capsim.measure.leaps import leap_durations, leap_parts, mean_blocks, most_blocks

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Counts = NDArray[np.int32]

BINS = 160
"""As many as a small figure can show apart, whatever the run's length."""


@dataclass(frozen=True)
class Timeline:
    """Means and maxima of one run in bins of equal width, shape (bins,) each.

    Means are over the bin and over all replicas; a replica that is idle or down holds nothing. Maxima are of the
    fullest replica at its fullest moment; what a leap reaches in its last step counts in every bin that it touches.

    Attributes:
        width: seconds of a bin; the first begins at 0.
        arrivals, completions: requests/s that arrived, and that got their last token.
        running_mean, running_max: sequences in the batch of a replica.
        waiting_mean, waiting_max: sequences in its queue.
        blocks_mean, blocks_max: KV blocks that it holds; in the mean they rise evenly along a leap.
    """

    width: float
    arrivals: Floats
    completions: Floats
    running_mean: Floats
    running_max: Floats
    waiting_mean: Floats
    waiting_max: Floats
    blocks_mean: Floats
    blocks_max: Floats

    @classmethod
    def of(cls, log: RunLog, bins: int = BINS) -> Timeline:
        """Bin a run; without any time that passed there is no bin.

        Args:
            log: what the run recorded.
            bins: how many, at least 1.
        """
        requests, leaps = log.requests, log.leaps
        ends = [float(_ends(part).max()) for _, part in leap_parts(leaps)]
        end = max(float(log.end), *ends, float(requests.arrival.max(initial=0.0)))
        if not end > 0:
            return cls(0.0, *(np.zeros(0) for _ in range(8)))
        width = end / bins
        running, waiting, blocks = _Level(bins), _Level(bins), _Level(bins)
        for _, part in leap_parts(leaps):
            touched = _Touched.of(part, width, bins)
            running.add(touched, part.running, part.running)
            waiting.add(touched, part.waiting, part.waiting)
            blocks.add(touched, mean_blocks(part), most_blocks(part))
        time = width * max(1, len(log.evictions))
        return cls(
            width,
            _rate(requests.arrival, width, bins),
            _rate(requests.finish[~failed(log)], width, bins),
            *(running.summed / time, running.most),
            *(waiting.summed / time, waiting.most),
            *(blocks.summed / time, blocks.most),
        )


@dataclass(frozen=True)
class _Touched:
    """Which leap touches which bin, one row each, shape (k,), and for how many seconds.

    Attributes:
        leap, bin: indices.
        seconds: of the leap inside the bin.
    """

    leap: Integers
    bin: Integers
    seconds: Floats

    @classmethod
    def of(cls, leaps: LeapColumns, width: float, bins: int) -> _Touched:
        """Cut each leap where a bin ends."""
        ends, first = _ends(leaps), _bin(leaps.start, width, bins)
        spans = _bin(ends, width, bins) - first + 1
        leap = np.repeat(np.arange(len(first)), spans)
        place = first[leap] + np.arange(len(leap)) - np.repeat(np.cumsum(spans) - spans, spans)
        left, right = (
            np.maximum(leaps.start[leap], place * width),
            np.minimum(ends[leap], (place + 1) * width),
        )
        return cls(leap, place, np.maximum(right - left, 0.0))


class _Level:
    """How high something stands in each bin.

    Attributes:
        summed: over the leaps that touch a bin, their figure times their seconds in it, shape (bins,).
        most: the greatest figure of these leaps, shape (bins,); 0 where there is none.
    """

    def __init__(self, bins: int) -> None:
        self.summed, self.most = np.zeros(bins), np.zeros(bins)

    def add(self, touched: _Touched, mean: Floats | Counts, most: Floats | Counts) -> None:
        """Count in some leaps, with the figure of each along it and at its highest, shape (m,) each."""
        np.add.at(self.summed, touched.bin, mean[touched.leap] * touched.seconds)
        np.maximum.at(self.most, touched.bin, most[touched.leap])


def _ends(leaps: LeapColumns) -> Floats:
    return leaps.start + leap_durations(leaps)


def _bin(times: Floats, width: float, bins: int) -> Integers:
    """Index of the bin of each time; the last bin has its end too."""
    return np.clip(np.floor(times / width), 0, bins - 1).astype(np.int64)


def _rate(times: Floats, width: float, bins: int) -> Floats:
    """Events a second in each bin."""
    return np.bincount(_bin(times, width, bins), minlength=bins).astype(np.float64) / width
