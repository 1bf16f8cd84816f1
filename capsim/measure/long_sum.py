"""The sum of a long column that is never there as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST = 1 << 15
"""Numbers that are summed at once."""


def long_sum(parts: Iterable[Floats], count: int) -> float:
    """Sum by halves, as ``numpy.sum`` does with a whole column, and so to the same rounding.

    Args:
        parts: the column in pieces of any size, which are asked for one by one.
        count: numbers in all of them.
    """
    return _sum(_Reader(iter(parts)), count)


class _Reader:
    """Takes any number of numbers from the parts, in their order."""

    def __init__(self, parts: Iterator[Floats]) -> None:
        self._parts = parts
        self._left: Floats = np.zeros(0)

    def take(self, count: int) -> Floats:
        """The next `count` numbers."""
        pieces = []
        while count > len(self._left):
            pieces.append(self._left)
            count -= len(self._left)
            self._left = next(self._parts)
        pieces.append(self._left[:count])
        self._left = self._left[count:]
        return np.concatenate(pieces)


def _sum(reader: _Reader, count: int) -> float:
    if count <= MOST:
        return float(reader.take(count).sum())
    half = count // 2 - count // 2 % 8  # numpy halves into whole groups of 8
    return _sum(reader, half) + _sum(reader, count - half)
