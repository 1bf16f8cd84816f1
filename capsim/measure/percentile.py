"""Percentiles with one convention for every figure and every gate.

A percentile is the inverse of the empirical distribution function: the least sample that at least that share
of the samples do not exceed (``numpy.quantile(..., method="inverted_cdf")``). So "p95 is at most the limit"
says exactly that at least 95 % of the samples are within the limit. It is always one of the samples, never
between two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# 19 of 20 are 95 %, also where 0.95 * 20 is computed as 19.000000000000004.
_ROUNDING = 1e-12


def least_count(percentile: float, total: int) -> int:
    """Return how many of `total` samples must be within a limit for that percentile to be: at least 1."""
    return max(1, int(np.ceil(percentile * total / 100 * (1 - _ROUNDING))))


def percentiles(values: Floats, wanted: Sequence[float], weights: Integers | None = None) -> list[float]:
    """Return the wanted percentiles of values that each count `weights` times.

    Args:
        values: shape (n,), infinite ones allowed, no NaN.
        wanted: in percent, above 0 and at most 100.
        weights: shape (n,), not negative; None: 1 each.

    Returns:
        One value for each wanted percentile, NaN if there is no sample.
    """
    counts = np.ones(len(values), dtype=np.int64) if weights is None else weights
    order = np.argsort(values)
    cumulative = np.cumsum(counts[order])
    if len(values) == 0 or cumulative[-1] == 0:
        return [float("nan")] * len(wanted)
    ranks = [least_count(percentile, int(cumulative[-1])) for percentile in wanted]
    places = np.searchsorted(cumulative, ranks)
    found: list[float] = values[order][places].tolist()
    return found


@dataclass(frozen=True)
class Distribution:
    """Mean and percentiles of one metric.

    Attributes:
        count: samples, infinite ones (failed requests) included.
        mean: of the finite samples; NaN if there are none.
        p50, p90, p95, p99: over all samples, so infinite where too many failed; NaN if there are none.
    """

    count: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Floats, weights: Integers | None = None) -> Distribution:
        """Summarize values that each count `weights` times; NaN values are no samples."""
        counts = np.ones(len(values), dtype=np.int64) if weights is None else weights
        exists = ~np.isnan(values)
        values, counts = values[exists], counts[exists]
        finite = np.isfinite(values)
        total = counts[finite].sum()
        # Not a matrix product: its rounding depends on how many threads it has.
        mean = float((values[finite] * counts[finite]).sum() / total) if total else float("nan")
        return cls(int(counts.sum()), mean, *percentiles(values, (50, 90, 95, 99), counts))
