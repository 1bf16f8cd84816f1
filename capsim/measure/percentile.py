"""Percentiles with one convention for every figure and every gate.

A percentile is the inverse of the empirical distribution function: the least sample that at least that share
of the samples do not exceed (``numpy.quantile(..., method="inverted_cdf")``). So "p95 is at most the limit"
says exactly that at least 95 % of the samples are within the limit. It is always one of the samples, never
between two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.measure.long_sum import long_sum

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# 19 of 20 are 95 %, also where 0.95 * 20 is computed as 19.000000000000004.
_ROUNDING = 1e-12

Part = tuple[Floats, Integers]
"""Some of the values, and how often each counts."""
MOST_SORTED = 1 << 18
"""Weighted values that are sorted at once."""
SUMMARIZED = (50, 90, 95, 99)
"""Percentiles of a `Distribution`."""
BITS = 18
"""Sign, exponent and 6 bits of the fraction: values that share them differ by less than 2 %."""


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
    if weights is None:
        ranks = [least_count(percentile, len(values)) - 1 for percentile in wanted]
        alike: list[float] = np.sort(values)[ranks].tolist() if len(values) else [math.nan] * len(wanted)
        return alike

    def parts() -> Iterator[Part]:
        for first in range(0, len(values), MOST_SORTED):
            yield values[first : first + MOST_SORTED], weights[first : first + MOST_SORTED]

    return percentiles_in_parts(parts, wanted)


def percentiles_in_parts(parts: Callable[[], Iterable[Part]], wanted: Sequence[float]) -> list[float]:
    """Return the same, exactly, of weighted values that come in parts, of which one is there at a time.

    A first pass sums weights by the leading bits of the values, a second one sorts the values that share theirs
    with a wanted percentile. Few values are sorted at once.

    Args:
        parts: makes the parts, the same ones each time; the weights of all sum to less than 2 ** 53.
        wanted: as of `percentiles`.
    """
    few = _few(parts())
    if few is not None:
        total = int(few[1].sum())
        return _at(*few, [least_count(each, total) for each in wanted]) if total else _none(wanted)
    by_bits = _by_bits(parts())
    upto = np.cumsum(by_bits)
    if not upto[-1]:
        return _none(wanted)
    ranks = np.array([least_count(percentile, int(upto[-1])) for percentile in wanted])
    bits = np.searchsorted(upto, ranks)
    sought = np.zeros(1 << BITS, np.bool_)
    sought[bits] = True
    passed = upto[bits] - np.cumsum(by_bits * sought)[bits]  # weights of what lies below and is not sought
    values, weights = _joined(
        _only(sought[_leading_bits(values)], values, weights) for values, weights in parts()
    )
    return _at(values, weights, (ranks - passed).astype(np.int64).tolist())


def _few(parts: Iterable[Part]) -> Part | None:
    """All of the parts together, None if that is too much to sort at once."""
    found: list[Part] = [(np.zeros(0), np.zeros(0, np.int64))]
    count = 0
    for values, weights in parts:
        found.append((values, weights))
        count += len(values)
        if count > MOST_SORTED:
            return None
    return _joined(found)


def _by_bits(parts: Iterable[Part]) -> Floats:
    """Weights summed by the leading bits of their values."""
    by_bits = np.zeros(1 << BITS)
    for values, weights in parts:
        if len(values):
            bits = _leading_bits(values)
            low = int(bits.min())
            sums = np.bincount(bits - low, weights=weights)
            by_bits[low : low + len(sums)] += sums
    return by_bits


def _joined(parts: Iterable[Part]) -> Part:
    every_values, every_weights = (list(column) for column in zip(*parts, strict=True))
    values = np.concatenate(every_values)
    every_values.clear()  # as long as all together
    return values, np.concatenate(every_weights)


def _at(values: Floats, weights: Integers, ranks: Sequence[int]) -> list[float]:
    """The values at these ranks, where each counts `weights` times."""
    order = np.argsort(values)
    upto = weights[order]
    places = np.searchsorted(np.cumsum(upto, out=upto), ranks)
    found: list[float] = values[order[places]].tolist()
    return found


def _only(rows: NDArray[np.bool_], values: Floats, weights: Integers) -> Part:
    return values[rows], weights[rows]


def _none(wanted: Sequence[float]) -> list[float]:
    return [math.nan] * len(wanted)


def _leading_bits(values: Floats) -> Integers:
    """Sign, exponent and the first bits of the fraction as one whole number that orders as the values do."""
    bits = np.ascontiguousarray(values, np.float64).view(np.int64)
    ordered = bits ^ (
        (bits >> 63) & np.iinfo(np.int64).max
    )  # negative numbers order by their bits the other way
    leading: Integers = (ordered >> (64 - BITS)) + (1 << (BITS - 1))
    return leading


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
    def of(cls, values: Floats) -> Distribution:
        """Summarize values; NaN values are no samples."""
        values = values[~np.isnan(values)]
        finite = values[np.isfinite(values)]
        mean = float(finite.sum() / len(finite)) if len(finite) else math.nan
        return cls(len(values), mean, *percentiles(values, SUMMARIZED))

    @classmethod
    def of_parts(cls, parts: Callable[[], Iterable[Part]]) -> Distribution:
        """Summarize weighted values, none of them NaN, that come in parts, as of `percentiles_in_parts`."""
        count = samples = rows = 0
        for values, weights in parts():
            finite = np.isfinite(values)
            count += int(weights.sum())
            samples += int(weights[finite].sum())
            rows += int(np.count_nonzero(finite))
        mean = long_sum(_weighted(parts()), rows) / samples if samples else math.nan
        return cls(count, mean, *percentiles_in_parts(parts, SUMMARIZED))


def _weighted(parts: Iterable[Part]) -> Iterator[Floats]:
    """The finite values times their weights."""
    for values, weights in parts:
        finite = np.isfinite(values)
        yield values[finite] * weights[finite]
