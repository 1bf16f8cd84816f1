"""What TTFT consists of, for the fast requests and for the slow ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import RunLog
from capsim.measure.latency import TTFT_PARTS, TtftParts, failed
from capsim.measure.percentile import least_count

LIMITS = (0, 50, 90, 95, 99, 100)
"""Percentiles of TTFT between which requests are taken together."""


@dataclass(frozen=True)
class TtftBand:
    """Completed requests between two percentiles of the users' TTFT.

    Attributes:
        above, upto: the percentiles.
        requests: how many.
        parts: mean seconds of each part of their TTFT, by name (`capsim.measure.latency.TTFT_PARTS`).
    """

    above: int
    upto: int
    requests: int
    parts: dict[str, float]


def ttft_bands(log: RunLog, measured: NDArray[np.bool_]) -> tuple[TtftBand, ...]:
    """Split the completed ones of the measured requests, shape (n,), by TTFT; a band without a request is left out."""
    rows = np.flatnonzero(measured & ~failed(log))
    parts = TtftParts(log)
    rows = rows[np.argsort(parts.total[rows], kind="stable")]
    cuts = [least_count(limit, len(rows)) if limit else 0 for limit in LIMITS]
    bands = [
        (above, upto, slice(start, stop))
        for above, upto, start, stop in zip(LIMITS, LIMITS[1:], cuts, cuts[1:], strict=False)
        if stop > start and len(rows)
    ]
    means = {name: _means(parts.of(name)[rows], [band for _, _, band in bands]) for name in TTFT_PARTS}
    return tuple(
        TtftBand(above, upto, band.stop - band.start, {name: means[name][index] for name in TTFT_PARTS})
        for index, (above, upto, band) in enumerate(bands)
    )


def _means(values: NDArray[np.float64], bands: list[slice]) -> list[float]:
    return [float(values[band].mean()) for band in bands]
