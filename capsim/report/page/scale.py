"""From figures to places on an axis, and the round figures that name them."""

from __future__ import annotations

import math
from dataclasses import dataclass

FEW = 5
"""Ratio of the ends up to which even a logarithmic axis is named by even steps: 1, 2 and 5 would be too few."""


@dataclass(frozen=True)
class Scale:
    """Maps `low`..`high` to `start`..`stop`, evenly or by the logarithm.

    Attributes:
        low, high: ends of the axis, low < high; above 0 where logarithmic.
        start, stop: their places.
        logarithmic: whether equal ratios are equally far apart.
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """Place of a value, NaN for one that has none."""
        if self.logarithmic:
            if not value > 0:
                return math.nan
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.stop - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round figures on the axis, at most about `most`."""
        wide = self.logarithmic and self.high / self.low > FEW
        return self._decades(most) if wide else self._even(most)

    def _even(self, most: int) -> list[float]:
        step = _round_up((self.high - self.low) / most)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]

    def _decades(self, most: int) -> list[float]:
        """1, 2 and 5 of each decade, or as few of them as it takes."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for digits, every in (((1, 2, 5), 1), ((1, 3), 1), ((1,), 1), ((1,), 2), ((1,), 3)):
            found = [digit * 10.0**power for power in range(first, last + 1, every) for digit in digits]
            inside = [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]
            if len(inside) <= most:
                return inside
        return inside


def _round_up(value: float) -> float:
    """The next of 1, 2, 5, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= value * (1 - 1e-9))


def linear(low: float, high: float, start: float, stop: float) -> Scale:
    """An even scale; one that has no extent is given one."""
    return Scale(low, high if high > low else low + 1, start, stop)


def logarithmic(values: list[float], start: float, stop: float) -> Scale | None:
    """A logarithmic scale round the finite values above 0; None if there is none."""
    shown = [value for value in values if math.isfinite(value) and value > 0]
    if not shown:
        return None
    low, high = min(shown) / 1.25, max(shown) * 1.4
    return Scale(low, high, start, stop, logarithmic=True)
