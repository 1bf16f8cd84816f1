"""Steady state: where the warm-up of a run ends, and whether the backlog grows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capsim.fleet.log import Outcome, RunLog

Floats = NDArray[np.float64]

BATCHES = 16
"""Means that the second half of a run is divided into: long enough to be nearly independent, enough for a trend."""
SIGNIFICANCE = 1e-3
"""One-sided; a plan looks at hundreds of runs, and a false alarm calls a healthy fleet overloaded."""
LEAST_GROWTH = 0.01
"""Share of the arrivals that must stay behind for a drift to matter: an overload of 1 %."""


def warm_up(values: Floats, batch: int = 5) -> int:
    """Find how many of the first values belong to the warm-up, by MSER.

    The cut minimizes the squared standard error of what is left, over means of `batch` values (MSER-5: White,
    Cobb and Spratt, "A comparison of five steady-state truncation heuristics for simulation", WSC 2000). It
    never takes
    more than half: a minimum beyond that says that the run is too short to tell.

    Args:
        values: one a request in order of arrival, finite, shape (n,).
        batch: values in one mean.

    Returns:
        A multiple of `batch`, at most n / 2.
    """
    count = len(values) // batch
    if count < 2:
        return 0
    means = values[: count * batch].reshape(count, batch).mean(axis=1)
    means = means - means.mean()  # smaller numbers keep the difference of sums below exact
    left = count - np.arange(count // 2 + 1)
    sums = np.cumsum(means[::-1])[::-1][: len(left)]
    squares = np.cumsum(means[::-1] ** 2)[::-1][: len(left)]
    return int(np.argmin((squares - sums**2 / left) / left**2)) * batch


@dataclass(frozen=True)
class Trend:
    """A straight line through equally spaced means.

    Attributes:
        slope: per mean.
        statistic: the slope over its standard error.
        freedom: degrees of freedom of the latter.
    """

    slope: float
    statistic: float
    freedom: float

    @property
    def p_value(self) -> float:
        """Chance of a slope at least so large where there is none, one-sided, by Student's t."""
        return _chance(self.statistic, self.freedom)


def trend(means: Floats) -> Trend:
    """Fit a line, and count the degrees of freedom of its slope's error by how alike neighbouring means are.

    Residuals that are alike from one mean to the next carry less information than their number says; n is
    replaced by ``n (1 - r) / (1 + r)`` with their lag-1 correlation r where that is positive (Santer et al.,
    "Statistical significance of trends and trend differences", JGR 2000).

    Args:
        means: at least 4, shape (b,).
    """
    count = len(means)
    places = np.arange(count) - (count - 1) / 2
    spread = float((places * places).sum())
    slope = float((places * means).sum()) / spread
    residuals = means - means.mean() - slope * places
    squares = float((residuals * residuals).sum())
    if squares <= 1e-24 * float((means * means).sum()):  # a line to all digits that float64 has
        return Trend(slope, math.inf if slope > 0 else -math.inf, count - 2)
    correlation = max(0.0, float((residuals[1:] * residuals[:-1]).sum()) / squares)
    freedom = max(1.0, count * (1 - correlation) / (1 + correlation) - 2)
    return Trend(slope, slope / math.sqrt(squares / freedom / spread), freedom)


def rise(levels: Floats) -> float:
    """Test whether a series that wanders rises: Student's t on its increments.

    An overloaded queue is a random walk with an upward drift; its increments are independent, whereas its
    level is so strongly correlated that `trend` has little power. In a steady queue increments cancel each
    other, which makes the test stricter than it says.

    Args:
        levels: values at equally spaced times, at least 3, shape (b,).

    Returns:
        Chance of so large a rise where there is no drift, one-sided.
    """
    steps = np.diff(levels)
    mean, error = float(steps.mean()), float(steps.std(ddof=1)) / np.sqrt(len(steps))
    if error <= 1e-12 * abs(mean):  # a line to all digits that float64 has
        return 0.0 if mean > 0 else 1.0
    return _chance(mean / error, len(steps) - 1)


def _chance(statistic: float, freedom: float) -> float:
    """Chance of a value at least so large under Student's t."""
    from scipy.special import stdtr  # loaded only where a test is made: scipy is slow to import

    return float(stdtr(freedom, -statistic))


@dataclass(frozen=True)
class Drift:
    """Whether the number of requests in the system grew over the second half of the arrivals.

    Attributes:
        slope: requests per second.
        growth: slope over the rate of arrivals in that half, the share of them that stayed behind.
        line: fitted to its means over time; None: too few requests to tell.
        levels: the number itself at equally spaced times.
    """

    slope: float
    growth: float
    line: Trend | None
    levels: Floats

    @property
    def p_value(self) -> float:
        """Chance of such a slope in a steady system, by two tests: so the smaller one counts twice (Bonferroni)."""
        return 1.0 if self.line is None else min(1.0, 2 * min(self.line.p_value, rise(self.levels)))

    @property
    def grows(self) -> bool:
        """Whether the growth is both large enough to matter and certain; only what is large is tested."""
        return self.growth > LEAST_GROWTH and self.p_value < SIGNIFICANCE


STEADY = Drift(0.0, 0.0, None, np.zeros(0))


def backlog_drift(log: RunLog) -> Drift:
    """Test whether the number in the system drifts upwards while requests arrive at a steady rate.

    The second half of the arrivals' time is divided into `BATCHES`, the exact time average of the number of
    requests in the system is taken in each, and its trend is tested, as is the rise of the number itself from
    edge to edge. Rejected and lost requests leave no work and do not count. The test says nothing about a demand
    whose rate itself rises.

    Returns:
        No drift (p-value 1) where fewer than two requests a batch arrive in that half.
    """
    requests = log.requests
    present = (requests.outcome == Outcome.COMPLETED) | (requests.outcome == Outcome.UNFINISHED)
    arrival = requests.arrival[present]
    if len(arrival) == 0:
        return STEADY
    finish = np.where(np.isnan(requests.finish), np.inf, requests.finish)[present]
    edges = np.linspace((arrival.min() + arrival.max()) / 2, arrival.max(), BATCHES + 1)
    width = float(edges[1] - edges[0])
    late = int(np.count_nonzero(arrival > edges[0]))
    if width == 0 or late < 2 * BATCHES:
        return STEADY
    spent = np.array([(np.minimum(finish, edge) - np.minimum(arrival, edge)).sum() for edge in edges])
    line = trend(np.diff(spent) / width)
    ended = np.searchsorted(np.sort(finish), edges, side="right")
    levels = np.searchsorted(np.sort(arrival), edges, side="right") - ended
    slope = line.slope / width
    return Drift(slope, slope * width * BATCHES / late, line, levels.astype(np.float64))
