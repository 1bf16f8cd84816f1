"""Measurements that never fall where the work grows, with the largest change that this took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_STABLE = 1e-6  # largest relative change of a round over all axes; the file keeps 6 significant digits
_MOST_ROUNDS = 100  # alternating projections on noise of some per cent settle in fewer than 20


def monotone(values: ArrayLike, axes: Sequence[int] | None = None) -> tuple[NDArray[np.float64], float]:
    """The closest values that never fall along the axes, and how far the farthest was moved.

    A curve is fitted by isotonic regression (pool adjacent violators, all points of equal weight), which is the
    closest one in least squares. A grid is fitted along one axis after the other until nothing moves, and closed by
    a running maximum along each, since the rounds approach their limit without reaching it.

    Source: Barlow, Bartholomew, Bremner and Brunk, Statistical Inference under Order Restrictions (1972).

    Args:
        values: seconds, any shape, all finite.
        axes: along which they must not fall; all where not given.

    Returns:
        The fitted values, and the largest ``abs(fitted - value) / value`` over values above 0; 0.0 where nothing
        had to move.

    Raises:
        ValueError: a value is not finite.
    """
    given = np.asarray(values, dtype=np.float64)
    if not np.isfinite(given).all():
        raise ValueError("monotone: every value must be finite")
    axes = range(given.ndim) if axes is None else axes
    fitted = given.copy()
    for _ in range(_MOST_ROUNDS):
        before = fitted
        for axis in axes:
            fitted = np.apply_along_axis(_pooled, axis, fitted)
        if _largest_move(before, fitted) <= _STABLE:
            break
    for axis in axes:
        fitted = np.maximum.accumulate(fitted, axis=axis)
    return fitted, _largest_move(given, fitted)


def _pooled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Isotonic regression of one line of values."""
    if not (values[1:] < values[:-1]).any():
        return values
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        mean, size = value, 1
        while means and means[-1] > mean:
            below, many = means.pop(), sizes.pop()
            mean = (below * many + mean * size) / (many + size)
            size += many
        means.append(mean)
        sizes.append(size)
    return np.repeat(np.asarray(means), sizes)


def _largest_move(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    above = before > 0
    if not above.any():
        return 0.0
    return float(np.max(np.abs(after[above] - before[above]) / before[above]))
