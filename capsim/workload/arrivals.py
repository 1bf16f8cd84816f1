"""When requests arrive: renewal processes, and a Poisson process whose rate follows an envelope."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput

Floats = NDArray[np.float64]

MOST = 50_000_000
"""Requests of one simulation: at some 470 bytes each, what a large machine's memory holds."""


class ArrivalProcess(ABC):
    """A way in which requests arrive, at whatever mean rate it is asked for.

    The random numbers drawn do not depend on the rate, so that the same stream at two rates gives the same
    pattern in two tempos (common random numbers).
    """

    @abstractmethod
    def within(self, rate: float, duration: float, rng: np.random.Generator) -> Floats:
        """Arrivals in [0, duration) at a mean of `rate` per second.

        Returns:
            Seconds, shape (n,), not decreasing; n is random unless the process is constant.

        Raises:
            BadInput: `rate` or `duration` is not above 0, or more requests would arrive than a memory holds.
        """


class RenewalProcess(ArrivalProcess):
    """Independent gaps of one distribution, time 0 being the end of a gap."""

    @abstractmethod
    def unit_gaps(self, n: int, rng: np.random.Generator) -> Floats:
        """Gaps of mean 1, shape (n,)."""

    @property
    @abstractmethod
    def cv(self) -> float:
        """Coefficient of variation of the gaps; its square is the dispersion of counts in long windows."""

    def first(self, n: int, rate: float, rng: np.random.Generator) -> Floats:
        """Draw the first `n` arrivals at `rate` per second: seconds, shape (n,)."""
        _check(rate, 1.0)
        return np.cumsum(self.unit_gaps(n, rng)) / rate

    def within(self, rate: float, duration: float, rng: np.random.Generator) -> Floats:
        """Arrivals in [0, duration) at a mean of `rate` per second."""
        _check(rate, duration)
        expected = rate * duration
        chunk = int(expected + 6 * math.sqrt(expected)) + 16
        points = np.cumsum(self.unit_gaps(chunk, rng))
        while points[-1] < expected:
            points = np.concatenate([points, points[-1] + np.cumsum(self.unit_gaps(chunk, rng))])
        return points[: np.searchsorted(points, expected)] / rate


@dataclass(frozen=True)
class PoissonArrivals(RenewalProcess):
    """Exponential gaps: many independent users."""

    def unit_gaps(self, n: int, rng: np.random.Generator) -> Floats:
        """Gaps of mean 1, shape (n,)."""
        return rng.standard_exponential(n)

    @property
    def cv(self) -> float:
        """Coefficient of variation of the gaps."""
        return 1.0


@dataclass(frozen=True)
class GammaArrivals(RenewalProcess):
    """Gamma gaps, as of ``vllm bench serve --burstiness``.

    Attributes:
        burstiness: shape of the gamma distribution. 1 is a Poisson process, below 1 is burstier, above 1 is
            more regular; the gaps' coefficient of variation is 1 / sqrt(burstiness).
    """

    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.burstiness < math.inf:
            raise BadInput(f"burstiness must be above 0, found {self.burstiness:g}")

    def unit_gaps(self, n: int, rng: np.random.Generator) -> Floats:
        """Gaps of mean 1, shape (n,)."""
        return rng.standard_gamma(self.burstiness, n) / self.burstiness

    @property
    def cv(self) -> float:
        """Coefficient of variation of the gaps."""
        return 1 / math.sqrt(self.burstiness)


@dataclass(frozen=True)
class ConstantArrivals(RenewalProcess):
    """Equal gaps; the first request comes half a gap after 0, so that rate * duration of them arrive."""

    def unit_gaps(self, n: int, rng: np.random.Generator) -> Floats:  # noqa: ARG002
        """Gaps of 1, shape (n,)."""
        return np.ones(n)

    @property
    def cv(self) -> float:
        """Coefficient of variation of the gaps."""
        return 0.0

    def first(self, n: int, rate: float, rng: np.random.Generator) -> Floats:  # noqa: ARG002
        """Draw the first `n` arrivals at `rate` per second: seconds, shape (n,)."""
        _check(rate, 1.0)
        return (np.arange(n, dtype=np.float64) + 0.5) / rate

    def within(self, rate: float, duration: float, rng: np.random.Generator) -> Floats:
        """Arrivals in [0, duration) at `rate` per second."""
        _check(rate, duration)
        return self.first(round(rate * duration), rate, rng)


@dataclass(frozen=True)
class EnvelopeArrivals(ArrivalProcess):
    """A Poisson process whose rate is constant within each of equal bins and proportional to `weights`.

    Unit-rate Poisson points are mapped through the inverse of the cumulative rate (Cinlar, Introduction to
    Stochastic Processes, 1975, chapter 4.7). The envelope is stretched or compressed onto the duration asked
    for.

    Attributes:
        weights: relative rate of each bin, not negative, at least one above 0.
    """

    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.weights or min(self.weights) < 0 or not 0 < sum(self.weights) < math.inf:
            raise BadInput("a rate envelope needs bins that are not negative, and one above 0")

    def within(self, rate: float, duration: float, rng: np.random.Generator) -> Floats:
        """Arrivals in [0, duration) at a mean of `rate` per second over the duration."""
        return self.within_bins(rate, duration, rng)[0]

    def within_bins(
        self, rate: float, duration: float, rng: np.random.Generator
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Draw the arrivals of `within` and the bin that each lies in, both of shape (n,)."""
        _check(rate, duration)
        weights = np.asarray(self.weights, dtype=np.float64)
        cumulative = np.concatenate([[0.0], np.cumsum(weights)])
        # The points of a unit-rate process on [0, rate * duration), as shares of the whole.
        points = PoissonArrivals().within(1.0, rate * duration, rng) / (rate * duration) * cumulative[-1]
        # `right` skips bins of rate 0; the minimum keeps a point that rounding put on the very end.
        bins = np.minimum(
            np.searchsorted(cumulative, points, side="right") - 1, int(np.flatnonzero(weights)[-1])
        )
        inside = (points - cumulative[bins]) / weights[bins]
        return (bins + inside) * (duration / len(weights)), bins.astype(np.int64)


def _check(rate: float, duration: float) -> None:
    if not (0 < rate < math.inf and 0 < duration < math.inf):
        raise BadInput(f"arrivals need a rate and a duration above 0, found {rate:g}/s and {duration:g} s")
    if rate * duration > MOST:
        what = f"{rate:g}/s for {duration:g} s are more than {MOST:,} requests, which no memory holds"
        raise BadInput(f"{what}, expected a lower rate or a shorter plan.duration")
