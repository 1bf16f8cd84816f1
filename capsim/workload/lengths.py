"""Distributions of prompt and output lengths, tokens."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from capsim.errors import BadInput

_NORMAL = NormalDist()


class LengthDistribution(ABC):
    """A distribution over whole numbers of tokens, each at least 1."""

    @abstractmethod
    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Independent lengths, shape (n,), int64; the first ones are the same whatever `n` is."""

    @property
    @abstractmethod
    def expected(self) -> float:
        """Expected length, tokens."""

    @abstractmethod
    def quantile(self, share: float) -> float:
        """Least length that at least `share` (above 0, below 1) of the lengths do not exceed."""

    @abstractmethod
    def at_least(self, tokens: int) -> float:
        """Probability of a length of `tokens` or more."""


@dataclass(frozen=True)
class FixedLength(LengthDistribution):
    """Always `value` tokens."""

    value: int

    def __post_init__(self) -> None:
        if self.value < 1:
            raise BadInput(f"a length must be at least 1 token, found {self.value}")

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:  # noqa: ARG002
        """Independent lengths, shape (n,), int64."""
        return np.full(n, self.value, dtype=np.int64)

    @property
    def expected(self) -> float:
        """Expected length, tokens."""
        return float(self.value)

    def quantile(self, share: float) -> float:  # noqa: ARG002
        """Least length that at least `share` of the lengths do not exceed."""
        return float(self.value)

    def at_least(self, tokens: int) -> float:
        """Probability of a length of `tokens` or more."""
        return float(self.value >= tokens)


@dataclass(frozen=True)
class UniformLength(LengthDistribution):
    """Every whole number from `low` to `high`, both included, equally likely."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high:
            raise BadInput(
                f"a uniform length needs 1 <= low <= high, found low {self.low} and high {self.high}"
            )

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Independent lengths, shape (n,), int64; one random number each."""
        return self.low + (rng.random(n) * (self.high - self.low + 1)).astype(np.int64)

    @property
    def expected(self) -> float:
        """Expected length, tokens."""
        return (self.low + self.high) / 2

    def quantile(self, share: float) -> float:
        """Least length that at least `share` of the lengths do not exceed."""
        return float(self.low + max(0, math.ceil(share * (self.high - self.low + 1)) - 1))

    def at_least(self, tokens: int) -> float:
        """Probability of a length of `tokens` or more."""
        count = self.high - self.low + 1
        return min(max(0, self.high - tokens + 1), count) / count


@dataclass(frozen=True)
class LognormalLength(LengthDistribution):
    """A lognormal rounded to whole tokens, raised to 1 and cut to `max` where it lies outside.

    Attributes:
        mean: before rounding and cutting, tokens.
        cv: coefficient of variation before rounding and cutting, standard deviation over mean.
        max: longer ones count as this long; None: no limit.
    """

    mean: float
    cv: float
    max: int | None = None

    def __post_init__(self) -> None:
        if not (1 <= self.mean < math.inf and 0 <= self.cv < math.inf):
            raise BadInput(
                f"a lognormal length needs a mean of at least 1 and a cv of at least 0, "
                f"found mean {self.mean:g} and cv {self.cv:g}"
            )
        if self.max is not None and self.max < 1:
            raise BadInput(f"the largest length must be at least 1 token, found {self.max}")

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm."""
        return math.sqrt(math.log1p(self.cv**2))

    @property
    def mu(self) -> float:
        """Mean of the logarithm."""
        return math.log(self.mean) - self.sigma**2 / 2

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Independent lengths, shape (n,), int64."""
        lengths = np.rint(np.exp(self.mu + self.sigma * rng.standard_normal(n)))
        return np.clip(lengths, 1, self.max or np.iinfo(np.int64).max // 2).astype(np.int64)

    @property
    def expected(self) -> float:
        """Expected length after cutting and before rounding, tokens: E[min(X, max)] in closed form."""
        if self.max is None or self.sigma == 0:
            return min(self.mean, self.max or math.inf)
        deviation = (math.log(self.max) - self.mu) / self.sigma
        below = self.mean * _NORMAL.cdf(deviation - self.sigma)
        return below + self.max * (1 - _NORMAL.cdf(deviation))

    def quantile(self, share: float) -> float:
        """Least length that at least `share` of the lengths do not exceed."""
        length = round(math.exp(self.mu + self.sigma * _NORMAL.inv_cdf(share)))
        return float(min(max(1, length), self.max or math.inf))

    def at_least(self, tokens: int) -> float:
        """Probability of a length of `tokens` or more."""
        if tokens <= 1:
            return 1.0
        if tokens > (self.max or math.inf):
            return 0.0
        # What is rounded to `tokens` begins half a token before.
        distance = self.mu - math.log(tokens - 0.5)
        return _NORMAL.cdf(distance / self.sigma) if self.sigma > 0 else float(distance >= 0)


@dataclass(frozen=True)
class GeometricLength(LengthDistribution):
    """Geometric from 1 on: after every token the sequence ends with probability 1 / `mean`."""

    mean: float

    def __post_init__(self) -> None:
        if not 1 <= self.mean < math.inf:
            raise BadInput(f"a geometric length needs a mean of at least 1 token, found {self.mean:g}")

    def sample(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Independent lengths, shape (n,), int64."""
        return rng.geometric(1 / self.mean, n).astype(np.int64)

    @property
    def expected(self) -> float:
        """Expected length, tokens."""
        return self.mean

    def quantile(self, share: float) -> float:
        """Least length that at least `share` of the lengths do not exceed."""
        if self.mean == 1:
            return 1.0
        return float(max(1, math.ceil(math.log1p(-share) / math.log1p(-1 / self.mean))))

    def at_least(self, tokens: int) -> float:
        """Probability of a length of `tokens` or more."""
        return float((1 - 1 / self.mean) ** max(0, tokens - 1))
