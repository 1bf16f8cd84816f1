"""Piecewise linear functions of whole numbers, as tables of measurements give them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Curve:
    """Seconds over a count, linear between its points.

    Below the first point it keeps the first value, because a small batch takes no less than the smallest one
    measured; above the last it goes on with the last slope, and never falls.

    Attributes:
        points: strictly increasing counts, at least two.
        values: seconds at each point.
        slopes: seconds per count from each point on; as many as points.
    """

    points: tuple[int, ...]
    values: tuple[float, ...]
    slopes: tuple[float, ...]

    @classmethod
    def through(cls, points: Sequence[int], values: Sequence[float]) -> Curve:
        """The curve through these points."""
        slopes = [(values[i + 1] - values[i]) / (points[i + 1] - points[i]) for i in range(len(points) - 1)]
        return cls(tuple(points), tuple(values), (*slopes, max(0.0, slopes[-1])))

    def times(self, factor: int) -> Curve:
        """The curve with every value `factor` times as large."""
        values = tuple(factor * value for value in self.values)
        return Curve(self.points, values, tuple(factor * slope for slope in self.slopes))

    def at(self, count: float) -> float:
        """Seconds at a count."""
        index = bisect_right(self.points, count) - 1
        if index < 0:
            return self.values[0]
        return self.values[index] + self.slopes[index] * (count - self.points[index])


@dataclass(frozen=True)
class Grid:
    """Seconds over two counts, linear in each between its points.

    Attributes:
        rows: strictly increasing counts, at least two.
        columns: strictly increasing counts, at least two.
        values: seconds, ``values[row][column]``.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    values: tuple[tuple[float, ...], ...]

    def row(self, count: int, scale: int = 1) -> Curve:
        """Seconds over the columns, each multiplied by `scale`, for a row of this count.

        Outside the rows as `Curve` does outside its points.
        """
        below = max(0, min(bisect_right(self.rows, count) - 1, len(self.rows) - 2))
        low, high = self.rows[below], self.rows[below + 1]
        share = max(0.0, (count - low) / (high - low))
        pairs = zip(self.values[below], self.values[below + 1], strict=True)
        values = [first + (second - first) * share for first, second in pairs]
        return Curve.through([scale * column for column in self.columns], values)
